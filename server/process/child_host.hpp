// Hosts one supervised child on Asio: its process, pipes, timer and the tail of its stderr. The hands of an engine's and of the vision
// child's driver alike; what happens is reported to the driver's Mind (hands.hpp). Decides nothing. Main thread only: the parent-death
// signal of a child follows the thread that spawned it.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/line_splitter.hpp"
#include "protocol/lines.hpp"
#include "server/process/child_process.hpp"
#include "server/process/hands.hpp"
#include "server/process/lateness.hpp"
#include "server/process/stderr_tail.hpp"

namespace vigil::process {

struct DriverOptions {
  std::string name = "engine";              // in logs, errors and the marker
  std::string instance;                     // of this daemon; the marker is VIGIL_CHILD=<instance>.<name>.<generation>
  std::string exe;                          // resolved path
  std::vector<std::string> args;            // argv[1..]
  std::map<std::string, std::string> env;   // added to the daemon's own, less NOTIFY_SOCKET, LISTEN_*, WATCHDOG_*, VIGIL_*
  std::string cwd;                          // empty = the daemon's
  uint64_t vocabulary = 0;                  // of the model that `args` name; see turn::Request
  uint64_t open_files = 0;                  // RLIMIT_NOFILE of the child (the daemon's original soft limit); 0 = unchanged
  size_t stderr_tail_bytes = 16 * 1024;     // kept for error texts
  Duration late_after = std::chrono::milliseconds(250);  // the loop counts as late from here on
};

// Everything a driver tells the daemon that is not a decision. Any may be empty.
struct DriverObserver {
  std::function<void(const std::string& line)> log;
  std::function<void(supervise::Generation generation, std::string_view bytes)> stderr_output;
  // Around every batch of lines (what was read of stdout at once) that is given to the mind.
  std::function<void()> output_begins, output_taken;
  std::function<void()> state_changed;
  std::function<void()> started;                        // a process was spawned
  std::function<void(supervise::Trouble why)> killed;   // a limit of ours ended it
  std::function<void(double seconds)> loaded;           // READY, since the spawn
  std::function<void()> options_taken;                  // what set_options() gave holds now
  std::function<void(Duration by)> late;                // the loop was late by so much when a limit was due
};

class ChildHost final : public Hands {
 public:
  // `mind` may still be under construction; it is not called before something happens.
  ChildHost(boost::asio::io_context& io, DriverOptions options, DriverObserver observer, Mind& mind);
  ~ChildHost() override;                    // kills what is left without waiting
  ChildHost(const ChildHost&) = delete;

  // Gives the mind an order, then sets the timer to what it wants next.
  template <typename Order>
  void order(Order&& give) {
    notice_lateness();
    give();
    rearm();
  }
  void set_options(DriverOptions options);  // hold from the next start on; name, instance and late_after stay
  // Calls `done` from the loop when nothing of the tree is left: soon, when there is none.
  void when_gone(std::function<void()> done);

  // ---- Hands
  TimePoint now() const override { return std::chrono::steady_clock::now(); }
  void spawn(supervise::Generation generation) override;
  void terminate() override;
  void kill() override;
  void write(std::string line) override;
  void pause_reading(bool paused) override;
  uint64_t vocabulary() const override { return options_.vocabulary; }
  supervise::TreeUsage usage() override;
  void run_soon() override;
  std::string last_words() const override { return tail_.last_line(); }
  void log(const std::string& line) override;
  void state_changed() override;
  void started() override;
  void loaded(double seconds) override;
  void killed(supervise::Trouble why) override;

 private:
  template <typename Action>
  void post(Action action);
  ProcessEvents events(supervise::Generation generation);
  void output(supervise::Generation generation, std::string_view bytes);
  void tree_empty();
  void empty_soon();
  void rearm();
  void disarm();
  void ring();
  void due();
  void notice_lateness();
  void report_gone();
  void take_next_options();

  boost::asio::io_context& io_;
  DriverOptions options_;
  std::optional<DriverOptions> next_options_;  // take the place of options_ when no process is there
  DriverObserver observer_;
  Mind& mind_;
  boost::asio::steady_timer timer_;
  std::optional<TimePoint> wanted_, armed_; // the mind's deadline; when the timer rings, perhaps before that
  Lateness lateness_;
  std::shared_ptr<ChildProcess> process_;
  protocol::LineSplitter splitter_{protocol::max_line_from_child_bytes};
  StderrTail tail_;
  std::vector<std::function<void()>> gone_waiters_;
  bool pending_posted_ = false, empty_posted_ = false;
  std::shared_ptr<bool> token_ = std::make_shared<bool>(true);  // handlers that may outlive us look here
};

}  // namespace vigil::process
