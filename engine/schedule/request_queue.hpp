// First in, first out: requests on their way from the command reader to the compute loop, and the one way to cancel any of them.
// Used by several threads. Not here: running a request.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "engine/schedule/slot.hpp"

namespace vigil::schedule {

class RequestQueue {
 public:
  explicit RequestQueue(size_t limit) : limit_(limit) {}

  enum class Added { queued, duplicate, full };
  Added push(Request request);

  // Waits for a request and makes it the running one; `abort` is lowered now and raised when that request is to end. Nothing once closed.
  std::optional<Request> take(std::atomic<bool>& abort);
  void finished();  // the running request has said its last line

  enum class Stopped { nothing, running, waiting };
  struct StopResult {
    Stopped stopped = Stopped::nothing;
    std::optional<protocol::RequestTag> tag;  // of the request that was taken out
  };
  // Without a tag: the running request, or else the first that waits. A waiting one is taken out: the caller says its last line.
  StopResult stop(std::optional<protocol::RequestTag> tag);
  void close();  // ends the running request, forgets the others

  bool active() const;  // a request runs
  std::vector<protocol::RequestTag> tags() const;  // of everything that runs or waits: the engine's account of itself
  // Waits until a request runs (true) or the queue is closed (false).
  bool wait_active();
  // Waits `period`; false as soon as no request runs any more.
  bool still_active_after(Duration period);

 private:
  const size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> waiting_;
  bool running_ = false, closed_ = false;
  std::optional<protocol::RequestTag> running_tag_;
  std::atomic<bool>* abort_ = nullptr;  // of the running request
};

}  // namespace vigil::schedule
