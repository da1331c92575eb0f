// How far the device is: ops are issued ahead of it, an event after every few of them tells what is done. The one place that waits for the device.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/compute/backend.hpp"
#include "engine/compute/cuda/device.hpp"

namespace vigil::compute::cuda {

using Clock = std::function<std::chrono::steady_clock::time_point()>;

// When nothing at all gets done for so long the device hangs: a wait ends in DeviceLost. Below the daemon's patience, so that the reason is told.
inline constexpr std::chrono::seconds device_silence_limit{60};

// Returns when the event is finished.
void wait_for(const Event& event, const Clock& clock);

class Progress {
 public:
  // Finished ops are counted in `control`, which may become another.
  Progress(const Stream& stream, const std::shared_ptr<Control>& control, Clock clock);

  // An op has been issued, or several at once. Waits while too many are ahead of the device, so that an abort is acted on soon.
  void issued(uint64_t ops = 1);
  // Waits until all that was issued is done.
  void finish();

 private:
  static constexpr uint64_t event_ops = 8;  // ops from event to event
  static constexpr uint64_t most_ops_ahead = 128;
  static constexpr size_t most_events = most_ops_ahead / event_ops + 2;

  struct Mark {
    Event event;
    uint64_t ops = 0;  // that it stands for
  };
  void mark();
  void wait_for_oldest();
  void take_finished();  // counts what is done

  const Stream& stream_;
  const std::shared_ptr<Control>& control_;
  const Clock clock_;
  std::vector<Mark> marks_;         // a ring
  size_t first_ = 0, waiting_ = 0;  // the oldest that is not known to be done, and how many are not
  uint64_t unmarked_ops_ = 0, marked_ops_ = 0;  // issued without an event behind them; with one that is not known to be done
};

}  // namespace vigil::compute::cuda
