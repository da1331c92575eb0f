// How late the event loop is, measured by the one deadline it is to keep. Whatever the loop does first after it stood still moves that
// deadline, so lateness is taken before anything else is done. Pure: time is an argument. Not here: what lateness means.
#pragma once

#include <algorithm>
#include <optional>

#include "protocol/time.hpp"

namespace vigil::process {

class Lateness {
 public:
  // From now on the loop is to wake at `wanted`. One that was past when it was set is due at once: that is not lateness.
  void armed(std::optional<TimePoint> wanted, TimePoint now) {
    due_.reset();
    if (wanted) due_ = std::max(*wanted, now);
  }
  // What the loop is late by and was not taken before; zero when it is no more than `tolerated`.
  Duration take(Duration tolerated, TimePoint now) {
    if (!due_ || now - *due_ <= tolerated) return Duration::zero();
    const Duration late = now - *due_;
    due_ = now;
    return late;
  }

 private:
  std::optional<TimePoint> due_;
};

}  // namespace vigil::process
