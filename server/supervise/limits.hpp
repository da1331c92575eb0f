// What the supervision of one child is bounded by, and the kinds of trouble it can name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/time.hpp"

namespace vigil::supervise {

using Generation = uint64_t;
using LeaseId = uint64_t;

// Durations of 0 switch a limit off (but for exec and stop, which always hold).
struct ChildLimits {
  std::string name = "engine";   // prefix of the limits' names in texts: "engine.ready_s"
  std::string silence_key = "silence_s";  // what `silence` is called in the configuration
  Duration exec{}, ready{}, load_max{}, silence{}, stall{}, step{}, cancel{}, stop{};
  Duration backoff_first{}, backoff_max{};
  Duration idle_unload{};        // ready without a lease for so long: stopped on purpose
  bool eager = true;             // starts again by itself when it may
};

enum class Trouble : uint8_t {   // why a load failed or a run ended; the driver maps it to an error code
  not_ready, start_failed, stalled, silent, crashed, cancel_unanswered, unloaded, shutting_down, crash_loop
};

// When the child's own account and ours differ about a lease (T14 of the seed behaviours): so many accounts in a row without it, and no
// line for it for so long, and it is released.
inline constexpr int accounts_without = 3;
inline constexpr Duration account_quiet = std::chrono::seconds(5);

// "30 s (engine.stall_s)": a limit as error texts name it.
std::string limit_text(const ChildLimits& limits, std::string_view key, Duration value);

}  // namespace vigil::supervise
