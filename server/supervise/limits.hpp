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
  Duration exec{}, ready{}, load_max{}, silence{}, stall{}, step{}, cancel{}, stop{};
  Duration backoff_first{}, backoff_max{};
  bool eager = true;             // starts again by itself when it may
};

enum class Trouble : uint8_t {   // why a load failed or a run ended; the driver maps it to an error code
  not_ready, start_failed, stalled, silent, crashed, cancel_unanswered, unloaded, shutting_down, crash_loop
};

// "30 s (engine.stall_s)": a limit as error texts name it.
std::string limit_text(const ChildLimits& limits, std::string_view key, Duration value);

}  // namespace vigil::supervise
