// What the desk remembers of requests that are over or have not come yet: which ones crash engines, and which were cancelled before they
// came. Both forget after a while and are capped. Pure: time is an argument.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "protocol/time.hpp"

namespace vigil::turn {

// Contract, "Retry": a request (by fingerprint) that was running when the engine died twice within 10 minutes is refused for 10 minutes.
class CrashMemory {
 public:
  void remember(uint64_t fingerprint, Duration memory, TimePoint now);
  bool refuses(uint64_t fingerprint, int crashes, Duration memory, TimePoint now) const;

 private:
  std::unordered_map<uint64_t, std::vector<TimePoint>> crashes_;
};

// A cancel may overtake its own request on the way (clients may name their requests through X-Request-Id). The id of such a cancel is kept,
// and the request that comes with it never starts. Ids of requests that ended lately are known, so that a cancel that came too late
// does not hit the next request of that name.
class CancelMemory {
 public:
  static constexpr size_t most_ids = 1024;

  void cancelled_unseen(const std::string& id, TimePoint now);
  void ended(const std::string& id);
  bool take(const std::string& id, Duration memory, TimePoint now);  // true when a cancel was here before its request; once

 private:
  struct Early {
    std::string id;
    TimePoint at{};
  };
  std::deque<Early> early_;                 // by age
  std::deque<std::string> ended_;           // by age
  std::unordered_set<std::string> ended_ids_;
};

}  // namespace vigil::turn
