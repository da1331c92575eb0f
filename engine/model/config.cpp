// Key names: ggml project, docs/gguf.md ("LLM" section).
#include "engine/model/config.hpp"

#include <cmath>

namespace vigil::model {
namespace {

// Reads keys under "<architecture>." and keeps the first error, so that the reading below stays a plain list.
class Fields {
 public:
  Fields(const gguf::File& file, std::string architecture) : file_(file), prefix_(std::move(architecture) + ".") {}

  int64_t integer(const char* name, int64_t low, int64_t high) { return in_range(name, file_.integer(prefix_ + name), low, high); }
  int64_t integer_or(const char* name, int64_t fallback, int64_t low, int64_t high) {
    return in_range(name, file_.integer_or(prefix_ + name, fallback), low, high);
  }
  double positive(const char* name, Result<double> value) {
    if (!value) return fail(value.error()), 1.0;
    if (!(std::isfinite(*value) && *value > 0)) return fail(prefix_ + name + " is " + std::to_string(*value) + ", not a positive number"), 1.0;
    return *value;
  }
  double number(const char* name) { return positive(name, file_.number(prefix_ + name)); }
  double number_or(const char* name, double fallback) { return positive(name, file_.number_or(prefix_ + name, fallback)); }
  std::string string_or(const char* name, const char* fallback) {
    Result<std::string> value = file_.string_or(prefix_ + name, fallback);
    if (!value) return fail(value.error()), fallback;
    return *value;
  }
  void require(bool holds, const std::string& what) {
    if (!holds) fail(prefix_ + what);
  }
  const std::string& error() const { return error_; }

 private:
  int64_t in_range(const char* name, const Result<int64_t>& value, int64_t low, int64_t high) {
    if (!value) return fail(value.error()), low;
    if (*value < low || *value > high) {
      fail(prefix_ + name + " is " + std::to_string(*value) + ", not between " + std::to_string(low) + " and " + std::to_string(high));
      return low;
    }
    return *value;
  }
  void fail(const std::string& what) {
    if (error_.empty()) error_ = what;
  }
  const gguf::File& file_;
  const std::string prefix_;
  std::string error_;
};

}  // namespace

Result<Config> read_config(const gguf::File& file, const ConfigLimits& limits) {
  Result<std::string> architecture = file.string("general.architecture");
  if (!architecture) return Error{architecture.error()};
  Config config;
  config.architecture = *architecture;
  Fields fields(file, *architecture);
  config.layers = fields.integer("block_count", 1, limits.layers);
  config.width = fields.integer("embedding_length", 1, limits.width);
  config.ff = fields.integer("feed_forward_length", 1, limits.width);
  config.trained_context = fields.integer("context_length", 1, limits.context);
  config.heads = fields.integer("attention.head_count", 1, limits.heads);
  config.kv_heads = fields.integer_or("attention.head_count_kv", config.heads, 1, limits.heads);
  config.epsilon = fields.number("attention.layer_norm_rms_epsilon");
  config.rope_base = fields.number_or("rope.freq_base", 10'000.0);
  if (!fields.error().empty()) return Error{fields.error()};

  fields.require(config.heads % config.kv_heads == 0, "attention.head_count " + std::to_string(config.heads) +
                                                          " is no multiple of attention.head_count_kv " + std::to_string(config.kv_heads));
  const bool has_key_length = file.find(*architecture + ".attention.key_length") != nullptr;
  fields.require(has_key_length || config.width % config.heads == 0,
                 "embedding_length " + std::to_string(config.width) + " is no multiple of attention.head_count " + std::to_string(config.heads));
  config.head_dim = fields.integer_or("attention.key_length", std::max<int64_t>(1, config.width / config.heads), 1, limits.head_dim);
  const int64_t value_length = fields.integer_or("attention.value_length", config.head_dim, 1, limits.head_dim);
  fields.require(value_length == config.head_dim, "attention.value_length differs from attention.key_length, which this version cannot compute");
  config.rotated = fields.integer_or("rope.dimension_count", config.head_dim, 0, limits.head_dim);
  fields.require(config.rotated % 2 == 0 && config.rotated <= config.head_dim,
                 "rope.dimension_count " + std::to_string(config.rotated) + " is not even or above the head's " + std::to_string(config.head_dim));
  fields.require(fields.integer_or("expert_count", 0, 0, 1 << 20) == 0, "expert_count: this version has no mixture of experts");

  const std::string scaling = fields.string_or("rope.scaling.type", "none");
  if (scaling == "linear") {
    config.rope_divisor = fields.number("rope.scaling.factor");
  } else {
    fields.require(scaling == "none", "rope.scaling.type '" + scaling + "' is not known here; none and linear are");
  }
  if (!fields.error().empty()) return Error{fields.error()};
  return config;
}

}  // namespace vigil::model
