// One tile of a picture to embeddings of the text model: patches, a transformer, a projector (Dosovitskiy et al. 2021, and each projector's own
// model). Loaded from a projector file, which is untrusted. Not here: what a picture is made of (picture.hpp), the protocol.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "protocol/result.hpp"
#include "vision/encoder/arithmetic.hpp"
#include "vision/encoder/config.hpp"
#include "vision/encoder/weights.hpp"

namespace vigil::vision {

struct Embeddings {
  int64_t columns = 0, rows = 0;  // of the grid that they lie in, row by row
  std::vector<float> values;      // [rows * columns, out_width]
};

// Which patch stands where in the sequence, who sees whom, and where it lies.
struct PatchOrder {
  std::vector<int64_t> patches;   // by place in the sequence: row * columns + column
  std::vector<Segment> windows;   // runs of the sequence that see each other in windowed layers
  std::vector<int64_t> cells;     // by_cells: by place of a cell in the sequence, its place in the grid of embeddings
};
PatchOrder patch_order(int64_t columns, int64_t rows, const EncoderConfig& config);

class Encoder {
 public:
  static Result<std::unique_ptr<Encoder>> load(const std::string& path, int threads, const EncoderChoices& choices);
  static Result<std::unique_ptr<Encoder>> load(const gguf::File& file, const gguf::ByteSource& source, int threads, const EncoderChoices& choices);

  const EncoderConfig& config() const { return config_; }
  uint64_t weight_bytes() const { return weight_bytes_; }
  // The tile has a size that the configuration's preprocessing gives.
  Embeddings encode(const Tile& tile);

 private:
  struct Layer {
    Norm before_attention, before_ff;
    Linear q, k, v, qkv, out;  // either q, k and v or all in one
    Linear gate, up, down;
  };
  explicit Encoder(int threads) : arithmetic_(threads) {}
  void bind(TensorReader& tensors);
  void bind_embedding(TensorReader& tensors);
  Layer bind_layer(TensorReader& tensors, const std::string& block) const;
  void bind_projector(TensorReader& tensors);

  std::vector<float> patches(const Tile& tile, const PatchOrder& order);  // [sequence, width], with the class token if there is one
  void add_positions(std::vector<float>& x, const PatchOrder& order, int64_t columns, int64_t rows);
  void norm(const Norm& by, std::vector<float>& in, std::vector<float>& out);
  void run_layer(const Layer& layer, std::span<const Segment> segments, const std::vector<float>& angles, std::vector<float>& x);
  Embeddings project(std::vector<float> x, const PatchOrder& order, int64_t columns, int64_t rows);

  EncoderConfig config_;
  Arithmetic arithmetic_;
  uint64_t weight_bytes_ = 0;
  Linear embedding_;               // [width, 3 * patch * patch]
  std::vector<float> class_token_;
  Matrix positions_;               // [patches of a square tile, and one more with a class token, width]
  Norm before_layers_, after_layers_;
  std::vector<Layer> layers_;
  Norm projector_norm_;
  Linear first_, second_;          // of the projector
};

}  // namespace vigil::vision
