// Key names: ggml project, docs/gguf.md ("LLM" section).
#include "engine/model/config.hpp"

#include <algorithm>
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
  // A list of at most `count` numbers from 0 to `high`; empty when the file has none.
  std::vector<int64_t> integers_or_none(const char* name, size_t count, int64_t high) {
    if (!has(name)) return {};
    const Result<std::vector<int64_t>> values = file_.integers(prefix_ + name);
    if (!values) return fail(values.error()), std::vector<int64_t>{};
    if (values->size() > count) return fail(prefix_ + name + " has more than " + std::to_string(count) + " numbers"), std::vector<int64_t>{};
    for (const int64_t value : *values) {
      if (value < 0 || value > high) return fail(prefix_ + name + " has a number that is not between 0 and " + std::to_string(high)), std::vector<int64_t>{};
    }
    return *values;
  }
  void require(bool holds, const std::string& what) {
    if (!holds) fail(prefix_ + what);
  }
  bool has(const char* name) const { return file_.find(prefix_ + name) != nullptr; }
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

// Rope's keys, and what the fields read before are worth together.
void read_rope(Fields& fields, const ConfigLimits& limits, Config& config) {
  config.rope_base = fields.number_or("rope.freq_base", 10'000.0);
  config.window_rope_base = fields.has("rope.freq_base_swa") ? fields.number("rope.freq_base_swa") : 0.0;
  config.rotated = fields.integer_or("rope.dimension_count", config.head_dim, 0, limits.head_dim);
  fields.require(config.rotated % 2 == 0 && config.rotated <= config.head_dim,
                 "rope.dimension_count " + std::to_string(config.rotated) + " is not even or above the head's " + std::to_string(config.head_dim));
  config.rope_sections = fields.integers_or_none("rope.dimension_sections", 4, config.rotated);
  const std::string scaling = fields.string_or("rope.scaling.type", "none");
  RopeScaling& rope = config.rope_scaling;
  if (scaling == "linear") {
    rope.kind = RopeScaling::Kind::linear;
    rope.factor = fields.number("rope.scaling.factor");
  } else if (scaling == "yarn") {
    rope.kind = RopeScaling::Kind::yarn;
    rope.factor = fields.number("rope.scaling.factor");
    fields.require(rope.factor >= 1, "rope.scaling.factor is below 1");
    rope.original_context = fields.integer_or("rope.scaling.original_context_length", config.trained_context, 1, limits.context);
    rope.magnitude = fields.number_or("rope.scaling.yarn_attn_factor", fields.number_or("rope.scaling.attn_factor", 1.0));
    rope.fast_turns = fields.number_or("rope.scaling.yarn_beta_fast", rope.fast_turns);
    rope.slow_turns = fields.number_or("rope.scaling.yarn_beta_slow", rope.slow_turns);
    fields.require(config.rope_base > 1, "rope.freq_base is not above 1, which YaRN needs");
  } else {
    fields.require(scaling == "none", "rope.scaling.type '" + scaling + "' is not known here; none, linear and yarn are");
  }
}

void read_experts(Fields& fields, const ConfigLimits& limits, Config& config) {
  ExpertConfig& experts = config.experts;
  experts.count = fields.integer_or("expert_count", 0, 0, limits.experts);
  if (experts.count == 0) return;
  experts.used = fields.integer("expert_used_count", 1, experts.count);
  experts.ff = config.ff == 0 ? fields.integer("expert_feed_forward_length", 1, limits.width)
                              : fields.integer_or("expert_feed_forward_length", config.ff, 1, limits.width);
  experts.shared_ff = fields.integer_or("expert_shared_feed_forward_length", 0, 0, limits.width);
}

void read_recurrent(Fields& fields, const ConfigLimits& limits, Config& config) {
  RecurrentConfig& recurrent = config.recurrent;
  if (!fields.has("ssm.conv_kernel")) return;
  recurrent.kernel = fields.integer("ssm.conv_kernel", 1, limits.kernel);
  recurrent.key_dim = fields.integer("ssm.state_size", 1, limits.head_dim);
  recurrent.key_heads = fields.integer("ssm.group_count", 1, limits.heads);
  recurrent.value_heads = fields.integer("ssm.time_step_rank", 1, limits.heads);
  const int64_t inner = fields.integer("ssm.inner_size", 1, limits.width);
  recurrent.attention_every = fields.integer_or("full_attention_interval", 4, 1, limits.layers);
  fields.require(recurrent.value_heads % recurrent.key_heads == 0, "ssm.time_step_rank " + std::to_string(recurrent.value_heads) +
                                                                       " is no multiple of ssm.group_count " + std::to_string(recurrent.key_heads));
  fields.require(inner % recurrent.value_heads == 0, "ssm.inner_size " + std::to_string(inner) + " is no multiple of ssm.time_step_rank " +
                                                         std::to_string(recurrent.value_heads));
  recurrent.value_dim = std::max<int64_t>(1, inner / recurrent.value_heads);
  fields.require(recurrent.value_dim <= limits.head_dim, "ssm.inner_size gives heads of " + std::to_string(recurrent.value_dim) + " values, too many");
}

}  // namespace

Result<Config> read_config(const gguf::File& file, const ConfigLimits& limits) {
  Result<std::string> architecture = file.string("general.architecture");
  if (!architecture) return Error{architecture.error()};
  Config config;
  config.architecture = *architecture;
  Fields fields(file, *architecture);
  config.layers = fields.integer("block_count", 1, limits.layers);
  config.width = fields.integer("embedding_length", 1, limits.width);
  config.ff = fields.integer_or("feed_forward_length", 0, 0, limits.width);
  config.trained_context = fields.integer("context_length", 1, limits.context);
  config.heads = fields.integer("attention.head_count", 1, limits.heads);
  config.kv_heads = fields.integer_or("attention.head_count_kv", config.heads, 1, limits.heads);
  config.epsilon = fields.number("attention.layer_norm_rms_epsilon");
  if (!fields.error().empty()) return Error{fields.error()};

  fields.require(config.heads % config.kv_heads == 0, "attention.head_count " + std::to_string(config.heads) +
                                                          " is no multiple of attention.head_count_kv " + std::to_string(config.kv_heads));
  fields.require(fields.has("attention.key_length") || config.width % config.heads == 0,
                 "embedding_length " + std::to_string(config.width) + " is no multiple of attention.head_count " + std::to_string(config.heads));
  config.head_dim = fields.integer_or("attention.key_length", std::max<int64_t>(1, config.width / config.heads), 1, limits.head_dim);
  const int64_t value_length = fields.integer_or("attention.value_length", config.head_dim, 1, limits.head_dim);
  fields.require(value_length == config.head_dim, "attention.value_length differs from attention.key_length, which this version cannot compute");
  config.window = fields.integer_or("attention.sliding_window", 0, 0, limits.context);
  config.window_pattern = fields.integer_or("attention.sliding_window_pattern", 0, 0, limits.layers);
  read_rope(fields, limits, config);
  read_experts(fields, limits, config);
  read_recurrent(fields, limits, config);
  if (!fields.error().empty()) return Error{fields.error()};
  return config;
}

Result<void> need_feed_forward(const Config& config) {
  if (config.ff == 0) return Error{config.architecture + ".feed_forward_length is missing or 0"};
  return {};
}

Result<void> need_experts(const Config& config) {
  if (config.experts.count == 0) return Error{config.architecture + ".expert_count is missing or 0"};
  return {};
}

Result<void> need_recurrent(const Config& config) {
  if (config.recurrent.kernel == 0) return Error{config.architecture + ".ssm.conv_kernel is missing"};
  return {};
}

Result<void> need_window(const Config& config) {
  if (config.window == 0) return Error{config.architecture + ".attention.sliding_window is missing or 0"};
  return {};
}

Result<void> refuse_experts(const Config& config) {
  if (config.experts.count > 0) return Error{config.architecture + ".expert_count: this version has no mixture of experts for this architecture"};
  return {};
}

}  // namespace vigil::model
