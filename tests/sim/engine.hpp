// A scripted engine process in the virtual world: reads commands, prints bytes into its pipes, burns CPU, reacts to signals, dies. Knows
// the protocol from the outside only. Not here: when the daemon reads what was printed (driver.cpp).
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/lines.hpp"
#include "server/supervise/liveness.hpp"
#include "tests/sim/scheduler.hpp"
#include "tests/sim/script.hpp"

namespace vigil::sim {

// What a process does to the machine it runs on. None of these may reach the daemon before the call returns to the engine, but for output.
class EngineHost {
 public:
  virtual ~EngineHost() = default;
  virtual void on_executed() = 0;
  virtual void on_not_executed(const std::string& why) = 0;
  virtual void on_output(std::string_view bytes) = 0;
  virtual void on_error_output(std::string_view bytes) = 0;
  virtual void on_output_closed() = 0;
  virtual void on_exit(const std::string& how) = 0;   // the leader is dead
  virtual void on_tree_changed() = 0;                 // perhaps empty now
  virtual void on_violation(const std::string& what) = 0;
};

constexpr protocol::TokenId end_token = 2;
// Prompts and tokens name their request, so that a token that goes astray is seen: the first id of a prompt is first_prompt_id + index,
// the nth token of an answer is token_of(index, n).
constexpr protocol::TokenId first_prompt_id = 10;
constexpr int64_t tokens_a_request = 1000;
inline protocol::TokenId token_of(size_t index, int64_t n) {
  return static_cast<protocol::TokenId>(1000 + static_cast<int64_t>(index) * tokens_a_request + n);
}

class Engine : public std::enable_shared_from_this<Engine> {
 public:
  Engine(Scheduler& clock, Random dice, Script script, uint64_t generation, EngineHost& host);
  void begin();
  void receive(const protocol::EngineCommand& command);
  void terminate();
  void kill();
  void crash(const std::string& how) { die(how); }    // from outside: the OOM killer
  void machine_stops();                               // all of it, this process too; `until` is known to the world alone
  void machine_goes_on(Duration stood_still);
  bool tree_empty() const { return !leader_ && !grandchild_; }
  bool leader_lives() const { return leader_; }
  supervise::TreeUsage usage();

  // The truth, for judging judgements.
  const Script& script() const { return script_; }
  bool working() const { return !open_.empty(); }
  bool healthy() const { return healthy_; }           // so far it did nothing that a limit may end
  void not_to_blame() { healthy_ = false; }           // the world's own failure made it useless
  TimePoint last_busy() const { return cpu_rate() >= 0.01 ? clock_.now() : last_busy_; }
  TimePoint last_io() const { return io_jobs_ > 0 ? clock_.now() : last_io_; }
  double cpu_share(Duration window) const;            // of one core, over the last `window`

 private:
  struct Work {
    protocol::Generate generate;
    Answer answer = Answer::normal;
    size_t index = 0;                                 // of the request, by its prompt
    int64_t produced = 0;
    int stops = 0;
    bool computes = false, reads_disk = false, done = false, forgotten = false;
  };
  // ---- the process
  void ready();
  void load_fails();
  void print(const std::string& text, std::optional<uint64_t> request = std::nullopt);
  void print_bytes(std::string bytes);
  void chatter(Duration every);
  void die(const std::string& how);
  template <typename Function>
  void later(Duration delay, Function&& function);
  template <typename Function>
  void fire(Function& function);
  // ---- requests
  void generate(const protocol::Generate& order);
  void work(uint64_t key);
  void quiet(uint64_t key, Duration length, bool steps);
  void prefill(uint64_t key);
  void step(uint64_t key);
  bool fault(uint64_t key, Work& job);                // true when the job went another way
  void babble(uint64_t key, int64_t tokens);
  void garbage(uint64_t key);
  void repeat(uint64_t key, Duration every, const std::string& text, bool tagged);
  void finish(uint64_t key, const std::string& how);
  void give_up(uint64_t key);                         // the job is over without a DONE
  void stop(std::optional<uint64_t> request);
  void beat();
  // ---- work and its traces
  void set_work(Work& job, bool computes, bool reads_disk);
  void account();
  double cpu_rate() const;

  Scheduler& clock_;
  Random dice_;
  Script script_;
  uint64_t generation_;
  EngineHost& host_;
  bool leader_ = false, grandchild_ = false, printing_ = true, spinning_ = false, healthy_ = true, frozen_ = false, beating_ = false;
  bool terminated_ = false, kill_pending_ = false, steps_stand_ = false, beats_lost_ = false;
  TimePoint unkillable_until_{};
  bool machine_stopped_ = false;
  std::deque<std::pair<TimePoint, std::function<void()>>> woken_late_;  // what came due while the machine stood still
  TimePoint machine_stopped_at_{};
  std::string unprinted_;                             // the second half of a line in pieces
  uint64_t pieces_ = 0;

  TimePoint accounted_at_{}, last_busy_{}, last_io_{};
  supervise::TreeUsage totals_;
  std::deque<std::pair<TimePoint, Duration>> cpu_history_;  // totals at every change of the rate
  int computing_jobs_ = 0, io_jobs_ = 0;

  size_t requests_ = 0;
  uint64_t steps_ = 0, next_key_ = 1;
  std::map<uint64_t, Work> open_;                     // by req= when tagged, else by our own count
};

template <typename Function>
void Engine::later(Duration delay, Function&& function) {
  clock_.in(delay, [self = weak_from_this(), function = std::forward<Function>(function)]() mutable {
    if (const auto engine = self.lock(); engine && engine->leader_) engine->fire(function);
  });
}

template <typename Function>
void Engine::fire(Function& function) {
  if (machine_stopped_) woken_late_.emplace_back(clock_.now(), function);
  else function();
}

}  // namespace vigil::sim
