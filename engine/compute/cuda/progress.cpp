// Events are asked, never blocked on: a blocking call would not return from a device that hangs.
#include "engine/compute/cuda/progress.hpp"

#include <string>
#include <thread>

namespace vigil::compute::cuda {
namespace {

using namespace std::chrono_literals;
constexpr auto eager_time = 2ms;   // of a wait: the end of a step is asked for without a pause, to lose no time
constexpr auto pause_time = 50us;  // between questions after that

}  // namespace

void wait_for(const Event& event, const Clock& clock) {
  const auto start = clock();
  while (!event.finished()) {
    const auto waited = clock() - start;
    if (waited >= device_silence_limit) {
      throw DeviceLost("CUDA device: nothing was finished for " + std::to_string(device_silence_limit.count()) + " s; it hangs");
    }
    if (waited < eager_time) std::this_thread::yield();
    else std::this_thread::sleep_for(pause_time);
  }
}

Progress::Progress(const Stream& stream, const std::shared_ptr<Control>& control, Clock clock)
    : stream_(stream), control_(control), clock_(std::move(clock)), marks_(most_events) {}

void Progress::issued(uint64_t ops) {
  unmarked_ops_ += ops;
  if (unmarked_ops_ < event_ops) return;
  mark();
  take_finished();
  while (marked_ops_ > most_ops_ahead) wait_for_oldest();
}

void Progress::finish() {
  mark();  // also when no op is unmarked: copies count too
  while (waiting_ > 0) wait_for_oldest();
}

void Progress::mark() {
  Mark& next = marks_[(first_ + waiting_) % most_events];
  next.event.record(stream_);
  next.ops = std::exchange(unmarked_ops_, 0);
  marked_ops_ += next.ops;
  ++waiting_;
}

void Progress::take_finished() {
  while (waiting_ > 0 && marks_[first_].event.finished()) {
    control_->steps.fetch_add(marks_[first_].ops, std::memory_order_relaxed);
    marked_ops_ -= marks_[first_].ops;
    first_ = (first_ + 1) % most_events;
    --waiting_;
  }
}

void Progress::wait_for_oldest() {
  wait_for(marks_[first_].event, clock_);
  take_finished();
}

}  // namespace vigil::compute::cuda
