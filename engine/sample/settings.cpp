// The ranges of sampling values.
#include "engine/sample/settings.hpp"

#include <cmath>
#include <string>

namespace vigil::sample {
namespace {

Error out_of_range(const char* key, double value, const char* allowed) {
  return Error{std::string(key) + " is " + std::to_string(value) + "; it must be " + allowed};
}

}  // namespace

Result<Settings> check_settings(const protocol::Sampling& wanted, int64_t vocabulary) {
  Settings settings;
  settings.temperature = wanted.temperature.value_or(0);
  if (!(std::isfinite(settings.temperature) && settings.temperature >= 0)) {
    return out_of_range("temperature", settings.temperature, "0 or more");
  }
  settings.top_p = wanted.top_p.value_or(1);
  if (!(settings.top_p >= 0 && settings.top_p <= 1)) return out_of_range("top_p", settings.top_p, "between 0 and 1");
  settings.min_p = wanted.min_p.value_or(0);
  if (!(settings.min_p >= 0 && settings.min_p <= 1)) return out_of_range("min_p", settings.min_p, "between 0 and 1");
  settings.top_k = std::max<int64_t>(0, wanted.top_k.value_or(0));  // -1 is used as "off" as much as 0
  settings.seed = wanted.seed;
  settings.penalty_last_n = wanted.penalty_last_n.value_or(default_penalty_last_n);
  if (settings.penalty_last_n < -1) {
    return out_of_range("penalty_last_n", static_cast<double>(settings.penalty_last_n), "-1 (all), 0 (off) or more");
  }
  settings.penalty_repeat = wanted.penalty_repeat.value_or(1);
  if (!(std::isfinite(settings.penalty_repeat) && settings.penalty_repeat > 0)) {
    return out_of_range("penalty_repeat", settings.penalty_repeat, "above 0");
  }
  settings.penalty_freq = wanted.penalty_freq.value_or(0);
  if (!std::isfinite(settings.penalty_freq)) return out_of_range("penalty_freq", settings.penalty_freq, "a finite number");
  settings.penalty_present = wanted.penalty_present.value_or(0);
  if (!std::isfinite(settings.penalty_present)) return out_of_range("penalty_present", settings.penalty_present, "a finite number");
  for (const auto& [id, bias] : wanted.logit_bias) {
    if (id < 0 || id >= vocabulary) {
      return Error{"logit_bias names token " + std::to_string(id) + "; ids run from 0 to " + std::to_string(vocabulary - 1)};
    }
    if (std::isnan(bias)) return out_of_range("logit_bias", bias, "a number");
  }
  settings.logit_bias = wanted.logit_bias;
  settings.logprobs = wanted.logprobs;
  if (settings.logprobs && (*settings.logprobs < 0 || *settings.logprobs > protocol::max_logprobs)) {
    return out_of_range("logprobs", *settings.logprobs, "between 0 and 20");
  }
  return settings;
}

}  // namespace vigil::sample
