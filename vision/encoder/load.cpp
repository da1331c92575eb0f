// The tensors of an encoder by name. Names: ggml project, gguf-py/gguf/constants.py (v.* and mm.*).
#include <algorithm>

#include "vision/encoder/encoder.hpp"

namespace vigil::vision {
namespace {

Matrix from_floats(int64_t rows, int64_t cols, const std::vector<float>& values) {
  Matrix matrix;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.row_bytes = static_cast<size_t>(cols) * sizeof(float);
  matrix.data = std::make_unique_for_overwrite<std::byte[]>(values.size() * sizeof(float));
  std::copy_n(reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(float), matrix.data.get());
  return matrix;
}

// The sum of two kernels: a still picture is the same in both frames.
Matrix sum_of(const Matrix& a, const Matrix& b) {
  if (!a || !b) return {};
  std::vector<float> sum(static_cast<size_t>(a.rows * a.cols)), row(static_cast<size_t>(a.cols));
  for (int64_t r = 0; r < a.rows; ++r) {
    float* const to = sum.data() + r * a.cols;
    a.row(r, to);
    b.row(r, row.data());
    for (int64_t i = 0; i < a.cols; ++i) to[i] += row[static_cast<size_t>(i)];
  }
  return from_floats(a.rows, a.cols, sum);
}

Matrix transposed(const Matrix& from) {
  if (!from) return {};
  std::vector<float> values(static_cast<size_t>(from.rows * from.cols)), row(static_cast<size_t>(from.cols));
  for (int64_t r = 0; r < from.rows; ++r) {
    from.row(r, row.data());
    for (int64_t c = 0; c < from.cols; ++c) values[static_cast<size_t>(c * from.rows + r)] = row[static_cast<size_t>(c)];
  }
  return from_floats(from.cols, from.rows, values);
}

}  // namespace

Result<std::unique_ptr<Encoder>> Encoder::load(const std::string& path, int threads, const EncoderChoices& choices) {
  const auto source = gguf::open_pread(path);
  if (!source) return Error{source.error()};
  const auto file = gguf::File::parse(**source);
  if (!file) return Error{path + ": " + file.error()};
  auto encoder = load(*file, **source, threads, choices);
  if (!encoder) return Error{path + ": " + encoder.error()};
  return encoder;
}

Result<std::unique_ptr<Encoder>> Encoder::load(const gguf::File& file, const gguf::ByteSource& source, int threads, const EncoderChoices& choices) {
  Result<EncoderConfig> config = read_encoder_config(file, choices);
  if (!config) return Error{config.error()};
  std::unique_ptr<Encoder> encoder(new Encoder(threads));
  encoder->config_ = std::move(*config);
  TensorReader tensors(file, source);
  encoder->bind(tensors);
  if (const Result<void> bound = tensors.outcome(); !bound) return Error{bound.error()};
  encoder->weight_bytes_ = tensors.bytes();
  return encoder;
}

void Encoder::bind(TensorReader& tensors) {
  bind_embedding(tensors);
  for (int64_t i = 0; i < config_.layers; ++i) {
    layers_.push_back(bind_layer(tensors, "v.blk." + std::to_string(i) + "."));
    if (!tensors.outcome()) return;  // a claimed number of layers ends at the first absent tensor
  }
  before_layers_ = tensors.optional_norm("v.pre_ln", config_.width);
  after_layers_ = tensors.optional_norm("v.post_ln", config_.width);
  bind_projector(tensors);
  if (config_.projector == Projector::mlp) {
    tensors.skip("v.blk." + std::to_string(config_.layers) + ".");  // the last layer, which does not run
    tensors.skip("model.image_newline");                             // LLaVA 1.6's line break between tiles: here a picture is one tile
  }
  tensors.refuse_unused();
}

void Encoder::bind_embedding(TensorReader& tensors) {
  embedding_.weight = tensors.kernel("v.patch_embd.weight", config_.width, 3, config_.patch_side);
  if (config_.two_frames()) {
    embedding_.weight = sum_of(embedding_.weight, tensors.kernel("v.patch_embd.weight.1", config_.width, 3, config_.patch_side));
  }
  embedding_.bias = tensors.optional_vector("v.patch_embd.bias", config_.width);
  class_token_ = tensors.optional_vector("v.class_embd", config_.width);
  if (!class_token_.empty() && config_.projector != Projector::mlp) tensors.fail("tensor 'v.class_embd' has no place in projector " + config_.projector_name);
  if (config_.projector == Projector::qwen25vl) return;  // rotary positions alone
  const int64_t places = config_.grid_side() * config_.grid_side() + (class_token_.empty() ? 0 : 1);
  positions_ = tensors.matrix("v.position_embd.weight", places, config_.width);
}

Encoder::Layer Encoder::bind_layer(TensorReader& tensors, const std::string& block) const {
  const int64_t width = config_.width, ff = config_.ff;
  Layer layer;
  layer.before_attention = tensors.norm(block + "ln1", width);
  layer.before_ff = tensors.norm(block + "ln2", width);
  if (tensors.has(block + "attn_qkv.weight")) {
    layer.qkv = tensors.linear(block + "attn_qkv", 3 * width, width);
  } else {
    layer.q = tensors.linear(block + "attn_q", width, width);
    layer.k = tensors.linear(block + "attn_k", width, width);
    layer.v = tensors.linear(block + "attn_v", width, width);
  }
  layer.out = tensors.linear(block + "attn_out", width, width);
  if (config_.activation == Activation::silu) layer.gate = tensors.linear(block + "ffn_gate", ff, width);
  // Early converters swapped the two names; the shapes tell.
  const bool swapped = width != ff && tensors.cols(block + "ffn_down.weight") == width;
  layer.up = tensors.linear(block + (swapped ? "ffn_down" : "ffn_up"), ff, width);
  layer.down = tensors.linear(block + (swapped ? "ffn_up" : "ffn_down"), width, ff);
  return layer;
}

void Encoder::bind_projector(TensorReader& tensors) {
  const int64_t width = config_.width, out = config_.out_width, joined = config_.merge * config_.merge * width;
  switch (config_.projector) {
    case Projector::gemma3:
      projector_norm_ = tensors.norm("mm.soft_emb_norm", width);
      first_.weight = transposed(tensors.matrix("mm.input_projection.weight", width, out));
      return;
    case Projector::idefics3:
      first_ = tensors.linear("mm.model.fc", out, joined);
      return;
    case Projector::mlp:
      first_ = tensors.linear("mm.0", out, width);
      if (tensors.has("mm.2.weight")) second_ = tensors.linear("mm.2", out, out);
      return;
    case Projector::qwen25vl:
    case Projector::qwen3vl:
      first_ = tensors.linear("mm.0", joined, joined);
      second_ = tensors.linear("mm.2", out, joined);
      return;
  }
}

}  // namespace vigil::vision
