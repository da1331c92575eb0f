// gpt-oss (OpenAI 2025): experts with biases and a clamped SwiGLU, biases everywhere, attention sinks, every other layer windowed, YaRN.
#include "engine/model/architectures.hpp"
#include "engine/model/decoder.hpp"

namespace vigil::model {
namespace {

constexpr int64_t usual_pattern = 2;

struct Layer {
  compute::Weight attention_norm, sinks, ff_norm;
  Projection q, k, v, out;
  Experts experts;
};

class GptOss final : public Decoder {
 public:
  void forward(compute::Ops& ops, const compute::Caches& caches, int64_t rows, Outputs outputs) const override {
    const Config& c = config_;
    begin(ops, rows);                                  // x [rows, width], angles [rows, rotated]
    for (int64_t i = 0; i < c.layers; ++i) {
      const Layer& layer = layers_[static_cast<size_t>(i)];
      const LayerCache own = cache_of(caches, i);
      norm(ops, x_, layer.attention_norm, normed_, rows);
      project(ops, layer.q, normed_, q_, rows);        // [rows, heads, head_dim]
      project(ops, layer.k, normed_, k_, rows);        // [rows, kv_heads, head_dim]
      project(ops, layer.v, normed_, v_, rows);        // [rows, kv_heads, head_dim]
      ops.rope_and_store(rope_, angles_, q_, k_, v_, own.cache, own.layer, c.heads, rows);
      ops.attention(q_, own.cache, own.layer, c.heads, {head_scale(), own.window, layer.sinks}, mixed_, rows);
      project(ops, layer.out, mixed_, delta_, rows);   // [rows, width]
      ops.add(x_, delta_, c.width, rows);
      norm(ops, x_, layer.ff_norm, normed_, rows);
      mix_experts(ops, layer.experts, compute::Gate::clamped_silu, rows);
      ops.add(x_, delta_, c.width, rows);
    }
    end(ops, outputs);
  }

 private:
  int64_t window_pattern() const override { return config_.window_pattern > 0 ? config_.window_pattern : usual_pattern; }

  Result<void> check() const override {
    if (Result<void> window = need_window(config_); !window) return window;
    return need_experts(config_);
  }

  void bind_layer(WeightBinder& weights, int64_t, const std::string& block) override {
    const int64_t width = config_.width, q_width = config_.heads * config_.head_dim, kv_width = config_.kv_heads * config_.head_dim;
    Layer layer;
    layer.attention_norm = weights.vector(block + "attn_norm.weight", width);
    layer.q = bind_biased(weights, block + "attn_q", q_width, width);
    layer.k = bind_biased(weights, block + "attn_k", kv_width, width);
    layer.v = bind_biased(weights, block + "attn_v", kv_width, width);
    layer.out = bind_biased(weights, block + "attn_output", width, q_width);
    layer.sinks = weights.vector(block + "attn_sinks.weight", config_.heads);
    layer.ff_norm = weights.vector(block + "post_attention_norm.weight", width);
    layer.experts = bind_experts(weights, block);
    layers_.push_back(layer);
  }

  std::vector<Layer> layers_;
};

}  // namespace

Result<std::unique_ptr<Model>> make_gpt_oss(const Files& files, compute::Backend& backend, const compute::StepLimits& limits) {
  return load_decoder(std::make_unique<GptOss>(), files, backend, limits);
}

}  // namespace vigil::model
