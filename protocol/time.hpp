// Time as an argument: the types only. Nobody in the pure rooms reads a clock.
#pragma once

#include <chrono>

namespace vigil {

using Duration = std::chrono::steady_clock::duration;     // nanoseconds
using TimePoint = std::chrono::steady_clock::time_point;  // monotonic

inline double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline Duration from_seconds(double s) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(s));
}

}  // namespace vigil
