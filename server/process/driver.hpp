// One supervised engine: carries out what supervise::Child decides and what turn::Desk orders, and reports what happens to both. It
// reads clocks, pipes, pidfds and /proc; it decides nothing. All calls on the io_context's thread (the main thread: the parent-death
// signal of a child follows the thread that spawned it).
// Its pure half is Conductor (conductor.hpp): the driver implements process::Hands and reports happenings to the Conductor, which talks to
// Child and Desk. EngineDriver's TurnPort calls go straight to the Conductor.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "server/supervise/child.hpp"
#include "server/turn/desk.hpp"

namespace boost::asio {
class io_context;
}

namespace vigil::process {

struct DriverOptions {
  std::string name = "engine";              // in logs, errors and the marker
  std::string instance;                     // of this daemon; the marker is VIGIL_CHILD=<instance>.<name>.<generation>
  std::string exe;                          // resolved path
  std::vector<std::string> args;            // argv[1..]
  std::map<std::string, std::string> env;   // added to the daemon's own, less NOTIFY_SOCKET, LISTEN_*, WATCHDOG_*, VIGIL_*
  std::string cwd;                          // empty = the daemon's
  uint64_t open_files = 0;                  // RLIMIT_NOFILE of the child (the daemon's original soft limit); 0 = unchanged
  size_t stderr_tail_bytes = 16 * 1024;     // kept for error texts
  Duration late_after = std::chrono::milliseconds(250);  // the loop counts as late from here on
};

// Everything the driver tells the daemon that is not a decision. Any may be empty.
struct DriverObserver {
  std::function<void(const std::string& line)> log;
  std::function<void(supervise::Generation generation, std::string_view bytes)> stderr_output;
  std::function<void()> state_changed;
  std::function<void()> started;                        // a process was spawned
  std::function<void(supervise::Trouble why)> killed;   // a limit of ours ended it
  std::function<void(double seconds)> loaded;           // READY, since the spawn
};

class EngineDriver final : public turn::TurnPort {
 public:
  EngineDriver(boost::asio::io_context& io, DriverOptions options, supervise::ChildLimits limits, DriverObserver observer);
  ~EngineDriver() override;                 // kills what is left without waiting

  void attach(turn::Desk& desk);            // before anything else; desk and driver know each other
  void load();                              // start now (eager start, /v1/load)
  void stop(supervise::Trouble why, bool at_once, std::function<void()> done);  // done when the tree is gone
  void set_limits(const supervise::ChildLimits& limits);

  // turn::TurnPort
  void need_engine() override;
  void start(turn::LeaseId lease, const turn::Request& request, int64_t max_new) override;
  void cancel(turn::LeaseId lease) override;
  void release(turn::LeaseId lease, turn::LeaseEnd end) override;
  void pause_output(bool paused) override;

  const supervise::Child& child() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace vigil::process
