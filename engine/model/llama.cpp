// Tensor names: ggml project, docs/gguf.md. A file without output.weight uses the embedding for its output.
#include "engine/model/llama.hpp"

#include <cmath>

#include "engine/model/weights.hpp"

namespace vigil::model {
namespace {

struct Layer {
  compute::Weight attention_norm, q, k, v, attention_out;
  compute::Weight ff_norm, gate, up, down;
};

class Llama final : public Model {
 public:
  Result<void> load(const gguf::File& file, std::span<const std::byte> bytes, compute::Backend& backend, const compute::StepLimits& limits) {
    Result<Config> config = read_config(file);
    if (!config) return Error{config.error()};
    config_ = *config;
    Result<int64_t> vocabulary = vocabulary_size(file);
    if (!vocabulary) return Error{vocabulary.error()};
    vocabulary_ = *vocabulary;
    if (Result<void> bound = bind(file, bytes, backend); !bound) return bound;
    return allocate(backend, limits);
  }

  void forward(compute::Ops& ops, const compute::KvCache& cache, int64_t rows, int64_t outputs) const override {
    const Config& c = config_;
    const float epsilon = static_cast<float>(c.epsilon);
    const float scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
    ops.embed(embedding_, x_, rows);             // x [rows, width]
    ops.rope_angles(rope_, angles_, rows);       // [rows, rotated]
    for (int64_t i = 0; i < c.layers; ++i) {
      const Layer& layer = layers_[static_cast<size_t>(i)];
      ops.rms_norm(x_, layer.attention_norm, epsilon, normed_, rows);
      ops.matmul(layer.q, normed_, q_, rows);    // [rows, heads, head_dim]
      ops.matmul(layer.k, normed_, k_, rows);    // [rows, kv_heads, head_dim]
      ops.matmul(layer.v, normed_, v_, rows);    // [rows, kv_heads, head_dim]
      ops.rope_and_store(rope_, angles_, q_, k_, v_, cache, i, c.heads, rows);
      ops.attention(q_, cache, i, c.heads, scale, mixed_, rows);  // [rows, heads, head_dim]
      ops.matmul(layer.attention_out, mixed_, delta_, rows);      // [rows, width]
      ops.add(x_, delta_, c.width, rows);
      ops.rms_norm(x_, layer.ff_norm, epsilon, normed_, rows);
      ops.matmul(layer.gate, normed_, gate_, rows);               // [rows, ff]
      ops.matmul(layer.up, normed_, up_, rows);                   // [rows, ff]
      ops.swiglu(gate_, up_, c.ff, rows);
      ops.matmul(layer.down, gate_, delta_, rows);                // [rows, width]
      ops.add(x_, delta_, c.width, rows);
    }
    if (outputs == 0) return;
    ops.select_outputs(x_, delta_, c.width, outputs);             // [outputs, width]
    ops.rms_norm(delta_, output_norm_, epsilon, delta_, outputs);
    ops.matmul(output_, delta_, scores_, outputs);                // [outputs, vocabulary]
  }

 private:
  Result<void> bind(const gguf::File& file, std::span<const std::byte> bytes, compute::Backend& backend) {
    const Config& c = config_;
    const int64_t q_width = c.heads * c.head_dim, kv_width = c.kv_heads * c.head_dim;
    WeightBinder weights(file, bytes, backend);
    embedding_ = weights.matrix("token_embd.weight", vocabulary_, c.width);
    for (int64_t i = 0; i < c.layers; ++i) {
      const std::string block = "blk." + std::to_string(i) + ".";
      Layer layer;
      layer.attention_norm = weights.vector(block + "attn_norm.weight", c.width);
      layer.q = weights.matrix(block + "attn_q.weight", q_width, c.width);
      layer.k = weights.matrix(block + "attn_k.weight", kv_width, c.width);
      layer.v = weights.matrix(block + "attn_v.weight", kv_width, c.width);
      layer.attention_out = weights.matrix(block + "attn_output.weight", c.width, q_width);
      layer.ff_norm = weights.vector(block + "ffn_norm.weight", c.width);
      layer.gate = weights.matrix(block + "ffn_gate.weight", c.ff, c.width);
      layer.up = weights.matrix(block + "ffn_up.weight", c.ff, c.width);
      layer.down = weights.matrix(block + "ffn_down.weight", c.width, c.ff);
      if (Result<void> so_far = weights.outcome(); !so_far) return so_far;  // a claimed layer count ends at the first absent tensor
      layers_.push_back(layer);
    }
    output_norm_ = weights.vector("output_norm.weight", c.width);
    output_ = weights.has("output.weight") ? weights.matrix("output.weight", vocabulary_, c.width) : embedding_;
    const std::vector<float> factors = weights.optional_floats("rope_freqs.weight", c.rotated / 2);
    weights.refuse_unused();
    if (Result<void> all = weights.outcome(); !all) return all;
    weight_bytes_ = weights.bound_bytes();
    return bind_rope(factors, backend);
  }

  // Turn i of a head goes base^(-2i / rotated) radians per position, divided by the file's own factor and by linear scaling.
  Result<void> bind_rope(const std::vector<float>& factors, compute::Backend& backend) {
    std::vector<double> frequencies;
    for (int64_t i = 0; i < config_.rotated / 2; ++i) {
      const double factor = factors.empty() ? 1.0 : static_cast<double>(factors[static_cast<size_t>(i)]);
      if (!(std::isfinite(factor) && factor > 0)) return Error{"tensor 'rope_freqs.weight' holds a value that is not a positive number"};
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(config_.rotated);
      frequencies.push_back(std::pow(config_.rope_base, exponent) / factor / config_.rope_divisor);
    }
    rope_ = backend.bind_rope(compute::RopeKind::adjacent, frequencies);
    return {};
  }

  Result<void> allocate(compute::Backend& backend, const compute::StepLimits& limits) {
    const Config& c = config_;
    const int64_t rows = limits.rows;
    const struct {
      compute::Buffer& buffer;
      int64_t floats;
    } wanted[] = {{x_, rows * c.width},          {normed_, rows * c.width},
                  {delta_, std::max(rows, limits.outputs) * c.width},
                  {q_, rows * c.heads * c.head_dim},  {mixed_, rows * c.heads * c.head_dim},
                  {k_, rows * c.kv_heads * c.head_dim}, {v_, rows * c.kv_heads * c.head_dim},
                  {gate_, rows * c.ff},          {up_, rows * c.ff},
                  {angles_, rows * c.rotated},   {scores_, limits.outputs * vocabulary_}};
    for (const auto& want : wanted) {
      Result<compute::Buffer> made = backend.allocate(want.floats);
      if (!made) return Error{"scratch: " + made.error()};
      want.buffer = *made;
      scratch_bytes_ += static_cast<uint64_t>(want.floats) * sizeof(float);
    }
    return {};
  }

  compute::Weight embedding_, output_norm_, output_;
  std::vector<Layer> layers_;
  compute::Rope rope_;
  compute::Buffer x_, normed_, delta_, q_, k_, v_, mixed_, gate_, up_, angles_;
};

}  // namespace

Result<std::unique_ptr<Model>> make_llama(const gguf::File& file, std::span<const std::byte> bytes, compute::Backend& backend,
                                          const compute::StepLimits& limits) {
  auto llama = std::make_unique<Llama>();
  if (Result<void> loaded = llama->load(file, bytes, backend, limits); !loaded) return Error{loaded.error()};
  return std::unique_ptr<Model>(std::move(llama));
}

}  // namespace vigil::model
