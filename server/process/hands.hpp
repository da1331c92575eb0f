// The two halves of a child's driver as they see each other: Hands act (processes, pipes, clocks), a Mind decides. A simulation puts other
// hands under the same mind. Not here: either half.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/time.hpp"
#include "server/supervise/child.hpp"

namespace vigil::process {

// What only the driver can do. No call may report back before it returns; it reports later, from the event loop.
class Hands {
 public:
  virtual ~Hands() = default;
  virtual TimePoint now() const = 0;
  virtual void spawn(supervise::Generation generation) = 0;   // then spawned() or spawn_failed(); with the settings that hold now
  virtual uint64_t vocabulary() const { return 0; }           // of the model that runs, or that the next start will run
  virtual void terminate() = 0;                               // TERM and CONT to the tree; tree_empty() as soon as it is so
  virtual void kill() = 0;                                    // KILL to the tree, again and again; tree_empty() as soon as it is so
  virtual void write(std::string line) = 0;                   // to the child's stdin, in order, never blocking
  virtual void pause_reading(bool paused) = 0;                // of stdout
  virtual supervise::TreeUsage usage() = 0;                   // totals over the tree, now
  virtual void run_soon() = 0;                                // call Mind::run_pending() from the event loop, soon
  virtual std::string last_words() const = 0;                 // the last line(s) of stderr, printable and clipped; may be empty
  // Reports, for logs and metrics.
  virtual void log(const std::string& line) = 0;
  virtual void state_changed() = 0;
  virtual void started() = 0;                                 // a process was asked for
  virtual void loaded(double seconds) = 0;                    // READY, since the start
  virtual void killed(supervise::Trouble why) = 0;            // a limit of ours ended it
};

// What happened to the child of the current generation, and when the mind wants to be asked again.
class Mind {
 public:
  virtual ~Mind() = default;
  virtual void spawned(int64_t pid) = 0;
  virtual void spawn_failed(const std::string& reason) = 0;
  virtual void stdout_line(std::string_view line, bool overlong) = 0;  // without its end
  virtual void stderr_output() = 0;
  virtual void stdout_closed() = 0;
  virtual void exited(const std::string& how) = 0;            // "killed by signal 11 (SIGSEGV)"; pipes were drained before
  virtual void tree_empty() = 0;
  // The loop is late by so much that it had not told before; said ahead of whatever it reports next, so that nobody is judged by its lateness.
  virtual void late(Duration by) = 0;
  virtual void due() = 0;                                     // deadline() passed; pipes were drained just before
  virtual void run_pending() = 0;
  virtual std::optional<TimePoint> deadline() const = 0;
  virtual const supervise::Child& child() const = 0;
};

}  // namespace vigil::process
