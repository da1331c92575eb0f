// A scripted engine in the virtual world: a process that reads commands, answers them well or badly and burns CPU. Knows the protocol from
// the outside only.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>

#include "protocol/lines.hpp"
#include "tests/sim/process.hpp"

namespace vigil::sim {

constexpr protocol::TokenId end_token = 2;
// Prompts and tokens name their request, so that a token that goes astray is seen: the first id of a prompt is first_prompt_id + index,
// the nth token of an answer is token_of(index, n).
constexpr protocol::TokenId first_prompt_id = 10;
constexpr int64_t tokens_a_request = 1000;
inline protocol::TokenId token_of(size_t index, int64_t n) {
  return static_cast<protocol::TokenId>(1000 + static_cast<int64_t>(index) * tokens_a_request + n);
}

class Engine final : public Process {
 public:
  Engine(Scheduler& clock, Random dice, Script script, ProcessHost& host);
  void receive(const protocol::EngineCommand& command);
  supervise::TreeUsage usage() override;

  // The truth, for judging judgements.
  const Script& script() const { return script_; }
  bool working() const { return !open_.empty(); }
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
  void ready() override;
  void print(const std::string& text, std::optional<uint64_t> request = std::nullopt);
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
  void account() override;
  void woke() override;
  double cpu_rate() const;

  Script script_;
  bool spinning_ = false, frozen_ = false, beating_ = false, beats_lost_ = false;

  TimePoint accounted_at_{}, last_busy_{}, last_io_{};
  supervise::TreeUsage totals_;
  std::deque<std::pair<TimePoint, Duration>> cpu_history_;  // totals at every change of the rate
  int computing_jobs_ = 0, io_jobs_ = 0;

  size_t requests_ = 0;
  uint64_t steps_ = 0, next_key_ = 1;
  std::map<uint64_t, Work> open_;                     // by req= when tagged, else by our own count
};

}  // namespace vigil::sim
