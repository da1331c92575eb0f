// The judge of a world: it is told what the daemon was asked, what it saw and what it did, keeps books of its own by the contract's words
// alone, and says where the daemon differs. It never looks inside the rooms under test; oracle.cpp judges requests, oracle_engine.cpp the
// engine's life. Not here: what happens (world.cpp).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/supervise/child.hpp"
#include "server/turn/desk.hpp"
#include "tests/sim/engine.hpp"
#include "tests/sim/judge.hpp"

namespace vigil::sim {

// One request as its client and the world know it.
struct Call {
  size_t index = 0;
  std::string id, client;
  turn::RequestKey key = 0;
  TimePoint came{};
  int64_t max_new = 0, prompt = 0;
  uint64_t fingerprint = 0;
  std::optional<int64_t> stops_after, throws_after;    // tokens until its stop string shows; until its sink fails
  turn::Verdict verdict = turn::Verdict::stop;         // what it then says
  int endings = 0;
  int64_t tokens = 0, cached = 0, last_number = 0;
  bool logprobs = false, encoding = false;             // encoding: its pictures are being encoded
  uint64_t vocabulary = 1;
  std::vector<std::string> pictures;                   // their bytes, in order
  std::string embeddings;                              // the file of its GENI
  bool started = false, left = false, cancelled_by_api = false, blocked = false, end_token_came = false, verdict_given = false, threw = false;
  int64_t allowed = 0;                                 // tokens, as its GEN said
  std::string done;                                    // finish of its DONE
  struct Queued {
    Mark since;
    Duration least{}, most{};                          // queue.wait_s since then; a reload may or may not touch who waits already
  };
  std::optional<Queued> queued;                        // phase queued
  std::optional<turn::Ending> ending;
  bool open() const { return endings == 0; }
  bool waiting() const { return endings == 0 && !started && !encoding; }
};

class Oracle final : public Judge {
 public:
  Oracle(Scheduler& clock, std::function<void(const std::string&)> violation) : clock_(clock), violation_(std::move(violation)) {}

  // What is wrong with the file of a request's embeddings now; empty when nothing is.
  std::function<std::string(const Call& call)> embeddings_wrong;

  // ---- what the world does
  void limits(const supervise::ChildLimits& child, const turn::DeskLimits& desk, bool eager);
  void load_ordered(bool by_hand);
  enum class Unload : uint8_t { now, when_idle };
  void unload_ordered(Unload when);
  void cancelled_early(const std::string& id);
  void closed(Duration drain) {                          // the daemon stops, and may serve for so long what runs
    closed_ = mark();
    drain_ = drain;
  }
  void forgive(Duration stood_still);                   // the daemon stood still for so long, until now

  // ---- clients
  Call& submit(std::unique_ptr<Call> call, size_t queued);  // before Desk::submit
  void submitted(Call& call);                           // after it
  void encoded(Call& call, int64_t prompt);             // before Desk::encoded
  turn::Verdict token(Call& call, const protocol::Token& token);
  void started(Call& call);
  void ended(Call& call, const turn::Ending& ending);
  std::vector<std::unique_ptr<Call>>& calls() { return calls_; }
  size_t waiting() const;

  // ---- the process
  void spawn(uint64_t generation, const Engine& engine);
  void command(const protocol::EngineCommand& command); // written to its stdin
  void settings(uint64_t number) override { vocabulary_ = number; }
  void executed() override { executed_ = true; }
  void not_executed() override {}
  void output_closed() override;
  void line(std::string_view text, bool overlong) override;
  void error_output() override;
  void exit_told() override { exit_told_ = true; }
  void paused(bool paused) override;
  void state(supervise::ChildState state, const supervise::Child& child) override;
  void killed(supervise::Trouble why, const std::string& reason) override;
  void forgive_from_now(Duration delay) override;

  // After every step in which the daemon is not in the middle of something.
  void check(const turn::Snapshot& view, const supervise::Child& child, bool bounded_engine, bool bounded_desk);
  void check_end(const turn::Snapshot& view);

 private:
  struct Lease {
    size_t index = 0;
    bool tagged = false, waited = false, stop_written = false, must_stop = false;
    int64_t tokens = 0, prompt_read = -1;
    Duration allowance{};
    Mark last_line;
    std::optional<Mark> cancelled, error;
    int accounts_without = 0, overdue = 0;              // of the engine, in a row; and how many of them should have ended it
    bool perhaps_gone() const { return error || overdue > 0 || doubtful; }
    bool doubtful = false;                              // forgotten by the clock, perhaps not yet by a daemon that was late
    Mark last_sign;
  };
  Mark mark() const;
  Duration lived(const Mark& since) const;              // without the time in which the daemon stood still
  Duration judged(const Mark& since) const;             // ... or did not read
  Duration by_the_clock(const Mark& since) const;       // without pauses only: what a daemon may at most have counted
  Duration paused_total() const;
  Duration still_total() const;
  bool settled() const;                                 // what is due was due before this instant
  bool limits_just_moved() const;
  void fail(const std::string& what) { violation_(what); }
  std::string name(const Call& call) const { return "request " + std::to_string(call.index); }

  void check_status(const turn::Snapshot& view);
  void check_waiting(const turn::Snapshot& view, const supervise::Child& child);
  void check_limits(const supervise::Child& child);
  void check_liveness();
  void check_leases(const turn::Snapshot& view);
  void check_failures(const supervise::Child& child);
  void justify(const Call& call, const turn::Failed& failed) const;
  void justify(const Call& call, const turn::Finished& finished) const;
  void justify(const Call& call, const turn::Cancelled& cancelled) const;
  void enqueue(Call& call);
  void take_turn(Call& call);
  void forget_place(const Call& call);
  void check_embeddings(const Call& call);
  void cancel_due(size_t index);
  enum class Settle : uint8_t { perhaps, certainly };
  void settle_errors(Settle when);
  void written(const protocol::Generate& order);
  void written(const protocol::Stop& order);
  std::map<uint64_t, Lease>::iterator lease_of(const protocol::EngineLine& line);
  void lease_line(std::map<uint64_t, Lease>::iterator lease, const protocol::EngineEvent& event);
  void loaded(const protocol::Ready& ready);
  void account(const protocol::Beat& beat);
  void look_for_forgotten();
  void want();
  bool died() const;                                    // for a reason that counts as a failure
  void over(const supervise::Child& child);             // a load or a run is over
  void judge_stalled(const std::string& reason);
  Duration backoff_least(int failures) const;
  Duration sampling() const;                            // what the daemon's looks at CPU and disk may add
  Duration quiet(const Mark& since, TimePoint busy) const;

  Scheduler& clock_;
  std::function<void(const std::string&)> violation_;
  std::vector<std::unique_ptr<Call>> calls_;
  supervise::ChildLimits child_limits_;
  turn::DeskLimits desk_limits_;
  bool eager_ = false, unloaded_by_order_ = false, wanted_ = false, must_start_ = false, load_after_unload_ = false;
  TimePoint wanted_at_{}, by_hand_at_{};
  std::optional<Mark> closed_;
  Duration drain_{};
  TimePoint disturbed_{};                               // deadlines that moved now are due now: judged from the next instant on
  Duration still_{};
  std::optional<TimePoint> late_from_;
  Duration late_for_{};

  // requests
  struct Place {
    std::vector<size_t> calls;                          // waiting, in order of arrival
    std::map<std::string, int> passed;                  // turns of others since its first one became first
    size_t first = ~size_t{0};
  };
  std::map<std::string, Place> queue_;                  // by client
  size_t queued_at_submit_ = 0;
  std::optional<size_t> submitting_;
  std::map<uint64_t, std::vector<TimePoint>> crashes_, suspicions_;  // by fingerprint: certain ones; possible ones
  uint64_t served_ = 0, failed_ = 0, cancelled_ = 0, rejected_ = 0;

  // the engine
  supervise::ChildState state_ = supervise::ChildState::unloaded;
  const Engine* engine_ = nullptr;
  std::optional<protocol::Ready> ready_;
  bool executed_ = false, unloading_ = false, exit_told_ = false, accused_ = false;
  bool unload_pending_ = false;                         // ordered, and requests still run
  uint64_t vocabulary_ = 1;                             // of the engine that runs, or will run next
  struct EarlyCancel {
    TimePoint at{};
    Duration least{}, most{};                           // how long it is remembered; reloads in between leave that open
  };
  std::map<std::string, EarlyCancel> early_cancels_;
  Mark idle_from_, idle_since_;                         // no earlier, and no later
  Mark state_since_, progress_, unload_since_, last_output_, last_beat_, last_step_, looked_since_, limits_since_;
  std::optional<Mark> output_closed_;
  std::optional<uint64_t> step_;
  double load_ = 0;
  std::map<uint64_t, Lease> leases_;                    // by tag, or by our own count
  uint64_t next_lease_ = 1ull << 40;
  int failures_ = 0;
  bool may_reset_ = false, must_reset_ = false;
  Duration backoff_least_{}, backoff_most_{};
  std::optional<Mark> paused_since_;
  Duration paused_{}, pause_most_{};
  Duration beats() const { return 3 * std::chrono::milliseconds(*ready_->beat_ms); }
};

}  // namespace vigil::sim
