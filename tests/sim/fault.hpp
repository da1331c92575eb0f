// One failure at one step: every effect and every report of the simulated driver asks here, and the Nth of them fails. With N = 0 nothing
// fails and the steps are counted. What failing means is up to the asker.
#pragma once

#include <cstdint>
#include <string_view>

#include "protocol/time.hpp"
#include "tests/sim/random.hpp"

namespace vigil::sim {

enum class Point : uint8_t { none, spawn, executed, write, terminate, kill, usage, pause, run_soon, timer, output, error_output, exit, tree_empty, token, store, read, join, discard };

inline std::string_view to_string(Point point) {
  constexpr std::string_view names[] = {"none", "spawn", "executed", "write", "terminate", "kill", "usage", "pause", "run_soon", "timer",
                                        "output", "error_output", "exit", "tree_empty", "token", "store", "read", "join", "discard"};
  return names[static_cast<size_t>(point)];
}

class FaultPlan {
 public:
  explicit FaultPlan(uint64_t seed, uint64_t fail_at = 0) : fail_at_(fail_at), dice_(seed * 0x9E3779B97F4A7C15ull + fail_at) {}

  // True when this step is the one that fails.
  bool at(Point point) {
    if (++steps_ != fail_at_) return false;
    hit_ = point;
    return true;
  }
  // How: lost for good, or later than it should be. Drawn from dice of its own, so that the world before the failure stays the same.
  bool lost() { return dice_.chance(50); }
  Duration delay(int64_t most_ms) { return std::chrono::milliseconds(dice_.between(1, most_ms)); }

  uint64_t steps() const { return steps_; }
  Point hit() const { return hit_; }
  bool failed() const { return hit_ != Point::none; }

 private:
  uint64_t fail_at_, steps_ = 0;
  Point hit_ = Point::none;
  Random dice_;
};

}  // namespace vigil::sim
