// qwen2 (Yang et al. 2024): llama's layout with biases on q, k and v, rope on the halves of a head. qwen2vl is the same for text: its M-RoPE
// gives time, height and width sections of a head their own positions (Wang et al. 2024), and they differ only inside pictures.
#include "engine/model/architectures.hpp"
#include "engine/model/decoder.hpp"

namespace vigil::model {
namespace {

struct Layer {
  compute::Weight attention_norm, ff_norm;
  Projection q, k, v, out;
  FeedForward ff;
};

class Qwen2 final : public Decoder {
 public:
  void forward(compute::Ops& ops, const compute::Caches& caches, int64_t rows, Outputs outputs) const override {
    const Config& c = config_;
    begin(ops, rows);                                  // x [rows, width], angles [rows, rotated]
    for (int64_t i = 0; i < c.layers; ++i) {
      const Layer& layer = layers_[static_cast<size_t>(i)];
      norm(ops, x_, layer.attention_norm, normed_, rows);
      project(ops, layer.q, normed_, q_, rows);        // [rows, heads, head_dim]
      project(ops, layer.k, normed_, k_, rows);        // [rows, kv_heads, head_dim]
      project(ops, layer.v, normed_, v_, rows);        // [rows, kv_heads, head_dim]
      ops.rope_and_store(rope_, angles_, q_, k_, v_, caches.kv, i, c.heads, rows);
      ops.attention(q_, caches.kv, i, c.heads, {head_scale(), 0, {}}, mixed_, rows);
      project(ops, layer.out, mixed_, delta_, rows);   // [rows, width]
      ops.add(x_, delta_, c.width, rows);
      norm(ops, x_, layer.ff_norm, normed_, rows);
      feed_forward(ops, layer.ff, compute::Gate::silu, rows);
      ops.add(x_, delta_, c.width, rows);
    }
    end(ops, outputs);
  }
  PictureRule picture_rule() const override { return {.on_grid = !config_.rope_sections.empty()}; }

 private:
  Result<void> check() const override {
    if (Result<void> dense = refuse_experts(config_); !dense) return dense;
    return need_feed_forward(config_);
  }

  void bind_layer(WeightBinder& weights, int64_t, const std::string& block) override {
    const int64_t width = config_.width, q_width = config_.heads * config_.head_dim, kv_width = config_.kv_heads * config_.head_dim;
    Layer layer;
    layer.attention_norm = weights.vector(block + "attn_norm.weight", width);
    layer.q = bind_biased(weights, block + "attn_q", q_width, width);
    layer.k = bind_biased(weights, block + "attn_k", kv_width, width);
    layer.v = bind_biased(weights, block + "attn_v", kv_width, width);
    layer.out = bind_projection(weights, block + "attn_output", width, q_width);
    layer.ff_norm = weights.vector(block + "ffn_norm.weight", width);
    layer.ff = bind_feed_forward(weights, block);
    layers_.push_back(layer);
  }

  std::vector<Layer> layers_;
};

}  // namespace

Result<std::unique_ptr<Model>> make_qwen2(const Files& files, compute::Backend& backend, const compute::StepLimits& limits) {
  return load_decoder(std::make_unique<Qwen2>(), files, backend, limits);
}

}  // namespace vigil::model
