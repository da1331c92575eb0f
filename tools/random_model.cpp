// Block types get random bytes for their codes, and scales that make the weights as large as asked for. Gains are such that each part of a
// layer adds about as much as it gets, so that scores spread and the best token is rarely a matter of rounding.
#include "tools/random_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "engine/compute/cpu/dequantise.hpp"

namespace vigil::tools {
namespace {

using T = gguf::TensorType;

// splitmix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t mixed = state_;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
  }
  // Near normal, mean 0, deviation 1: the sum of four 16-bit numbers.
  float normal() {
    const uint64_t bits = next();
    const auto sum = static_cast<int32_t>((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48));
    return static_cast<float>(sum - 131070) * (1.0f / 37837.0f);  // sqrt(4 / 12) * 65536
  }

 private:
  uint64_t state_;
};

// Where a block keeps its half-precision scale, and an offset that centres its codes when it is `offset_per_scale` of the scale.
struct ScalePlace {
  T type;
  int scale, offset;  // bytes; -1 = none
  float offset_per_scale;
};
constexpr ScalePlace scale_places[] = {
    {T::q4_0, 0, -1, 0},     {T::q4_1, 0, 2, -7.5f},  {T::q5_0, 0, -1, 0},   {T::q5_1, 0, 2, -15.5f}, {T::q8_0, 0, -1, 0},   {T::q1_0, 0, -1, 0},
    {T::q2_0, 0, -1, 0},     {T::q2_k, 80, 82, 1.5f}, {T::q3_k, 108, -1, 0}, {T::q4_k, 0, 2, 7.5f},   {T::q5_k, 0, 2, 15.5f}, {T::q6_k, 208, -1, 0},
    {T::iq1_s, 0, -1, 0},    {T::iq2_xxs, 0, -1, 0},  {T::iq2_xs, 0, -1, 0}, {T::iq2_s, 0, -1, 0},    {T::iq3_xxs, 0, -1, 0}, {T::iq3_s, 0, -1, 0},
    {T::iq4_nl, 0, -1, 0},   {T::iq4_xs, 0, -1, 0},   {T::tq1_0, 52, -1, 0}, {T::tq2_0, 64, -1, 0}};

void put_u16(std::byte* to, uint16_t value) { std::memcpy(to, &value, sizeof value); }

// Gives a block the scale, as well as its type can say it.
void set_scale(T type, std::byte* block, float scale) {
  if (type == T::mxfp4) {
    block[0] = static_cast<std::byte>(std::clamp(127 + static_cast<int>(std::lround(std::log2(scale))), 0, 254));
  } else if (type == T::nvfp4) {  // four scales with 4 exponent and 3 mantissa bits
    int best = 1;
    const auto value = [](int code) { return code < 8 ? std::ldexp(code, -9) : std::ldexp(8 + code % 8, code / 8 - 10); };
    for (int code = 1; code < 127; ++code) {
      if (std::abs(value(code) - static_cast<double>(scale)) < std::abs(value(best) - static_cast<double>(scale))) best = code;
    }
    std::fill_n(block, 4, static_cast<std::byte>(best));
  } else if (type == T::iq1_m) {  // a quarter of the half in the top of each of four half-words
    const uint16_t half = gguf::half_bits(scale);
    for (int i = 0; i < 4; ++i) {
      std::byte& top = block[48 + 2 * i + 1];
      top = (top & std::byte{0x0f}) | static_cast<std::byte>((half >> (4 * i) & 15) << 4);
    }
  } else {
    const auto* place = std::find_if(std::begin(scale_places), std::end(scale_places), [&](const ScalePlace& entry) { return entry.type == type; });
    put_u16(block + place->scale, gguf::half_bits(scale));
    if (place->offset >= 0) put_u16(block + place->offset, gguf::half_bits(scale * place->offset_per_scale));
  }
}

std::vector<std::byte> random_blocks(const gguf::TypeInfo& info, int64_t blocks, double deviation, Random& random) {
  std::vector<std::byte> data(static_cast<size_t>(blocks) * info.block_bytes);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random.next());
  const auto scale_all = [&](float scale) {
    for (int64_t b = 0; b < blocks; ++b) set_scale(info.type, data.data() + b * info.block_bytes, scale);
  };
  scale_all(1.0f);
  const int64_t sample = std::min<int64_t>(blocks, 64) * info.block_elements;
  std::vector<float> values(static_cast<size_t>(sample));
  compute::cpu::dequantise_row(info.type, data.data(), sample, values.data());
  double square = 0;
  for (const float value : values) square += static_cast<double>(value) * static_cast<double>(value);
  scale_all(static_cast<float>(deviation / std::sqrt(square / static_cast<double>(sample))));
  return data;
}

// Writes the layers of one model; keeps the first error.
class Maker {
 public:
  Maker(const RandomModel& model, gguf::Writer& out) : m_(model), out_(out), seed_(model.seed * 1'000'003) {}

  Result<void> make() {
    put_metadata();
    matrix("token_embd.weight", m_.vocabulary, m_.width, m_.tied ? 4 / std::sqrt(static_cast<double>(m_.width)) : 1.0);
    for (int64_t i = 0; i < m_.layers; ++i) layer(i, "blk." + std::to_string(i) + ".");
    vector("output_norm.weight", m_.width, m_.tied ? 1.0 : 0.1, m_.tied ? 0.0 : 1.0);  // else a tied model would repeat each token
    if (!m_.tied) projection("output.weight", m_.vocabulary, m_.width, 4.0);
    if (!error_.empty()) return Error{error_};
    return {};
  }

 private:
  bool is(std::initializer_list<const char*> names) const {
    return std::any_of(names.begin(), names.end(), [&](const char* name) { return m_.architecture == name; });
  }
  bool recurrent() const { return is({"qwen35", "qwen35moe", "qwen3next"}); }
  bool experts() const { return is({"qwen3moe", "qwen35moe", "qwen3next", "gpt-oss"}); }

  void put_metadata() {
    const auto put = [&](const char* key, int64_t value) { out_.put_u32(m_.architecture + "." + key, static_cast<uint32_t>(value)); };
    const auto put_float = [&](const char* key, float value) { out_.put_f32(m_.architecture + "." + key, value); };
    out_.put_string("general.architecture", m_.architecture);
    out_.put_string("general.name", "random-" + m_.architecture);
    put("context_length", m_.context);
    put("embedding_length", m_.width);
    put("block_count", m_.layers);
    put("feed_forward_length", m_.ff);
    put("attention.head_count", m_.heads);
    put("attention.head_count_kv", m_.kv_heads);
    put("attention.key_length", m_.head_dim);
    put("attention.value_length", m_.head_dim);
    put_float("attention.layer_norm_rms_epsilon", 1e-6f);
    put("rope.dimension_count", recurrent() ? m_.head_dim / 2 : m_.head_dim);
    if (is({"qwen2vl", "qwen35", "qwen35moe"})) {
      const auto pairs = static_cast<int32_t>((recurrent() ? m_.head_dim / 2 : m_.head_dim) / 2);
      out_.put_i32s(m_.architecture + ".rope.dimension_sections", {pairs - pairs / 3 * 2, pairs / 3, pairs / 3, 0});
    }
    put_float("rope.freq_base", 1e6f);
    if (is({"gemma3", "gpt-oss"})) put("attention.sliding_window", m_.window);
    if (is({"gpt-oss"})) {
      out_.put_string(m_.architecture + ".rope.scaling.type", "yarn");
      put_float("rope.scaling.factor", 32.0f);
      put("rope.scaling.original_context_length", m_.context);
    }
    if (experts()) {
      put("expert_count", m_.experts);
      put("expert_used_count", m_.experts_used);
      put("expert_feed_forward_length", m_.ff);
      if (recurrent()) put("expert_shared_feed_forward_length", m_.ff);
    }
    if (!recurrent()) return;
    put("ssm.conv_kernel", 4);
    put("ssm.state_size", m_.state_dim);
    put("ssm.group_count", m_.key_heads);
    put("ssm.time_step_rank", m_.value_heads);
    put("ssm.inner_size", m_.value_heads * m_.state_dim);
    put("full_attention_interval", m_.attention_every);
  }

  void layer(int64_t i, const std::string& block) {
    vector(block + "attn_norm.weight", m_.width, 0.1, 1.0);
    if (recurrent() && (i + 1) % m_.attention_every != 0) delta_net(block);
    else attention(block);
    if (is({"gemma3"})) {
      vector(block + "post_attention_norm.weight", m_.width, 0.4, 4.0);
      vector(block + "post_ffw_norm.weight", m_.width, 0.4, 4.0);
    }
    vector(block + (recurrent() || is({"gpt-oss"}) ? "post_attention_norm.weight" : "ffn_norm.weight"), m_.width, 0.1, 1.0);
    if (experts()) {
      mixture(block);
      return;
    }
    projection(block + "ffn_gate.weight", m_.ff, m_.width, 1.3);
    projection(block + "ffn_up.weight", m_.ff, m_.width, 1.3);
    projection(block + "ffn_down.weight", m_.width, m_.ff, 1.5);
  }

  void attention(const std::string& block) {
    const int64_t q = m_.heads * m_.head_dim, kv = m_.kv_heads * m_.head_dim;
    projection(block + "attn_q.weight", recurrent() ? 2 * q : q, m_.width, 1.3);
    projection(block + "attn_k.weight", kv, m_.width, 1.3);
    projection(block + "attn_v.weight", kv, m_.width, 1.3);
    projection(block + "attn_output.weight", m_.width, q, 2.0);
    if (is({"qwen2", "qwen2vl", "gpt-oss"})) {
      vector(block + "attn_q.bias", q, 0.3, 0);
      vector(block + "attn_k.bias", kv, 0.3, 0);
      vector(block + "attn_v.bias", kv, 0.3, 0);
    }
    if (is({"gpt-oss"})) {
      vector(block + "attn_output.bias", m_.width, 0.2, 0);
      vector(block + "attn_sinks.weight", m_.heads, 1.0, 0);
    }
    if (is({"qwen3", "qwen3moe", "gemma3"}) || recurrent()) {
      vector(block + "attn_q_norm.weight", m_.head_dim, 0.1, 1.2);
      vector(block + "attn_k_norm.weight", m_.head_dim, 0.1, 1.2);
    }
  }

  void delta_net(const std::string& block) {
    const int64_t keys = m_.key_heads * m_.state_dim, values = m_.value_heads * m_.state_dim;
    projection(block + "attn_qkv.weight", 2 * keys + values, m_.width, 1.5);
    projection(block + "attn_gate.weight", values, m_.width, 1.5);
    tensor(block + "ssm_conv1d.weight", T::f32, {4, 2 * keys + values}, 0.6, 0);
    vector(block + "ssm_dt.bias", m_.value_heads, 0.5, 0);
    vector(block + "ssm_a", m_.value_heads, 0.05, -0.25);
    if (is({"qwen3next"})) {
      projection(block + "ssm_ba.weight", 2 * m_.value_heads, m_.width, 1.0);
    } else {
      projection(block + "ssm_beta.weight", m_.value_heads, m_.width, 1.0);
      projection(block + "ssm_alpha.weight", m_.value_heads, m_.width, 1.0);
    }
    vector(block + "ssm_norm.weight", m_.state_dim, 0.1, 1.0);
    projection(block + "ssm_out.weight", m_.width, values, 1.5);
  }

  void mixture(const std::string& block) {
    tensor(block + "ffn_gate_inp.weight", T::f32, {m_.width, m_.experts}, 2 / std::sqrt(static_cast<double>(m_.width)), 0);
    experts(block + "ffn_gate_exps.weight", m_.ff, m_.width, 1.3);
    experts(block + "ffn_up_exps.weight", m_.ff, m_.width, 1.3);
    experts(block + "ffn_down_exps.weight", m_.width, m_.ff, 1.5);
    if (is({"gpt-oss"})) {
      vector(block + "ffn_gate_inp.bias", m_.experts, 0.2, 0);
      tensor(block + "ffn_gate_exps.bias", T::f32, {m_.ff, m_.experts}, 0.2, 0);
      tensor(block + "ffn_up_exps.bias", T::f32, {m_.ff, m_.experts}, 0.2, 0);
      tensor(block + "ffn_down_exps.bias", T::f32, {m_.width, m_.experts}, 0.2, 0);
    }
    if (!recurrent()) return;
    vector(block + "ffn_gate_inp_shexp.weight", m_.width, 1 / std::sqrt(static_cast<double>(m_.width)), 0);
    projection(block + "ffn_gate_shexp.weight", m_.ff, m_.width, 1.3);
    projection(block + "ffn_up_shexp.weight", m_.ff, m_.width, 1.3);
    projection(block + "ffn_down_shexp.weight", m_.width, m_.ff, 1.5);
  }

  void matrix(const std::string& name, int64_t rows, int64_t cols, double deviation) {
    tensor(name, fitting(cols, m_.mixed && wants_more_bits(name) ? T::q6_k : m_.type), {cols, rows}, deviation, 0);
  }
  // Outputs are `gain` times as large as inputs.
  void projection(const std::string& name, int64_t rows, int64_t cols, double gain) {
    matrix(name, rows, cols, gain / std::sqrt(static_cast<double>(cols)));
  }
  void experts(const std::string& name, int64_t rows, int64_t cols, double gain) {
    tensor(name, fitting(cols, m_.type), {cols, rows, m_.experts}, gain / std::sqrt(static_cast<double>(cols)), 0);
  }
  void vector(const std::string& name, int64_t size, double deviation, double mean) { tensor(name, T::f32, {size}, deviation, mean); }

  T fitting(int64_t cols, T type) const {
    const auto info = gguf::type_info(type);
    return info && cols % info->block_elements == 0 ? type : T::f16;
  }

  // Layers of the first and last eighth, and every third between.
  bool wants_more_bits(const std::string& name) const {
    if (name == "output.weight") return true;
    if (m_.type != T::q4_k || (!name.ends_with("attn_v.weight") && !name.ends_with("ffn_down.weight"))) return false;
    const int64_t layer = std::atoll(name.c_str() + 4), eighth = m_.layers / 8;  // "blk.N."
    return layer < eighth || layer >= 7 * m_.layers / 8 || (layer - eighth) % 3 == 2;
  }

  void tensor(const std::string& name, T type, const std::vector<int64_t>& dims, double deviation, double mean) {
    int64_t rows = 1;
    for (size_t i = 1; i < dims.size(); ++i) rows *= dims[i];
    Result<std::vector<std::byte>> data = random_tensor(type, rows, dims[0], deviation, mean, seed_++);
    if (!data) {
      if (error_.empty()) error_ = name + ": " + data.error();
      return;
    }
    out_.add_tensor(name, type, std::vector<uint64_t>(dims.begin(), dims.end()), std::move(*data));
  }

  const RandomModel& m_;
  gguf::Writer& out_;
  uint64_t seed_;
  std::string error_;
};

}  // namespace

const std::vector<std::string>& random_architectures() {
  static const std::vector<std::string> names = {"llama",  "qwen2",   "qwen2vl", "qwen3",     "qwen3moe",
                                                 "gemma3", "gpt-oss", "qwen35",  "qwen35moe", "qwen3next"};
  return names;
}

Result<std::vector<std::byte>> random_tensor(gguf::TensorType type, int64_t rows, int64_t cols, double deviation, double mean, uint64_t seed) {
  const auto info = gguf::type_info(type);
  if (!info || !compute::cpu::can_dequantise(type)) return Error{"no weights can be kept in this type"};
  if (rows < 1 || cols < 1 || cols % info->block_elements != 0) {
    return Error{"a row of " + std::to_string(cols) + " is no whole number of " + std::string(info->name) + " blocks"};
  }
  Random random(seed);
  if (info->block_elements > 1) return random_blocks(*info, rows * cols / info->block_elements, deviation, random);
  std::vector<std::byte> data(static_cast<size_t>(rows * cols) * info->block_bytes);
  for (int64_t i = 0; i < rows * cols; ++i) {
    const float value = static_cast<float>(mean) + random.normal() * static_cast<float>(deviation);
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (type == T::f32) std::memcpy(data.data() + 4 * i, &bits, 4);
    else put_u16(data.data() + 2 * i, type == T::f16 ? gguf::half_bits(value) : static_cast<uint16_t>(bits >> 16));
  }
  return data;
}

Result<void> add_random_model(const RandomModel& model, gguf::Writer& out) {
  const auto& names = random_architectures();
  if (std::find(names.begin(), names.end(), model.architecture) == names.end()) return Error{"there is no architecture '" + model.architecture + "'"};
  return Maker(model, out).make();
}

}  // namespace vigil::tools
