// gemma3 (Gemma Team 2025): norms before and after both parts of a layer, scaled embeddings, GELU, five windowed layers to one that sees
// everything; windowed layers have a rope of their own, which is never stretched.
#include <cmath>

#include "engine/model/architectures.hpp"
#include "engine/model/decoder.hpp"

namespace vigil::model {
namespace {

constexpr int64_t usual_pattern = 6;
constexpr double usual_window_rope_base = 10'000;
constexpr int64_t layers_of_27b = 62;  // the one size whose scores are scaled by width / heads instead of head_dim

struct Layer {
  compute::Weight attention_norm, q, k, v, out, q_norm, k_norm, after_attention_norm, ff_norm, after_ff_norm;
  FeedForward ff;
};

class Gemma3 final : public Decoder {
 public:
  void forward(compute::Ops& ops, const compute::Caches& caches, int64_t rows, Outputs outputs) const override {
    const Config& c = config_;
    begin(ops, rows, static_cast<float>(std::sqrt(static_cast<double>(c.width))));  // x [rows, width], angles [rows, rotated]
    ops.rope_angles(window_rope_, window_angles_, rows);
    for (int64_t i = 0; i < c.layers; ++i) {
      const Layer& layer = layers_[static_cast<size_t>(i)];
      const LayerCache own = cache_of(caches, i);
      const bool windowed = own.window > 0;
      norm(ops, x_, layer.attention_norm, normed_, rows);
      ops.matmul(layer.q, normed_, q_, rows);                      // [rows, heads, head_dim]
      ops.matmul(layer.k, normed_, k_, rows);                      // [rows, kv_heads, head_dim]
      ops.matmul(layer.v, normed_, v_, rows);                      // [rows, kv_heads, head_dim]
      norm(ops, q_, layer.q_norm, q_, rows * c.heads);             // head by head
      norm(ops, k_, layer.k_norm, k_, rows * c.kv_heads);
      ops.rope_and_store(windowed ? window_rope_ : rope_, windowed ? window_angles_ : angles_, q_, k_, v_, own.cache, own.layer, c.heads, rows);
      ops.attention(q_, own.cache, own.layer, c.heads, {score_scale(), own.window, {}}, mixed_, rows);
      ops.matmul(layer.out, mixed_, delta_, rows);                 // [rows, width]
      norm(ops, delta_, layer.after_attention_norm, delta_, rows);
      ops.add(x_, delta_, c.width, rows);
      norm(ops, x_, layer.ff_norm, normed_, rows);
      feed_forward(ops, layer.ff, compute::Gate::gelu, rows);
      norm(ops, delta_, layer.after_ff_norm, delta_, rows);
      ops.add(x_, delta_, c.width, rows);
    }
    end(ops, outputs);
  }
  PictureRule picture_rule() const override { return {.see_each_other = true}; }

 private:
  int64_t window_pattern() const override { return config_.window_pattern > 0 ? config_.window_pattern : usual_pattern; }
  float score_scale() const {
    if (config_.layers != layers_of_27b) return head_scale();
    return static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.width) / static_cast<double>(config_.heads)));
  }

  Result<void> check() const override {
    if (Result<void> dense = refuse_experts(config_); !dense) return dense;
    return need_feed_forward(config_);
  }

  void bind_layer(WeightBinder& weights, int64_t, const std::string& block) override {
    const int64_t width = config_.width, q_width = config_.heads * config_.head_dim, kv_width = config_.kv_heads * config_.head_dim;
    Layer layer;
    layer.attention_norm = weights.vector(block + "attn_norm.weight", width);
    layer.q = weights.matrix(block + "attn_q.weight", q_width, width);
    layer.k = weights.matrix(block + "attn_k.weight", kv_width, width);
    layer.v = weights.matrix(block + "attn_v.weight", kv_width, width);
    layer.out = weights.matrix(block + "attn_output.weight", width, q_width);
    layer.q_norm = weights.vector(block + "attn_q_norm.weight", config_.head_dim);
    layer.k_norm = weights.vector(block + "attn_k_norm.weight", config_.head_dim);
    layer.after_attention_norm = weights.vector(block + "post_attention_norm.weight", width);
    layer.after_ff_norm = weights.vector(block + "post_ffw_norm.weight", width);
    layer.ff_norm = weights.vector(block + "ffn_norm.weight", width);
    layer.ff = bind_feed_forward(weights, block);
    layers_.push_back(layer);
  }

  Result<void> bind_ropes(WeightBinder& weights, compute::Backend& backend) override {
    if (Result<void> bound = Decoder::bind_ropes(weights, backend); !bound) return bound;
    const double base = config_.window_rope_base > 0 ? config_.window_rope_base : usual_window_rope_base;
    Result<compute::Rope> rope = make_rope(config_, base, {}, {}, rope_kind(), backend);
    if (!rope) return Error{rope.error()};
    window_rope_ = *rope;
    return {};
  }

  std::vector<WantedBuffer> more_buffers(int64_t rows) override { return {{&window_angles_, rows * config_.rotated}}; }

  std::vector<Layer> layers_;
  compute::Rope window_rope_;
  compute::Buffer window_angles_;  // [rows, rotated]
};

}  // namespace

Result<std::unique_ptr<Model>> make_gemma3(const Files& files, compute::Backend& backend, const compute::StepLimits& limits) {
  return load_decoder(std::make_unique<Gemma3>(), files, backend, limits);
}

}  // namespace vigil::model
