// The life of one supervised child as a pure state machine: step(event, now) -> effects, one deadline. It decides everything about
// starting, judging, stopping and blocking; process/driver only acts. Not here: clocks, processes, pipes, requests' contents.
//
//   unloaded --start--> starting --READY--> ready --stop--> stopping --tree empty--> unloaded
//                          |                  |                          |
//                          +--limit, death----+---> stopping ---tree empty--> failed (next start free) or backoff (from the second failure in a row)
//
// Contract, "Children", is the specification of every judgement here.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "protocol/lines.hpp"
#include "protocol/time.hpp"

namespace vigil::supervise {

using Generation = uint64_t;
using LeaseId = uint64_t;

// Durations of 0 switch a limit off (but for exec and stop, which always hold).
struct ChildLimits {
  std::string name = "engine";   // prefix of the limits' names in texts: "engine.ready_s"
  Duration exec{}, ready{}, load_max{}, silence{}, stall{}, step{}, cancel{}, stop{};
  Duration backoff_first{}, backoff_max{};
  bool eager = true;             // starts again by itself when it may
};

enum class ChildState : uint8_t { unloaded, starting, ready, stopping, backoff, failed };
std::string_view to_string(ChildState state);

enum class Trouble : uint8_t {   // why a load failed or a run ended; the driver maps it to an error code
  not_ready, start_failed, stalled, silent, crashed, cancel_unanswered, unloaded, shutting_down, crash_loop
};

// ---- events
namespace event {
struct Start { bool by_hand = false; };             // somebody needs the child; by_hand (/v1/load) also resets the failure count
struct Stop { Trouble why = Trouble::unloaded; bool at_once = false; };  // unloaded or shutting_down; at_once: no grace, KILL
struct Spawned { int64_t pid = 0; };
struct SpawnFailed { std::string reason; };         // could not be executed
struct Line {                                       // a valid protocol line; lease when it belongs to an open one
  std::optional<LeaseId> lease;
  protocol::EngineEvent event;
};
struct BadLine { std::string reason; };             // malformed or overlong: counts as output, not as a valid line
struct StderrOutput {};
struct StdoutClosed {};
struct Exited { std::string how; };                 // "killed by signal 11 (SIGSEGV)", "exited with status 1"
struct TreeEmpty {};                                // nothing of the tree is left
struct Usage { Duration cpu{}; uint64_t major_faults = 0, io_bytes = 0; };  // totals over the tree, never decreasing
struct LeaseOpened { LeaseId id = 0; };             // GEN was sent
struct LeaseCancelled { LeaseId id = 0; };          // STOP was sent, or would have been
struct LeaseClosed { LeaseId id = 0; bool finished = false; };  // finished: with an answer
struct Paused { bool paused = false; };             // the daemon does not read the pipe for a slow reader
struct Late { Duration by{}; };                     // the loop itself was late by this much
struct Due {};                                      // the deadline passed; pipes were drained and Usage given just before
struct Limits { ChildLimits limits; };              // reloaded configuration
}  // namespace event
using Event = std::variant<event::Start, event::Stop, event::Spawned, event::SpawnFailed, event::Line, event::BadLine, event::StderrOutput,
                           event::StdoutClosed, event::Exited, event::TreeEmpty, event::Usage, event::LeaseOpened, event::LeaseCancelled,
                           event::LeaseClosed, event::Paused, event::Late, event::Due, event::Limits>;

// ---- effects, in the order in which they must be carried out
namespace effect {
struct Spawn { Generation generation = 0; };
struct Terminate {};                                // TERM (and CONT) to the group; then report TreeEmpty as soon as it is so
struct Kill {};                                     // KILL to the group, then to everything that carries the marker, until TreeEmpty
struct SampleUsage {};                              // give event::Usage now (the next deadline will want it)
struct StateChanged {};                             // state(), ready(), reason() ... are new: tell the desk
struct LoadFailed { Trouble why; std::string text; };              // end everyone who waits for the load
struct Lost {                                       // end every lease of this generation
  Trouble why;
  std::string text;
  std::vector<LeaseId> culprits;                    // leases the judgement was about; empty = all alike
  Trouble others_why;                               // for leases that are not culprits
  std::string others_text;
};
struct Killed { Trouble why; };                     // a limit of ours ended it: count for metrics
struct Log { std::string text; };
}  // namespace effect
using Effect = std::variant<effect::Spawn, effect::Terminate, effect::Kill, effect::SampleUsage, effect::StateChanged, effect::LoadFailed,
                            effect::Lost, effect::Killed, effect::Log>;

// Judges a loaded child while requests are open. A part of Child; separate because its rules are the contract's longest.
class LivenessWatch {
 public:
  struct Verdict {
    Trouble why;
    std::string text;
    std::vector<LeaseId> culprits;
  };
  void started(const protocol::Ready& ready, TimePoint now);
  void lease_opened(LeaseId id, TimePoint now);
  void lease_cancelled(LeaseId id, TimePoint now);
  void lease_closed(LeaseId id, TimePoint now);
  void line(std::optional<LeaseId> lease, const protocol::EngineEvent& event, TimePoint now);
  void output(TimePoint now);                       // any byte on stdout or stderr
  void usage(const event::Usage& usage, TimePoint now);
  void paused(bool paused, TimePoint now);
  void late(Duration by);
  std::optional<Verdict> judge(const ChildLimits& limits, TimePoint now) const;
  std::optional<TimePoint> deadline(const ChildLimits& limits) const;  // of the next judgement
  std::optional<TimePoint> next_sample(const ChildLimits& limits) const;  // a Usage is wanted then
  bool active() const { return !leases_.empty(); }
  bool lease_open(LeaseId id) const { return leases_.count(id) != 0; }

 private:
  struct Lease {
    TimePoint last_line{};                          // the last valid line for it
    int64_t prompt_read = -1;
    bool waited = false;                            // its one SWAIT is used
    Duration allowance{};                           // of that SWAIT
    std::optional<TimePoint> cancelled_at;
  };
  struct Sample {
    TimePoint at{};
    event::Usage usage;
  };
  std::map<LeaseId, Lease> leases_;
  std::optional<Duration> beat_;
  bool gpu_ = false;
  TimePoint last_output_{}, last_beat_{}, last_step_{};
  uint64_t step_ = 0;
  bool step_seen_ = false;
  std::deque<Sample> samples_;                      // of the last stall window
  std::optional<TimePoint> paused_since_;
};

class Child {
 public:
  explicit Child(ChildLimits limits) : limits_(std::move(limits)) {}

  std::vector<Effect> step(const Event& event, TimePoint now);
  std::optional<TimePoint> deadline() const;        // when event::Due is wanted

  ChildState state() const { return state_; }
  TimePoint state_since() const { return state_since_; }
  Generation generation() const { return generation_; }
  int64_t pid() const { return pid_; }
  double load() const { return load_; }             // 0 to 1, of the last INFO load=
  const std::string& reason() const { return reason_; }  // of the last failure; empty after READY
  const std::optional<protocol::Ready>& ready() const { return ready_; }
  int failures() const { return failures_; }        // in a row
  Duration retry_in(TimePoint now) const;           // in backoff
  const ChildLimits& limits() const { return limits_; }

 private:
  using Effects = std::vector<Effect>;
  void on_start(const event::Start& start, TimePoint now, Effects& out);
  void on_stop(const event::Stop& stop, TimePoint now, Effects& out);
  void on_line(const event::Line& line, TimePoint now, Effects& out);
  void on_exited(const std::string& how, TimePoint now, Effects& out);
  void on_tree_empty(TimePoint now, Effects& out);
  void on_due(TimePoint now, Effects& out);
  void enter(ChildState state, TimePoint now, Effects& out);
  void spawn(TimePoint now, Effects& out);
  // The run or the load is over for a reason; leads to stopping (or straight on when nothing was ever started).
  void fail(Trouble why, const std::string& text, std::vector<LeaseId> culprits, TimePoint now, Effects& out);
  void settle(TimePoint now, Effects& out);         // the tree is gone: unloaded, failed or backoff; then perhaps a new start
  Duration backoff_delay() const;

  ChildLimits limits_;
  ChildState state_ = ChildState::unloaded;
  TimePoint state_since_{};
  Generation generation_ = 0;
  int64_t pid_ = 0;
  double load_ = 0;
  std::string reason_;
  std::optional<protocol::Ready> ready_;
  int failures_ = 0;
  LivenessWatch watch_;

  // starting
  TimePoint started_at_{}, progress_at_{};
  bool spawned_ = false, start_by_hand_ = false;
  // stopping
  bool asked_ = false, killed_ = false, closing_ = false, start_wanted_ = false, exited_ = false;
  TimePoint stop_deadline_{};
  // backoff
  TimePoint retry_at_{};
};

}  // namespace vigil::supervise
