// Tensor names: ggml project, docs/gguf.md. A file without output.weight uses the embedding for its output.
#include "engine/model/decoder.hpp"

#include <algorithm>
#include <cmath>

namespace vigil::model {

float Decoder::head_scale() const { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim))); }

int64_t Decoder::window_layers() const {
  return config_.window > 0 && window_pattern() > 0 ? config_.layers - config_.layers / window_pattern() : 0;
}

Decoder::LayerCache Decoder::cache_of(const compute::Caches& caches, int64_t layer) const {
  const int64_t whole_before = layer / window_pattern();
  const bool windowed = config_.window > 0 && (layer + 1) % window_pattern() != 0;
  if (windowed) return {caches.window_kv, layer - whole_before, config_.window};
  return {caches.kv, config_.window > 0 ? whole_before : layer, 0};
}

Result<void> Decoder::load(const Files& files, compute::Backend& backend, const compute::StepLimits& limits) {
  Result<Config> config = read_config(files.metadata());
  if (!config) return Error{config.error()};
  config_ = *config;
  if (Result<void> checked = check(); !checked) return checked;
  Result<int64_t> vocabulary = vocabulary_size(files);
  if (!vocabulary) return Error{vocabulary.error()};
  vocabulary_ = *vocabulary;

  WeightBinder weights(files, backend);
  embedding_ = weights.table("token_embd.weight", vocabulary_, config_.width);
  for (int64_t i = 0; i < config_.layers; ++i) {
    bind_layer(weights, i, "blk." + std::to_string(i) + ".");
    if (Result<void> so_far = weights.outcome(); !so_far) return so_far;  // a claimed layer count ends at the first absent tensor
  }
  output_norm_ = weights.vector("output_norm.weight", config_.width);
  output_ = weights.matrix(weights.has("output.weight") ? "output.weight" : "token_embd.weight", vocabulary_, config_.width);
  if (Result<void> bound = bind_ropes(weights, backend); !bound) return bound;
  weights.refuse_unused();
  if (Result<void> all = weights.outcome(); !all) return all;
  weight_bytes_ = weights.bound_bytes();
  return allocate(backend, limits);
}

Result<void> Decoder::bind_ropes(WeightBinder& weights, compute::Backend& backend) {
  const std::vector<float> factors = weights.optional_floats("rope_freqs.weight", config_.rotated / 2);
  const std::vector<uint8_t> axes = picture_rule().on_grid ? rope_axes(config_.rope_sections, section_order(), config_.rotated / 2) : std::vector<uint8_t>{};
  Result<compute::Rope> rope = make_rope(config_, config_.rope_base, config_.rope_scaling, factors, rope_kind(), backend, axes);
  if (!rope) return Error{rope.error()};
  rope_ = *rope;
  return {};
}

Projection Decoder::bind_projection(WeightBinder& weights, const std::string& name, int64_t rows, int64_t cols) {
  return {weights.matrix(name + ".weight", rows, cols), weights.optional_vector(name + ".bias", rows)};
}

Projection Decoder::bind_biased(WeightBinder& weights, const std::string& name, int64_t rows, int64_t cols) {
  return {weights.matrix(name + ".weight", rows, cols), weights.vector(name + ".bias", rows)};
}

FeedForward Decoder::bind_feed_forward(WeightBinder& weights, const std::string& block) {
  FeedForward part;
  part.gate = weights.matrix(block + "ffn_gate.weight", config_.ff, config_.width);
  part.up = weights.matrix(block + "ffn_up.weight", config_.ff, config_.width);
  part.down = weights.matrix(block + "ffn_down.weight", config_.width, config_.ff);
  return part;
}

Experts Decoder::bind_experts(WeightBinder& weights, const std::string& block) {
  const ExpertConfig& c = config_.experts;
  const int64_t width = config_.width;
  const auto stacked = [&](const std::string& name, int64_t rows, int64_t cols) {
    Projection made{weights.experts(name + ".weight", c.count, rows, cols), {}};
    if (weights.has(name + ".bias")) made.bias = weights.values(name + ".bias", c.count, rows);
    return made;
  };
  Experts part;
  part.router = bind_projection(weights, block + "ffn_gate_inp", c.count, width);
  part.gate = stacked(block + "ffn_gate_exps", c.ff, width);
  part.up = stacked(block + "ffn_up_exps", c.ff, width);
  part.down = stacked(block + "ffn_down_exps", width, c.ff);
  if (c.shared_ff > 0) {
    part.shared_router = weights.matrix(block + "ffn_gate_inp_shexp.weight", 1, width);
    part.shared_gate = weights.matrix(block + "ffn_gate_shexp.weight", c.shared_ff, width);
    part.shared_up = weights.matrix(block + "ffn_up_shexp.weight", c.shared_ff, width);
    part.shared_down = weights.matrix(block + "ffn_down_shexp.weight", width, c.shared_ff);
  }
  return part;
}

void Decoder::begin(compute::Ops& ops, int64_t rows, float scale) const {
  ops.embed(embedding_, x_, rows);
  if (scale != 1) ops.scale(x_, scale, config_.width, rows);
  ops.place_pictures(pictures_, x_, config_.width, rows);
  ops.rope_angles(rope_, angles_, rows);
}

void Decoder::project(compute::Ops& ops, const Projection& projection, compute::Buffer in, compute::Buffer out, int64_t rows) const {
  ops.matmul(projection.weight, in, out, rows);
  if (projection.bias) ops.add_bias(out, projection.bias, rows);
}

void Decoder::norm(compute::Ops& ops, compute::Buffer in, const compute::Weight& gain, compute::Buffer out, int64_t rows) const {
  ops.rms_norm(in, gain, epsilon(), out, rows);
}

void Decoder::feed_forward(compute::Ops& ops, const FeedForward& part, compute::Gate kind, int64_t rows) const {
  ops.matmul(part.gate, normed_, gate_, rows);       // [rows, ff]
  ops.matmul(part.up, normed_, up_, rows);           // [rows, ff]
  ops.gate(kind, gate_, up_, config_.ff, rows);
  ops.matmul(part.down, gate_, delta_, rows);        // [rows, width]
}

void Decoder::mix_experts(compute::Ops& ops, const Experts& part, compute::Gate kind, int64_t rows) const {
  const ExpertConfig& c = config_.experts;
  const int64_t width = config_.width;
  const auto apply = [&](const Projection& experts, int64_t out_cols, compute::ExpertInput from, compute::Buffer in, compute::Buffer out) {
    ops.expert_matmul(experts.weight, out_cols, choice_, c.used, from, in, out, rows);
    if (experts.bias) ops.add_expert_bias(out, experts.bias, choice_, c.used, rows);
  };
  project(ops, part.router, normed_, logits_, rows);                         // [rows, experts]
  ops.route(logits_, c.count, c.used, choice_, rows);
  apply(part.gate, c.ff, compute::ExpertInput::row, normed_, gate_);         // [rows, used, expert ff]
  apply(part.up, c.ff, compute::ExpertInput::row, normed_, up_);
  ops.gate(kind, gate_, up_, c.ff, rows * c.used);
  apply(part.down, width, compute::ExpertInput::choice, gate_, many_);       // [rows, used, width]
  ops.sum_experts(many_, choice_, c.used, delta_, width, rows);              // [rows, width]
  if (!part.shared_gate) return;
  ops.matmul(part.shared_gate, normed_, gate_, rows);                        // [rows, shared ff]
  ops.matmul(part.shared_up, normed_, up_, rows);
  ops.gate(kind, gate_, up_, c.shared_ff, rows);
  ops.matmul(part.shared_down, gate_, many_, rows);                          // [rows, width]
  ops.matmul(part.shared_router, normed_, share_gate_, rows);                // [rows, 1]
  ops.sigmoid_gate(many_, share_gate_, 1, width, rows);
  ops.add(delta_, many_, width, rows);
}

void Decoder::end(compute::Ops& ops, Outputs outputs) const {
  if (outputs.all() == 0) return;
  ops.select_outputs(x_, delta_, config_.width, outputs.all());              // [outputs, width]
  norm(ops, delta_, output_norm_, delta_, outputs.all());
  if (outputs.scores == 0) return;
  ops.matmul(output_, delta_, scores_, outputs.scores);                      // [scores, vocabulary]
  if (picks_ > 0) ops.pick_best(scores_, vocabulary_, picks_, picked_, outputs.scores);
}

Result<void> Decoder::allocate(compute::Backend& backend, const compute::StepLimits& limits) {
  const Config& c = config_;
  const int64_t rows = limits.rows;
  const int64_t inner = std::max({c.ff, c.experts.used * c.experts.ff, c.experts.shared_ff});
  std::vector<WantedBuffer> wanted = {{&x_, rows * c.width},
                                      {&normed_, rows * c.width},
                                      {&delta_, std::max(rows, limits.outputs) * c.width},
                                      {&q_, rows * c.heads * c.head_dim},
                                      {&mixed_, rows * c.heads * c.head_dim},
                                      {&k_, rows * c.kv_heads * c.head_dim},
                                      {&v_, rows * c.kv_heads * c.head_dim},
                                      {&gate_, rows * inner},
                                      {&up_, rows * inner},
                                      {&angles_, rows * c.rotated},
                                      {&pictures_, rows * c.width},
                                      {&scores_, limits.outputs * vocabulary_}};
  picks_ = backend.picks();
  if (picks_ > 0) wanted.push_back({&picked_, 2 * limits.outputs * picks_});
  if (c.experts.count > 0) {
    wanted.insert(wanted.end(), {{&logits_, rows * c.experts.count},
                                 {&choice_, 2 * rows * c.experts.used},
                                 {&many_, rows * c.experts.used * c.width},
                                 {&share_gate_, rows}});
  }
  for (const WantedBuffer& more : more_buffers(rows)) wanted.push_back(more);
  for (const WantedBuffer& want : wanted) {
    Result<compute::Buffer> made = backend.allocate(want.floats);
    if (!made) return Error{"scratch: " + made.error()};
    *want.buffer = *made;
    scratch_bytes_ += static_cast<uint64_t>(want.floats) * sizeof(float);
  }
  return {};
}

}  // namespace vigil::model
