// The flags of vigil-engine, each checked and named.
#include "engine/options.hpp"

#include <optional>

#include "protocol/child_flags.hpp"
#include "protocol/layer_split.hpp"
#include "protocol/lines.hpp"

namespace vigil::engine {
namespace {

constexpr int64_t max_context = int64_t{1} << 30;

Result<void> apply(Options& options, std::string_view flag, std::string_view value) {
  const auto take = [&](int64_t low, int64_t high, auto&& store) -> Result<void> {
    const Result<int64_t> parsed = protocol::flag_number(flag, value, low, high);
    if (!parsed) return Error{parsed.error()};
    store(*parsed);
    return {};
  };
  if (flag == "--model") {
    options.model = std::string(value);
    return {};
  }
  if (flag == "--draft-model") {
    options.runtime.draft_model = std::string(value);
    return {};
  }
  if (flag == "--context") return take(0, max_context, [&](int64_t n) { options.runtime.context = n; });
  if (flag == "--threads") return take(0, 1024, [&](int64_t n) { options.runtime.backend.threads = static_cast<int>(n); });
  if (flag == "--step-ms") return take(1, 60'000, [&](int64_t n) { options.step_ms = static_cast<double>(n); });
  if (flag == "--beat-ms") return take(10, 3'600'000, [&](int64_t n) { options.beat_ms = n; });
  if (flag == "--slots") return take(0, protocol::max_slots, [&](int64_t n) { options.runtime.slots = n == 0 ? default_slots : n; });
  if (flag == "--speculate") return take(0, 64, [&](int64_t n) { options.runtime.speculate = n; });
  if (flag == "--cache-mib") return take(-1, int64_t{1} << 26, [&](int64_t n) { options.runtime.cache_mib = n; });
  if (flag == "--backend") {
    options.runtime.backend.backend = std::string(value);  // judged where the backends are known
    return {};
  }
  if (flag == "--gpu-layers") return take(-1, 100'000, [&](int64_t n) { options.runtime.gpu_layers = n; });
  if (flag == "--gpu-reserve-mib") return take(-1, int64_t{1} << 26, [&](int64_t n) { options.runtime.gpu_reserve_mib = n; });
  if (flag == "--gpu-experts") return take(-1, 65'536, [&](int64_t n) { options.runtime.gpu_experts = n; });
  if (flag == "--expert-swap-mib") return take(0, int64_t{1} << 20, [&](int64_t n) { options.runtime.expert_swap_mib = n; });
  if (flag == "--layer-split") {
    Result<std::vector<double>> shares = protocol::parse_layer_split(value);
    if (!shares) return Error{"--layer-split " + shares.error()};
    options.runtime.layer_split = std::move(*shares);
    return {};
  }
  if (flag == "--cuda-graphs") {
    if (value != "on" && value != "off") return Error{"--cuda-graphs '" + std::string(value) + "' is not on or off"};
    options.runtime.backend.gpu.graphs = value == "on";
    return {};
  }
  if (flag == "--kv-type") {
    const auto type = compute::kv_type_named(value);
    if (!type) return Error{"--kv-type '" + std::string(value) + "' is not f16, f32, q8_0 or q4_0"};
    options.runtime.kv_type = *type;
    return {};
  }
  return Error{"unknown flag '" + std::string(flag) + "'"};
}

}  // namespace

Result<Options> parse_options(std::span<const std::string_view> arguments) {
  Options options;
  options.runtime.slots = default_slots;
  bool speculates = false;
  const auto take = [&](std::string_view flag, std::string_view value) {
    speculates |= flag == "--speculate";
    return apply(options, flag, value);
  };
  if (Result<void> applied = protocol::each_flag(arguments, take); !applied) return Error{applied.error()};
  if (options.model.empty()) return Error{"--model FILE.gguf is needed"};
  if (!options.runtime.draft_model.empty() && !speculates) options.runtime.speculate = default_draft_guesses;
  if (!options.runtime.draft_model.empty() && options.runtime.speculate == 0) return Error{"--draft-model needs a --speculate above 0"};
  return options;
}

}  // namespace vigil::engine
