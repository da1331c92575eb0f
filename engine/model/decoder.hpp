// What the architectures share: how a file becomes bound weights and buffers, and the pieces that most of their forward passes have in
// common. An architecture derives from it, names its layers' tensors and writes its forward pass out as a sequence of ops.
#pragma once

#include <string>
#include <vector>

#include "engine/model/model.hpp"
#include "engine/model/rope.hpp"
#include "engine/model/weights.hpp"

namespace vigil::model {

// A matrix and its bias, if it has one.
struct Projection {
  compute::Weight weight, bias;
};

struct FeedForward {
  compute::Weight gate, up, down;
};

// Experts behind a router, and the one that every token uses, if there is one.
struct Experts {
  Projection router, gate, up, down;
  compute::Weight shared_router, shared_gate, shared_up, shared_down;
};

class Decoder : public Model {
 public:
  int64_t window_layers() const override;
  Result<void> load(const Files& files, compute::Backend& backend, const compute::StepLimits& limits);

 protected:
  struct WantedBuffer {
    compute::Buffer* buffer;
    int64_t floats;
  };

  // What the configuration must and must not have.
  virtual Result<void> check() const = 0;
  // Binds the tensors of layer `i`, whose names begin with `block` ("blk.3.").
  virtual void bind_layer(WeightBinder& weights, int64_t i, const std::string& block) = 0;
  // By default one rope without scaling factors of the file's own.
  virtual Result<void> bind_ropes(WeightBinder& weights, compute::Backend& backend);
  virtual compute::RopeKind rope_kind() const { return compute::RopeKind::half_split; }
  // Every so many-th layer sees everything, the others have the configuration's window; 0 = none has.
  virtual int64_t window_pattern() const { return 0; }
  virtual SectionOrder section_order() const { return SectionOrder::one_by_one; }
  // Buffers beside those below, for steps of `rows` rows.
  virtual std::vector<WantedBuffer> more_buffers(int64_t rows) {
    (void)rows;
    return {};
  }

  Projection bind_projection(WeightBinder& weights, const std::string& name, int64_t rows, int64_t cols);       // bias as the file has it
  Projection bind_biased(WeightBinder& weights, const std::string& name, int64_t rows, int64_t cols);           // bias needed
  FeedForward bind_feed_forward(WeightBinder& weights, const std::string& block);
  Experts bind_experts(WeightBinder& weights, const std::string& block);

  // x = embeddings of ids times `scale`, and pictures' rows as they are; angles of the first rope
  void begin(compute::Ops& ops, int64_t rows, float scale = 1) const;
  void project(compute::Ops& ops, const Projection& projection, compute::Buffer in, compute::Buffer out, int64_t rows) const;
  void norm(compute::Ops& ops, compute::Buffer in, const compute::Weight& gain, compute::Buffer out, int64_t rows) const;
  // delta = down (gate(x) * up(x)), x being normed
  void feed_forward(compute::Ops& ops, const FeedForward& part, compute::Gate kind, int64_t rows) const;
  // delta = the chosen experts' sum, and the shared expert's answer
  void mix_experts(compute::Ops& ops, const Experts& part, compute::Gate kind, int64_t rows) const;
  void end(compute::Ops& ops, Outputs outputs) const;             // scores and hidden states of the step's outputs

  float epsilon() const { return static_cast<float>(config_.epsilon); }
  float head_scale() const;  // 1 / sqrt(head_dim)

  // Where a layer has its K and V, in models some of whose layers have a window.
  struct LayerCache {
    const compute::KvCache& cache;
    int64_t layer;   // of that cache
    int64_t window;  // 0 = it sees everything
  };
  LayerCache cache_of(const compute::Caches& caches, int64_t layer) const;

  compute::Rope rope_;
  compute::Buffer x_, normed_;             // [rows, width], as delta_
  compute::Buffer q_, mixed_;              // [rows, heads, head_dim]
  compute::Buffer k_, v_;                  // [rows, kv_heads, head_dim]
  compute::Buffer gate_, up_;              // [rows, ff], or that of an expert for each choice
  compute::Buffer angles_;                 // [rows, rotated]
  compute::Buffer logits_, choice_, many_, share_gate_;  // experts: [rows, experts], [rows, used, 2], [rows, used, width], [rows]

 private:
  Result<void> allocate(compute::Backend& backend, const compute::StepLimits& limits);
  compute::Weight embedding_, output_norm_, output_;
};

template <typename Architecture>
Result<std::unique_ptr<Model>> load_decoder(std::unique_ptr<Architecture> model, const Files& files, compute::Backend& backend,
                                            const compute::StepLimits& limits) {
  if (Result<void> loaded = model->load(files, backend, limits); !loaded) return Error{loaded.error()};
  return std::unique_ptr<Model>(std::move(model));
}

}  // namespace vigil::model
