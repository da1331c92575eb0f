// A picture's bytes to the rows that stand in a prompt for it: decoded, cut into tiles, encoded, and with the text model's marks between
// tiles where a model expects them. Not here: commands and files (serve.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "protocol/result.hpp"
#include "vision/encoder/encoder.hpp"
#include "vision/image/decode.hpp"
#include "vision/record.hpp"

namespace vigil::vision {

// Rows of the text model's own embedding that stand between the tiles of a picture, by what they stand for. Idefics 3 and SmolVLM read
//   <row_1_col_1> tile <fake_token_around_image> <row_1_col_2> tile ... line break <fake...> <row_2_col_1> tile ... two line breaks <fake...>
//   <global-img> tile
// with <fake_token_around_image> around the whole, which the daemon puts there (transformers, processing_idefics3.py).
struct TileMarks {
  using Row = std::vector<float>;
  Row around, whole;
  std::vector<Row> line_break, end_of_tiles;          // a vocabulary may need several tokens for them
  std::map<std::pair<int64_t, int64_t>, Row> places;  // row and column of a tile, from 1
};

// From the text model's file: its header, vocabulary and the rows that are needed, by pread. `side`: tiles along a side at most.
Result<TileMarks> read_tile_marks(const std::string& model, int64_t width, int64_t side);
// Whether the text model takes rows of this width; an error names both numbers.
Result<void> check_text_model(const std::string& model, int64_t width);

struct EncodedPicture {
  RecordShape shape;
  std::vector<float> values;
};

class PictureEncoder {
 public:
  // `model` may be empty when the projector needs no marks.
  static Result<std::unique_ptr<PictureEncoder>> load(const std::string& projector, const std::string& model, int threads, const EncoderChoices& choices);
  const Encoder& encoder() const { return *encoder_; }
  // An error is the picture's fault, or a fault() of ours.
  Result<EncodedPicture> encode(std::span<const uint8_t> bytes, const DecodeLimits& limits);

 private:
  explicit PictureEncoder(std::unique_ptr<Encoder> encoder) : encoder_(std::move(encoder)) {}
  std::unique_ptr<Encoder> encoder_;
  TileMarks marks_;
};

}  // namespace vigil::vision
