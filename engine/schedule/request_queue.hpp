// First in, first out: requests on their way from the command reader to the compute loop, those that run there, and the one way to cancel any of
// them. Used by several threads. Not here: running a request.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "engine/schedule/request.hpp"
#include "protocol/time.hpp"

namespace vigil::schedule {

class RequestQueue {
 public:
  explicit RequestQueue(size_t limit) : limit_(limit) {}
  // The flag that ends the step which is being computed: up while all requests of that step are stopped, and once the queue is closed. From the
  // first request on; it must outlive the queue's last use.
  void abort_by(std::atomic<bool>& abort);

  enum class Added { queued, duplicate, full };
  Added push(Request request);

  // For the compute loop.
  using Number = uint64_t;  // of a running request; no two have the same
  struct Taken {
    Number number;
    Request request;
  };
  bool wait();                 // until a request waits (true) or the queue is closed (false)
  bool closed() const;
  std::optional<Taken> take();  // makes the first that waits a running one; nothing when none waits
  bool stopped(Number number) const;
  void begin_step(std::span<const Number> members);
  void end_step();
  void finished(Number number);  // it is about to say its last line

  enum class Stopped { nothing, running, waiting };
  struct StopResult {
    Stopped stopped = Stopped::nothing;
    std::optional<protocol::RequestTag> tag;  // of the request that was taken out
  };
  // Without a tag: the one that has run longest, or else the first that waits. A waiting one is taken out: the caller says its last line.
  StopResult stop(std::optional<protocol::RequestTag> tag);
  void close();  // ends the running requests, forgets the others

  bool active() const;  // a request runs
  std::vector<protocol::RequestTag> tags() const;  // of everything that runs or waits: the engine's account of itself
  // Waits until a request runs (true) or the queue is closed (false).
  bool wait_active();
  // Waits `period`; false as soon as no request runs any more.
  bool still_active_after(Duration period);

 private:
  struct Running {
    Number number;
    std::optional<protocol::RequestTag> tag;
    bool stopped = false, in_step = false;
  };
  void judge();  // whether the step is to be aborted

  const size_t limit_;
  std::atomic<bool>* abort_ = nullptr;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> waiting_;
  std::vector<Running> running_;  // the oldest first
  Number last_number_ = 0;
  bool closed_ = false;
};

}  // namespace vigil::schedule
