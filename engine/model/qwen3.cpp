// qwen3 and qwen3moe (Yang et al. 2025): no biases; q and k are normalised head by head before rope. qwen3moe's feed-forward parts are experts.
#include "engine/model/architectures.hpp"
#include "engine/model/decoder.hpp"

namespace vigil::model {
namespace {

enum class Inner { dense, experts };

struct Layer {
  compute::Weight attention_norm, q, k, v, out, q_norm, k_norm, ff_norm;
  FeedForward ff;   // one of these two
  Experts experts;
};

class Qwen3 final : public Decoder {
 public:
  explicit Qwen3(Inner inner) : inner_(inner) {}

  void forward(compute::Ops& ops, const compute::Caches& caches, int64_t rows, Outputs outputs) const override {
    const Config& c = config_;
    begin(ops, rows);                                              // x [rows, width], angles [rows, rotated]
    for (int64_t i = 0; i < c.layers; ++i) {
      const Layer& layer = layers_[static_cast<size_t>(i)];
      norm(ops, x_, layer.attention_norm, normed_, rows);
      ops.matmul(layer.q, normed_, q_, rows);                      // [rows, heads, head_dim]
      ops.matmul(layer.k, normed_, k_, rows);                      // [rows, kv_heads, head_dim]
      ops.matmul(layer.v, normed_, v_, rows);                      // [rows, kv_heads, head_dim]
      norm(ops, q_, layer.q_norm, q_, rows * c.heads);             // head by head
      norm(ops, k_, layer.k_norm, k_, rows * c.kv_heads);
      ops.rope_and_store(rope_, angles_, q_, k_, v_, caches.kv, i, c.heads, rows);
      ops.attention(q_, caches.kv, i, c.heads, {head_scale(), 0, {}}, mixed_, rows);
      ops.matmul(layer.out, mixed_, delta_, rows);                 // [rows, width]
      ops.add(x_, delta_, c.width, rows);
      norm(ops, x_, layer.ff_norm, normed_, rows);
      if (inner_ == Inner::dense) feed_forward(ops, layer.ff, compute::Gate::silu, rows);
      else mix_experts(ops, layer.experts, compute::Gate::silu, rows);
      ops.add(x_, delta_, c.width, rows);
    }
    end(ops, outputs);
  }

 private:
  Result<void> check() const override {
    if (inner_ == Inner::experts) return need_experts(config_);
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
    layer.ff_norm = weights.vector(block + "ffn_norm.weight", width);
    if (inner_ == Inner::dense) layer.ff = bind_feed_forward(weights, block);
    else layer.experts = bind_experts(weights, block);
    layers_.push_back(layer);
  }

  const Inner inner_;
  std::vector<Layer> layers_;
};

}  // namespace

Result<std::unique_ptr<Model>> make_qwen3(const Files& files, compute::Backend& backend, const compute::StepLimits& limits) {
  return load_decoder(std::make_unique<Qwen3>(Inner::dense), files, backend, limits);
}

Result<std::unique_ptr<Model>> make_qwen3moe(const Files& files, compute::Backend& backend, const compute::StepLimits& limits) {
  return load_decoder(std::make_unique<Qwen3>(Inner::experts), files, backend, limits);
}

}  // namespace vigil::model
