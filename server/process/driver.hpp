// One supervised engine: carries out what supervise::Child decides and what turn::Desk orders, and reports what happens to both. It
// reads clocks, pipes, pidfds and /proc; it decides nothing. All calls on the io_context's thread (the main thread: the parent-death
// signal of a child follows the thread that spawned it).
// Its pure half is Conductor (conductor.hpp), which talks to Child and Desk; its hands are a ChildHost (child_host.hpp), which reports
// happenings to the Conductor. EngineDriver's TurnPort calls go straight to the Conductor.
#pragma once

#include <functional>
#include <memory>

#include "server/process/child_host.hpp"
#include "server/supervise/child.hpp"
#include "server/turn/desk.hpp"

namespace vigil::process {

class EngineDriver final : public turn::TurnPort {
 public:
  EngineDriver(boost::asio::io_context& io, DriverOptions options, supervise::ChildLimits limits, DriverObserver observer);
  ~EngineDriver() override;                 // kills what is left without waiting

  void attach(turn::Desk& desk);            // before anything else; desk and driver know each other
  void load();                              // start now (eager start)
  using LoadDone = std::function<void(const std::optional<turn::RequestError>&)>;
  void load_and_tell(LoadDone done);        // /v1/load: `done` once, with nothing at READY, else with why not
  void unload_when_idle(std::function<void()> done);  // /v1/unload: running requests may end first
  void set_options(DriverOptions options);  // hold from the next start on; name, instance and late_after stay
  void stop(supervise::Trouble why, bool at_once, std::function<void()> done);  // done when the tree is gone
  void set_limits(const supervise::ChildLimits& limits);

  // turn::TurnPort
  void need_engine() override;
  void start(turn::LeaseId lease, const turn::Request& request, int64_t max_new) override;
  void cancel(turn::LeaseId lease) override;
  void answered(turn::LeaseId lease) override;
  void release(turn::LeaseId lease) override;
  void pause_output(bool paused) override;

  const supervise::Child& child() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vigil::process
