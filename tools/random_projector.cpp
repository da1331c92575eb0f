// See random_projector.hpp. Tensor names: ggml project, gguf-py/gguf/constants.py.
#include "tools/random_projector.hpp"

#include <algorithm>
#include <cmath>

#include "tools/random_model.hpp"

namespace vigil::tools {
namespace {

class Builder {
 public:
  Builder(const RandomProjector& what, gguf::Writer& out) : what_(what), out_(out), seed_(what.seed << 20) {}

  Result<void> build() {
    const RandomProjector& p = what_;
    const bool qwen25 = p.projector == "qwen2.5vl_merger", qwen3 = p.projector == "qwen3vl_merger", clip = p.projector == "mlp";
    keys(qwen25, qwen3, clip);
    const int64_t grid = p.image_side / p.patch_side, places = grid * grid + (clip && p.class_token ? 1 : 0);
    kernel("v.patch_embd.weight");
    if (qwen25 || qwen3) kernel("v.patch_embd.weight.1");
    if (!clip && !qwen25) vector("v.patch_embd.bias", p.width, 0.1);
    if (clip && p.class_token) vector("v.class_embd", p.width, 0.5);
    if (clip) norm("v.pre_ln", true);
    if (!qwen25) tensor("v.position_embd.weight", gguf::TensorType::f32, places, p.width, 0.5, 0, {});
    for (int64_t i = 0; i < p.layers; ++i) layer("v.blk." + std::to_string(i) + ".", qwen25, qwen3);
    if (!clip) norm("v.post_ln", !qwen25);
    const int64_t joined = (qwen25 || qwen3 ? 4 : p.merge * p.merge) * p.width;
    if (p.projector == "gemma3") {
      matrix("mm.input_projection.weight", p.width, p.text_width, 1);
      vector("mm.soft_emb_norm.weight", p.width, 0.1, 1);
    } else if (p.projector == "idefics3") {
      matrix("mm.model.fc.weight", p.text_width, joined, 1);
    } else if (clip) {
      linear("mm.0", p.text_width, p.width, 1.3);
      linear("mm.2", p.text_width, p.text_width, 1.5);
    } else {
      linear("mm.0", joined, joined, 1.3);
      linear("mm.2", p.text_width, joined, 1.5);
    }
    if (!error_.empty()) return Error{error_};
    return {};
  }

 private:
  void keys(bool qwen25, bool qwen3, bool clip) {
    const RandomProjector& p = what_;
    out_.put_string("general.architecture", "clip");
    out_.put_string("general.type", "mmproj");
    out_.put_string("general.name", "random-" + p.projector);
    out_.put_bool("clip.has_vision_encoder", true);
    out_.put_string("clip.projector_type", p.projector);
    if (qwen25) out_.put_bool("clip.use_silu", true);
    else out_.put_bool("clip.use_gelu", !clip);
    const auto number = [&](const std::string& key, int64_t value) { out_.put_u32("clip.vision." + key, static_cast<uint32_t>(value)); };
    number("image_size", p.image_side);
    number("patch_size", p.patch_side);
    number("embedding_length", p.width);
    number("feed_forward_length", p.ff);
    number("block_count", p.layers);
    number("projection_dim", p.text_width);
    number("attention.head_count", p.heads);
    out_.put_f32("clip.vision.attention.layer_norm_epsilon", clip ? 1e-5f : 1e-6f);
    out_.put_f32s("clip.vision.image_mean", {0.5f, 0.5f, 0.5f});
    out_.put_f32s("clip.vision.image_std", {0.5f, 0.5f, 0.5f});
    if (p.projector == "gemma3" || p.projector == "idefics3") number("projector.scale_factor", p.merge);
    if (p.projector == "idefics3") number("preproc_image_size", p.longest);
    if (qwen25 || qwen3) number("spatial_merge_size", 2);
    if (qwen25 && p.window_pattern > 0) {
      number("n_wa_pattern", p.window_pattern);
      number("window_size", p.window_side);
    }
  }

  void layer(const std::string& block, bool qwen25, bool qwen3) {
    const RandomProjector& p = what_;
    norm(block + "ln1", !qwen25);
    norm(block + "ln2", !qwen25);
    if (qwen3 && p.fused) {
      linear(block + "attn_qkv", 3 * p.width, p.width, 1.3);
    } else {
      for (const char* name : {"attn_q", "attn_k", "attn_v"}) linear(block + name, p.width, p.width, 1.3);
    }
    linear(block + "attn_out", p.width, p.width, 1.5);
    if (qwen25) linear(block + "ffn_gate", p.ff, p.width, 1.3);
    linear(block + (p.swapped_names ? "ffn_down" : "ffn_up"), p.ff, p.width, 1.3);
    linear(block + (p.swapped_names ? "ffn_up" : "ffn_down"), p.width, p.ff, 1.5);
  }

  void tensor(const std::string& name, gguf::TensorType type, int64_t rows, int64_t cols, double deviation, double mean, std::vector<uint64_t> dims) {
    auto data = random_tensor(type, rows, cols, deviation, mean, ++seed_);
    if (!data) {
      if (error_.empty()) error_ = name + ": " + data.error();
      return;
    }
    if (dims.empty()) dims = {static_cast<uint64_t>(cols), static_cast<uint64_t>(rows)};
    out_.add_tensor(name, type, std::move(dims), std::move(*data));
  }
  void kernel(const std::string& name) {
    const auto side = static_cast<uint64_t>(what_.patch_side);
    const int64_t cols = 3 * what_.patch_side * what_.patch_side;
    tensor(name, gguf::TensorType::f16, what_.width, cols, 1.5 / std::sqrt(static_cast<double>(cols)), 0, {side, side, 3, static_cast<uint64_t>(what_.width)});
  }
  void matrix(const std::string& name, int64_t rows, int64_t cols, double gain) {
    const auto info = gguf::type_info(what_.type);
    const bool fits = info && cols % info->block_elements == 0;
    tensor(name, fits ? what_.type : gguf::TensorType::f16, rows, cols, gain / std::sqrt(static_cast<double>(cols)), 0, {});
  }
  void vector(const std::string& name, int64_t cols, double deviation, double mean = 0) {
    tensor(name, gguf::TensorType::f32, 1, cols, deviation, mean, {static_cast<uint64_t>(cols)});
  }
  void linear(const std::string& name, int64_t rows, int64_t cols, double gain) {
    matrix(name + ".weight", rows, cols, gain);
    vector(name + ".bias", rows, 0.05);
  }
  void norm(const std::string& name, bool shift) {
    vector(name + ".weight", what_.width, 0.1, 1);
    if (shift) vector(name + ".bias", what_.width, 0.05);
  }

  const RandomProjector& what_;
  gguf::Writer& out_;
  uint64_t seed_;
  std::string error_;
};

}  // namespace

const std::vector<std::string>& random_projectors() {
  static const std::vector<std::string> names{"gemma3", "mlp", "idefics3", "qwen2.5vl_merger", "qwen3vl_merger"};
  return names;
}

Result<void> add_random_projector(const RandomProjector& projector, gguf::Writer& out) {
  if (std::ranges::find(random_projectors(), projector.projector) == random_projectors().end()) return Error{"no projector '" + projector.projector + "'"};
  return Builder(projector, out).build();
}

}  // namespace vigil::tools
