// qwen35, qwen35moe and qwen3next (Qwen Team 2025): every n-th layer is attention with an output gate and rope on a part of each head, the
// others are gated DeltaNet (Yang, Kautz, Hatamizadeh 2024). The positions of qwen35's M-RoPE
// differ only inside pictures.
#include "engine/model/architectures.hpp"
#include "engine/model/decoder.hpp"

namespace vigil::model {
namespace {

// How a file stores the rates and decays of value heads, and which key head each of those uses.
enum class Layout {
  separate,  // ssm_beta and ssm_alpha; value heads stand so that they use key heads in turn
  fused,     // ssm_ba, for each key head the rates and then the decays of its value heads, which stand together
};

struct Attention {
  compute::Weight q_and_gate, k, v, out, q_norm, k_norm;
};

struct Delta {
  compute::Weight qkv, gate, kernels, beta, alpha, beta_alpha, decay, decay_bias, norm, out;
};

struct Layer {
  compute::Weight attention_norm, ff_norm;
  Attention attention;  // one of these two
  Delta delta;
  FeedForward ff;       // one of these two
  Experts experts;
};

class Qwen35 final : public Decoder {
 public:
  explicit Qwen35(Layout layout) : layout_(layout) {}

  int64_t kv_layers() const override { return config_.layers / config_.recurrent.attention_every; }
  compute::StateShape state_shape() const override {
    const RecurrentConfig& r = config_.recurrent;
    return {config_.layers - kv_layers(), r.kernel, r.key_heads, r.value_heads, r.key_dim, r.value_dim, 0};
  }

  void forward(compute::Ops& ops, const compute::Caches& caches, int64_t rows, Outputs outputs) const override {
    const Config& c = config_;
    begin(ops, rows);                                             // x [rows, width], angles [rows, rotated]
    int64_t attention_layer = 0, delta_layer = 0;
    for (int64_t i = 0; i < c.layers; ++i) {
      const Layer& layer = layers_[static_cast<size_t>(i)];
      norm(ops, x_, layer.attention_norm, normed_, rows);
      if (has_attention(i)) attend(ops, layer.attention, caches.kv, attention_layer++, rows);
      else remember(ops, layer.delta, caches.states, delta_layer++, rows);
      ops.add(x_, delta_, c.width, rows);
      norm(ops, x_, layer.ff_norm, normed_, rows);
      if (c.experts.count == 0) feed_forward(ops, layer.ff, compute::Gate::silu, rows);
      else mix_experts(ops, layer.experts, compute::Gate::silu, rows);
      ops.add(x_, delta_, c.width, rows);
    }
    end(ops, outputs);
  }

  PictureRule picture_rule() const override { return {.on_grid = !config_.rope_sections.empty()}; }
  SectionOrder section_order() const override { return SectionOrder::in_turn; }

 private:
  bool has_attention(int64_t i) const { return (i + 1) % config_.recurrent.attention_every == 0; }

  // delta = the attention part of normed
  void attend(compute::Ops& ops, const Attention& part, const compute::KvCache& cache, int64_t i, int64_t rows) const {
    const Config& c = config_;
    ops.matmul(part.q_and_gate, normed_, q_and_gate_, rows);      // [rows, heads, 2, head_dim]
    ops.split(q_and_gate_, q_, out_gate_, c.head_dim, rows * c.heads);
    ops.matmul(part.k, normed_, k_, rows);                        // [rows, kv_heads, head_dim]
    ops.matmul(part.v, normed_, v_, rows);                        // [rows, kv_heads, head_dim]
    norm(ops, q_, part.q_norm, q_, rows * c.heads);               // head by head
    norm(ops, k_, part.k_norm, k_, rows * c.kv_heads);
    ops.rope_and_store(rope_, angles_, q_, k_, v_, cache, i, c.heads, rows);
    ops.attention(q_, cache, i, c.heads, {head_scale(), 0, {}}, mixed_, rows);
    ops.sigmoid_gate(mixed_, out_gate_, c.heads * c.head_dim, c.heads * c.head_dim, rows);
    ops.matmul(part.out, mixed_, delta_, rows);                   // [rows, width]
  }

  // delta = the DeltaNet part of normed
  void remember(compute::Ops& ops, const Delta& part, const compute::StateCache& states, int64_t i, int64_t rows) const {
    const RecurrentConfig& r = config_.recurrent;
    ops.matmul(part.qkv, normed_, qkv_, rows);                    // [rows, channels]
    ops.matmul(part.gate, normed_, out_gate_, rows);              // [rows, value_heads, value_dim]
    if (layout_ == Layout::separate) {
      ops.matmul(part.beta, normed_, beta_, rows);                // [rows, value_heads]
      ops.matmul(part.alpha, normed_, alpha_, rows);
    } else {
      ops.matmul(part.beta_alpha, normed_, beta_alpha_, rows);    // [rows, key_heads, 2, value_heads / key_heads]
      ops.split(beta_alpha_, beta_, alpha_, r.value_heads / r.key_heads, rows * r.key_heads);
    }
    ops.convolve(part.kernels, states, i, qkv_, convolved_, rows);
    const compute::HeadOrder order = layout_ == Layout::separate ? compute::HeadOrder::tiled : compute::HeadOrder::grouped;
    ops.delta_net({convolved_, beta_, alpha_, part.decay, part.decay_bias, order, epsilon()}, states, i, remembered_, rows);
    norm(ops, remembered_, part.norm, remembered_, rows * r.value_heads);
    ops.gate(compute::Gate::silu, out_gate_, remembered_, r.value_heads * r.value_dim, rows);
    ops.matmul(part.out, out_gate_, delta_, rows);                // [rows, width]
  }

  Result<void> check() const override {
    if (Result<void> recurrent = need_recurrent(config_); !recurrent) return recurrent;
    if (config_.recurrent.attention_every > config_.layers) {
      return Error{config_.architecture + ".full_attention_interval " + std::to_string(config_.recurrent.attention_every) +
                   " leaves no layer of " + std::to_string(config_.layers) + " with attention"};
    }
    return config_.architecture == "qwen35" ? need_dense() : need_experts(config_);
  }
  Result<void> need_dense() const {
    if (Result<void> dense = refuse_experts(config_); !dense) return dense;
    return need_feed_forward(config_);
  }

  void bind_layer(WeightBinder& weights, int64_t i, const std::string& block) override {
    const int64_t width = config_.width;
    Layer layer;
    layer.attention_norm = weights.vector(block + "attn_norm.weight", width);
    if (has_attention(i)) layer.attention = bind_attention(weights, block);
    else layer.delta = bind_delta(weights, block);
    layer.ff_norm = weights.vector(block + "post_attention_norm.weight", width);
    if (config_.experts.count == 0) layer.ff = bind_feed_forward(weights, block);
    else layer.experts = bind_experts(weights, block);
    layers_.push_back(layer);
  }

  Attention bind_attention(WeightBinder& weights, const std::string& block) const {
    const int64_t width = config_.width, q_width = config_.heads * config_.head_dim, kv_width = config_.kv_heads * config_.head_dim;
    Attention part;
    part.q_and_gate = weights.matrix(block + "attn_q.weight", 2 * q_width, width);
    part.k = weights.matrix(block + "attn_k.weight", kv_width, width);
    part.v = weights.matrix(block + "attn_v.weight", kv_width, width);
    part.out = weights.matrix(block + "attn_output.weight", width, q_width);
    part.q_norm = weights.vector(block + "attn_q_norm.weight", config_.head_dim);
    part.k_norm = weights.vector(block + "attn_k_norm.weight", config_.head_dim);
    return part;
  }

  Delta bind_delta(WeightBinder& weights, const std::string& block) const {
    const RecurrentConfig& r = config_.recurrent;
    const int64_t width = config_.width, inner = r.value_heads * r.value_dim, channels = state_shape().channels();
    Delta part;
    part.qkv = weights.matrix(block + "attn_qkv.weight", channels, width);
    part.gate = weights.matrix(block + "attn_gate.weight", inner, width);
    part.kernels = weights.values(block + "ssm_conv1d.weight", channels, r.kernel);
    if (layout_ == Layout::separate) {
      part.beta = weights.matrix(block + "ssm_beta.weight", r.value_heads, width);
      part.alpha = weights.matrix(block + "ssm_alpha.weight", r.value_heads, width);
    } else {
      part.beta_alpha = weights.matrix(block + "ssm_ba.weight", 2 * r.value_heads, width);
    }
    part.decay = weights.vector(block + "ssm_a", r.value_heads);
    part.decay_bias = weights.vector(block + "ssm_dt.bias", r.value_heads);
    part.norm = weights.vector(block + "ssm_norm.weight", r.value_dim);
    part.out = weights.matrix(block + "ssm_out.weight", width, inner);
    return part;
  }

  std::vector<WantedBuffer> more_buffers(int64_t rows) override {
    const RecurrentConfig& r = config_.recurrent;
    const int64_t q_width = config_.heads * config_.head_dim, inner = r.value_heads * r.value_dim, channels = state_shape().channels();
    return {{&q_and_gate_, rows * 2 * q_width}, {&out_gate_, rows * std::max(q_width, inner)},
            {&qkv_, rows * channels},           {&convolved_, rows * channels},
            {&beta_, rows * r.value_heads},     {&alpha_, rows * r.value_heads},
            {&beta_alpha_, rows * 2 * r.value_heads}, {&remembered_, rows * inner}};
  }

  const Layout layout_;
  std::vector<Layer> layers_;
  compute::Buffer q_and_gate_, out_gate_, qkv_, convolved_, beta_, alpha_, beta_alpha_, remembered_;
};

}  // namespace

Result<std::unique_ptr<Model>> make_qwen35(const Files& files, compute::Backend& backend, const compute::StepLimits& limits) {
  return load_decoder(std::make_unique<Qwen35>(Layout::separate), files, backend, limits);
}

Result<std::unique_ptr<Model>> make_qwen3next(const Files& files, compute::Backend& backend, const compute::StepLimits& limits) {
  return load_decoder(std::make_unique<Qwen35>(Layout::fused), files, backend, limits);
}

}  // namespace vigil::model
