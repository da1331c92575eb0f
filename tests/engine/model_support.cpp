// The reference here shares nothing with the engine but the file: no KV cache, no blocks, no float arithmetic.
#include "model_support.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/sample/random.hpp"

namespace vigil::testing {
namespace {

using Vector = std::vector<double>;

std::vector<std::byte> u16_bytes(const std::vector<uint16_t>& values) {
  std::vector<std::byte> bytes(values.size() * 2);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

double half_value(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double mantissa = bits & 1023;
  const double magnitude = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

Vector matvec(const std::vector<float>& weight, const Vector& x) {
  Vector out(weight.size() / x.size(), 0.0);
  for (size_t r = 0; r < out.size(); ++r) {
    for (size_t c = 0; c < x.size(); ++c) out[r] += static_cast<double>(weight[r * x.size() + c]) * x[c];
  }
  return out;
}

Vector norm(const Vector& x, const std::vector<float>& gain) {
  double square = 0;
  for (const double value : x) square += value * value;
  const double scale = 1 / std::sqrt(square / static_cast<double>(x.size()) + 1e-5);
  Vector out(x);
  for (size_t i = 0; i < x.size(); ++i) out[i] *= scale * static_cast<double>(gain[i]);
  return out;
}

}  // namespace

void TinyLlama::add(gguf::Writer& writer, const std::string& name, int64_t rows, int64_t cols, double gain, double mean) {
  sample::Random random(random_state_++ * 1000 + seed);
  std::vector<float> raw(static_cast<size_t>(rows * cols));
  for (float& value : raw) {
    const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
    value = static_cast<float>(mean + gain * radius * std::cos(6.283185307179586 * random.uniform()));
  }
  if (name == spoil) std::fill(raw.begin(), raw.end(), std::nanf(""));
  const bool vector = rows == 1;
  std::vector<float>& kept = values[name] = raw;
  const gguf::TensorType stored = vector ? gguf::TensorType::f32 : type;
  std::vector<std::byte> data;
  std::vector<uint16_t> words;
  switch (stored) {
    case gguf::TensorType::f16:
      for (float& value : kept) {
        words.push_back(gguf::half_bits(value));
        value = static_cast<float>(half_value(words.back()));
      }
      data = u16_bytes(words);
      break;
    case gguf::TensorType::bf16:
      for (float& value : kept) {
        uint32_t bits;
        std::memcpy(&bits, &value, sizeof bits);
        words.push_back(static_cast<uint16_t>(bits >> 16));
        bits &= 0xffff0000u;
        std::memcpy(&value, &bits, sizeof bits);
      }
      data = u16_bytes(words);
      break;
    case gguf::TensorType::q8_0:
      data = gguf::q8_0_bytes(raw);
      for (size_t i = 0; i < kept.size(); ++i) {
        uint16_t scale;
        std::memcpy(&scale, data.data() + i / 32 * 34, sizeof scale);
        kept[i] = static_cast<float>(half_value(scale) * static_cast<int8_t>(data[i / 32 * 34 + 2 + i % 32]));
      }
      break;
    default: data = gguf::f32_bytes(raw);
  }
  std::vector<uint64_t> dims{static_cast<uint64_t>(cols)};
  if (!vector) dims.push_back(static_cast<uint64_t>(rows));
  if (name != leave_out) writer.add_tensor(name, stored, dims, std::move(data));
}

std::vector<std::byte> TinyLlama::bytes(const std::function<void(gguf::Writer&)>& edit) {
  gguf::Writer writer;
  random_state_ = 1;
  const auto put = [&](const char* key, int64_t value) {
    if (const auto claim = claims.find(key); claim != claims.end()) value = claim->second;
    writer.put_u32(std::string("llama.") + key, static_cast<uint32_t>(value));
  };
  writer.put_string("general.architecture", architecture);
  put("block_count", layers);
  put("embedding_length", width);
  put("feed_forward_length", ff);
  put("context_length", context);
  put("attention.head_count", heads);
  put("attention.head_count_kv", kv_heads);
  put("attention.key_length", head_dim);
  put("attention.value_length", head_dim);
  put("rope.dimension_count", rotated);
  writer.put_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  writer.put_string("tokenizer.ggml.model", "none");
  if (end_id >= 0) writer.put_u32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(end_id));
  const auto gain = [](int64_t cols) { return 1.3 / std::sqrt(static_cast<double>(cols)); };
  add(writer, "token_embd.weight", vocabulary, width, tied ? 4 / std::sqrt(static_cast<double>(width)) : 1.0);
  for (int64_t i = 0; i < layers; ++i) {
    const std::string block = "blk." + std::to_string(i) + ".";
    add(writer, block + "attn_norm.weight", 1, width, 0.1, 1);
    add(writer, block + "attn_q.weight", heads * head_dim, width, gain(width));
    add(writer, block + "attn_k.weight", kv_heads * head_dim, width, gain(width));
    add(writer, block + "attn_v.weight", kv_heads * head_dim, width, gain(width));
    add(writer, block + "attn_output.weight", width, heads * head_dim, gain(heads * head_dim));
    add(writer, block + "ffn_norm.weight", 1, width, 0.1, 1);
    add(writer, block + "ffn_gate.weight", ff, width, gain(width));
    add(writer, block + "ffn_up.weight", ff, width, gain(width));
    add(writer, block + "ffn_down.weight", width, ff, gain(ff));
  }
  add(writer, "output_norm.weight", 1, width, 0.5, tied ? 0 : 1);
  if (!tied) add(writer, "output.weight", vocabulary, width, 3 * gain(width));
  if (rope_factors) add(writer, "rope_freqs.weight", 1, rotated / 2, 0.2, 2);
  if (edit) edit(writer);
  return writer.bytes();
}

std::vector<double> TinyLlama::scores_after(const std::vector<int32_t>& ids) const {
  const size_t n = ids.size(), dim = static_cast<size_t>(head_dim), group = static_cast<size_t>(heads / kv_heads);
  std::vector<Vector> x(n);
  for (size_t t = 0; t < n; ++t) {
    const auto row = values.at("token_embd.weight").begin() + ids[t] * width;
    x[t].assign(row, row + width);
  }
  const auto turn = [&](Vector& heads_of, size_t t) {
    for (size_t start = 0; start < heads_of.size(); start += dim) {
      for (int64_t i = 0; i < rotated / 2; ++i) {
        double angle = static_cast<double>(t) * std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(rotated));
        if (rope_factors) angle /= static_cast<double>(values.at("rope_freqs.weight")[static_cast<size_t>(i)]);
        double& a = heads_of[start + static_cast<size_t>(2 * i)];
        double& b = heads_of[start + static_cast<size_t>(2 * i) + 1];
        const double turned = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = turned;
      }
    }
  };
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string block = "blk." + std::to_string(layer) + ".";
    std::vector<Vector> q(n), k(n), v(n);
    for (size_t t = 0; t < n; ++t) {
      const Vector h = norm(x[t], values.at(block + "attn_norm.weight"));
      q[t] = matvec(values.at(block + "attn_q.weight"), h);
      k[t] = matvec(values.at(block + "attn_k.weight"), h);
      v[t] = matvec(values.at(block + "attn_v.weight"), h);
      turn(q[t], t);
      turn(k[t], t);
    }
    for (size_t t = 0; t < n; ++t) {
      Vector mixed(q[t].size(), 0.0);
      for (size_t h = 0; h < static_cast<size_t>(heads); ++h) {
        const size_t kv = h / group * dim;
        Vector weight(t + 1);
        double best = -1e300, sum = 0;
        for (size_t s = 0; s <= t; ++s) {
          for (size_t i = 0; i < dim; ++i) weight[s] += q[t][h * dim + i] * k[s][kv + i];
          weight[s] /= std::sqrt(static_cast<double>(dim));
          best = std::max(best, weight[s]);
        }
        for (double& w : weight) sum += w = std::exp(w - best);
        for (size_t s = 0; s <= t; ++s) {
          for (size_t i = 0; i < dim; ++i) mixed[h * dim + i] += weight[s] / sum * v[s][kv + i];
        }
      }
      const Vector attended = matvec(values.at(block + "attn_output.weight"), mixed);
      for (size_t i = 0; i < x[t].size(); ++i) x[t][i] += attended[i];
      const Vector h = norm(x[t], values.at(block + "ffn_norm.weight"));
      Vector gate = matvec(values.at(block + "ffn_gate.weight"), h);
      const Vector up = matvec(values.at(block + "ffn_up.weight"), h);
      for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      const Vector down = matvec(values.at(block + "ffn_down.weight"), gate);
      for (size_t i = 0; i < x[t].size(); ++i) x[t][i] += down[i];
    }
  }
  return matvec(values.at(tied ? "token_embd.weight" : "output.weight"), norm(x.back(), values.at("output_norm.weight")));
}

Result<std::unique_ptr<schedule::Runtime>> try_load(const std::vector<std::byte>& bytes, const schedule::RuntimeOptions& options) {
  const auto source = gguf::from_memory(bytes);
  Result<gguf::File> file = gguf::File::parse(*source);
  if (!file) return Error{file.error()};
  return schedule::Runtime::make(*file, bytes, options);
}

Result<std::unique_ptr<schedule::Runtime>> try_load_pair(const std::vector<std::byte>& bytes, const std::vector<std::byte>& draft,
                                                         const schedule::RuntimeOptions& options) {
  const auto source = gguf::from_memory(bytes), draft_source = gguf::from_memory(draft);
  Result<gguf::File> file = gguf::File::parse(*source), draft_file = gguf::File::parse(*draft_source);
  if (!file) return Error{file.error()};
  if (!draft_file) return Error{draft_file.error()};
  const model::Files draft_files(*draft_file, draft);
  return schedule::Runtime::make(model::Files(*file, bytes), options, [](double) { return true; }, [](std::span<const std::byte>) {}, &draft_files);
}

LoadedModel load_tiny(TinyLlama& tiny, const schedule::RuntimeOptions& options) {
  LoadedModel loaded{tiny.bytes(), nullptr};
  Result<std::unique_ptr<schedule::Runtime>> runtime = try_load(loaded.bytes, options);
  if (!runtime) FAIL(runtime.error());
  loaded.runtime = std::move(*runtime);
  return loaded;
}

std::vector<int32_t> random_ids(int64_t count, int64_t vocabulary, uint64_t seed) {
  sample::Random random(seed);
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>(random.next() % static_cast<uint64_t>(vocabulary)));
  return ids;
}

}  // namespace vigil::testing
