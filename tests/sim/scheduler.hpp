// The virtual clock: things that happen at a time, in order of time and then of being asked for. Nothing here waits.
#pragma once

#include <cstdint>
#include <functional>
#include <algorithm>
#include <queue>
#include <utility>
#include <vector>

#include "protocol/time.hpp"

namespace vigil::sim {

class Scheduler {
 public:
  TimePoint now() const { return now_; }
  void at(TimePoint when, std::function<void()> what) { queue_.push({std::max(when, now_), next_++, std::move(what)}); }
  void in(Duration delay, std::function<void()> what) { at(now_ + delay, std::move(what)); }
  bool empty() const { return queue_.empty(); }
  TimePoint next() const { return queue_.top().when; }
  void run_one() {
    auto item = std::move(const_cast<Item&>(queue_.top()));
    queue_.pop();
    now_ = item.when;
    item.what();
  }
  void advance_to(TimePoint when) { now_ = std::max(now_, when); }

 private:
  struct Item {
    TimePoint when;
    uint64_t order;
    std::function<void()> what;
    bool operator<(const Item& other) const { return when != other.when ? when > other.when : order > other.order; }
  };
  TimePoint now_ = TimePoint{} + std::chrono::hours(1);
  uint64_t next_ = 0;
  std::priority_queue<Item> queue_;
};

}  // namespace vigil::sim
