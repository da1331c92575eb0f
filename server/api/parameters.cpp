// See parameters.hpp.
#include "server/api/parameters.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>
#include <string_view>
#include <utility>

#include "server/json/json.hpp"
#include "server/text/utf8.hpp"

namespace vigil::api {

namespace {

using json = nlohmann::ordered_json;

constexpr int64_t int32_max = std::numeric_limits<int32_t>::max();

void read_logit_bias(Fields& fields, const gguf::Vocabulary& vocabulary, protocol::Sampling& sampling) {
  const json* bias = fields.object("logit_bias");
  if (!bias) return;
  for (const auto& [key, value] : bias->items()) {
    int64_t id = -1;
    const auto [end, failure] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (failure != std::errc() || end != key.data() + key.size() || id < 0 || id >= vocabulary.size()) {
      return fields.fail("logit_bias", "names the token \"" + std::string(text::clip_utf8(key, 40)) + "\"; ids go from 0 to " +
                                           std::to_string(vocabulary.size() - 1));
    }
    if (!value.is_number() || value.get<double>() < -100 || value.get<double>() > 100) {
      return fields.fail("logit_bias", "must give numbers from -100 to 100; token " + key + " has another value");
    }
    sampling.logit_bias.emplace_back(static_cast<protocol::TokenId>(id), value.get<double>());
  }
  std::sort(sampling.logit_bias.begin(), sampling.logit_bias.end());
}

class Hash {
 public:
  void add(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) byte(static_cast<uint8_t>(value >> shift));
  }
  void add(double value) { add(std::bit_cast<uint64_t>(value)); }
  void add(std::string_view text) {
    add(static_cast<uint64_t>(text.size()));
    for (const char c : text) byte(static_cast<uint8_t>(c));
  }
  template <typename T>
  void add_optional(const std::optional<T>& value) {
    add(static_cast<uint64_t>(value.has_value()));
    if (!value) return;
    if constexpr (std::is_floating_point_v<T>) {
      add(static_cast<double>(*value));
    } else {
      add(static_cast<uint64_t>(*value));
    }
  }
  uint64_t value() const { return state_; }

 private:
  void byte(uint8_t b) { state_ = (state_ ^ b) * 0x100000001b3; }
  uint64_t state_ = 0xcbf29ce484222325;
};

}  // namespace

void read_sampling(Fields& fields, const gguf::Vocabulary& vocabulary, protocol::Sampling& sampling) {
  sampling.temperature = fields.number("temperature", 0, max_temperature).value_or(default_temperature);
  sampling.top_p = fields.number("top_p", 0, 1);
  sampling.min_p = fields.number("min_p", 0, 1);
  if (const auto top_k = fields.integer("top_k", -1, int32_max)) sampling.top_k = std::max<int64_t>(*top_k, 0);
  const auto seed = fields.integer("seed", -1, std::numeric_limits<int64_t>::max());
  if (seed && *seed >= 0) sampling.seed = static_cast<uint64_t>(*seed);
  sampling.penalty_freq = fields.number("frequency_penalty", -2, 2);
  sampling.penalty_present = fields.number("presence_penalty", -2, 2);
  constexpr double least_repeat = 0.01, most_repeat = 100;  // 0 would divide by nothing
  sampling.penalty_repeat = fields.number("repeat_penalty", least_repeat, most_repeat);
  const auto other_name = fields.number("repetition_penalty", least_repeat, most_repeat);
  if (!sampling.penalty_repeat) sampling.penalty_repeat = other_name;
  sampling.penalty_last_n = fields.integer("penalty_last_n", -1, int32_max);
  const auto other_last_n = fields.integer("repeat_last_n", -1, int32_max);
  if (!sampling.penalty_last_n) sampling.penalty_last_n = other_last_n;
  read_logit_bias(fields, vocabulary, sampling);
}

void read_client(Fields& fields, Parameters& out) {
  const auto cache_key = fields.text("prompt_cache_key");
  std::optional<std::string> user_id;
  if (const json* metadata = fields.object("metadata")) {
    const auto found = metadata->find("user_id");
    if (found != metadata->end() && found->is_string()) user_id = found->get<std::string>();
  }
  const auto user = fields.text("user");
  for (const auto& name : {cache_key, user_id, user}) {
    if (!name || name->empty()) continue;
    out.client = text::clip_utf8(*name, max_client_name_bytes);
    return;
  }
}

std::vector<std::string> read_stop_strings(Fields& fields, std::string_view name, size_t most) {
  std::vector<std::string> out;
  const json* stop = fields.find(name);
  if (!stop) return out;
  if (stop->is_string()) {
    if (!stop->get_ref<const std::string&>().empty()) out.push_back(stop->get<std::string>());
    return out;
  }
  if (!stop->is_array()) {
    fields.fail(name, "must be a string or an array of strings");
    return out;
  }
  if (stop->size() > most) {
    fields.fail(name, "holds " + std::to_string(stop->size()) + " strings; at most " + std::to_string(most) + " are allowed");
    return out;
  }
  for (const json& entry : *stop) {
    if (!entry.is_string()) {
      fields.fail(name, "must hold strings only");
      return out;
    }
    if (!entry.get_ref<const std::string&>().empty()) out.push_back(entry.get<std::string>());
  }
  return out;
}

Parameters read_parameters(Fields& fields, const gguf::Vocabulary& vocabulary) {
  Parameters out;
  out.stream = fields.flag("stream").value_or(false);
  if (const json* options = fields.object("stream_options")) {
    Fields inner(*options, fields.path("stream_options"));
    out.include_usage = inner.flag("include_usage").value_or(false);
    if (inner.failed()) fields.fail(*inner.error());
  }
  const auto max_tokens = fields.integer("max_tokens", 1, max_tokens_limit);
  out.max_new = fields.integer("max_completion_tokens", 1, max_tokens_limit).value_or(max_tokens.value_or(0));
  out.return_token_ids = fields.flag("return_token_ids").value_or(false);
  read_sampling(fields, vocabulary, out.sampling);
  out.stop = read_stop_strings(fields, "stop", max_stop_strings);
  read_client(fields, out);
  out.choices = static_cast<size_t>(fields.integer("n", 1, max_choices).value_or(1));
  return out;
}

uint64_t fingerprint(const std::vector<gguf::TokenId>& prompt, const Parameters& parameters, const std::vector<turn::Picture>& pictures) {
  Hash hash;
  hash.add(static_cast<uint64_t>(prompt.size()));
  for (const gguf::TokenId id : prompt) hash.add(static_cast<uint64_t>(id));
  const protocol::Sampling& sampling = parameters.sampling;
  hash.add(static_cast<uint64_t>(parameters.max_new));
  hash.add_optional(sampling.temperature);
  hash.add_optional(sampling.top_p);
  hash.add_optional(sampling.min_p);
  hash.add_optional(sampling.top_k);
  hash.add_optional(sampling.penalty_last_n);
  hash.add_optional(sampling.penalty_repeat);
  hash.add_optional(sampling.penalty_freq);
  hash.add_optional(sampling.penalty_present);
  hash.add_optional(sampling.logprobs);
  for (const auto& [id, bias] : sampling.logit_bias) {
    hash.add(static_cast<uint64_t>(id));
    hash.add(bias);
  }
  hash.add(std::string_view(sampling.grammar));
  for (const std::string& stop : parameters.stop) hash.add(std::string_view(stop));
  for (const turn::Picture& picture : pictures) hash.add(picture.hash);
  return hash.value();
}

}  // namespace vigil::api
