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
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "protocol/lines.hpp"
#include "protocol/time.hpp"
#include "server/supervise/liveness.hpp"

namespace vigil::supervise {

enum class ChildState : uint8_t { unloaded, starting, ready, stopping, backoff, failed };
std::string_view to_string(ChildState state);

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
struct Usage { TreeUsage totals; };
struct LeaseOpened { LeaseId id = 0; };             // GEN was sent
struct LeaseCancelled { LeaseId id = 0; };          // STOP was sent, or would have been
struct LeaseAnswered {};                            // a request has its answer: the child is proved
struct LeaseClosed { LeaseId id = 0; };
struct Paused { bool paused = false; };             // the daemon does not read the pipe for a slow reader
struct Late { Duration by{}; };                     // the loop itself was late by this much
struct Due {};                                      // the deadline passed; pipes were drained and Usage given just before
struct Limits { ChildLimits limits; };              // reloaded configuration
}  // namespace event
using Event = std::variant<event::Start, event::Stop, event::Spawned, event::SpawnFailed, event::Line, event::BadLine, event::StderrOutput,
                           event::StdoutClosed, event::Exited, event::TreeEmpty, event::Usage, event::LeaseOpened, event::LeaseCancelled,
                           event::LeaseAnswered, event::LeaseClosed, event::Paused, event::Late, event::Due, event::Limits>;

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
struct LeaseForgotten { LeaseId lease = 0; std::string evidence; };  // the child's own account has lost it: release it
struct Killed { Trouble why; };                     // a limit of ours ended it: count for metrics
struct Log { std::string text; };
}  // namespace effect
using Effect = std::variant<effect::Spawn, effect::Terminate, effect::Kill, effect::SampleUsage, effect::StateChanged, effect::LoadFailed,
                            effect::Lost, effect::LeaseForgotten, effect::Killed, effect::Log>;

class Child {
 public:
  explicit Child(ChildLimits limits) : limits_(std::move(limits)) {}

  std::vector<Effect> step(const Event& event, TimePoint now);
  // What step() makes of the Line of a token; it never has an effect.
  void token(LeaseId lease, const protocol::EngineEvent& token, TimePoint now) {
    if (state_ == ChildState::ready) watch_.line(lease, token, limits_, now);
  }
  std::optional<TimePoint> deadline() const;        // when event::Due is wanted

  ChildState state() const { return state_; }
  TimePoint state_since() const { return state_since_; }
  Generation generation() const { return generation_; }
  int64_t pid() const { return pid_; }              // 0 when no process is there
  double load() const { return load_; }             // 0 to 1, of the last INFO load=
  const std::string& reason() const { return reason_; }  // of the last failure; empty after READY
  const std::optional<protocol::Ready>& ready() const { return ready_; }
  int failures() const { return failures_; }        // in a row
  Duration retry_in(TimePoint now) const;           // in backoff, else 0
  const ChildLimits& limits() const { return limits_; }

 private:
  using Effects = std::vector<Effect>;
  void handle(const event::Start& start, TimePoint now, Effects& out);
  void handle(const event::Stop& stop, TimePoint now, Effects& out);
  void handle(const event::Spawned& spawned, TimePoint now, Effects& out);
  void handle(const event::SpawnFailed& failed, TimePoint now, Effects& out);
  void handle(const event::Line& line, TimePoint now, Effects& out);
  void handle(const event::BadLine& line, TimePoint now, Effects& out);
  void handle(const event::StderrOutput& output, TimePoint now, Effects& out);
  void handle(const event::StdoutClosed& closed, TimePoint now, Effects& out);
  void handle(const event::Exited& exited, TimePoint now, Effects& out);
  void handle(const event::TreeEmpty& empty, TimePoint now, Effects& out);
  void handle(const event::Usage& usage, TimePoint now, Effects& out);
  void handle(const event::LeaseOpened& opened, TimePoint now, Effects& out);
  void handle(const event::LeaseCancelled& cancelled, TimePoint now, Effects& out);
  void handle(const event::LeaseAnswered& answered, TimePoint now, Effects& out);
  void handle(const event::LeaseClosed& closed, TimePoint now, Effects& out);
  void handle(const event::Paused& paused, TimePoint now, Effects& out);
  void handle(const event::Late& late, TimePoint now, Effects& out);
  void handle(const event::Due& due, TimePoint now, Effects& out);
  void handle(const event::Limits& limits, TimePoint now, Effects& out);

  void enter(ChildState state, TimePoint now, Effects& out);  // the one setter
  void spawn(TimePoint now, Effects& out);
  // The load or the run is over against our will.
  void fail(LivenessWatch::Verdict verdict, TimePoint now, Effects& out);
  enum class Grace { full, none };
  void begin_stopping(Grace grace, TimePoint now, Effects& out);
  void kill(TimePoint now, Effects& out);
  void settle(TimePoint now, Effects& out);         // nothing of the tree is left
  void due_starting(TimePoint now, Effects& out);
  void due_stopping(TimePoint now, Effects& out);
  bool idle_too_long(TimePoint now) const;
  Duration backoff_delay() const;

  ChildLimits limits_;
  ChildState state_ = ChildState::unloaded;
  TimePoint state_since_{}, last_due_{};
  Generation generation_ = 0;
  int64_t pid_ = 0;
  double load_ = 0;
  std::string reason_;
  std::optional<protocol::Ready> ready_;
  int failures_ = 0;
  LivenessWatch watch_;
  bool exited_ = false;                             // the direct child is dead; others of its tree may live

  TimePoint progress_at_{};                         // starting: the start or the last load progress
  bool spawned_ = false;                            // starting: exec succeeded
  std::optional<TimePoint> output_closed_at_;       // starting, ready: end of stdout; its exit may still tell why
  bool asked_ = false, start_wanted_ = false;       // stopping: we were told to; somebody asked for a start meanwhile
  bool kill_sent_ = false;                          // stopping: the grace is over
  TimePoint stop_deadline_{};                       // stopping: the next escalation
  TimePoint retry_at_{};                            // backoff
  TimePoint idle_since_{};                          // ready: since READY or the last lease
};

}  // namespace vigil::supervise
