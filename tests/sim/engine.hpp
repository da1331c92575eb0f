// A scripted engine process in the virtual world: reads the lines that the conductor writes, prints lines into a pipe that the daemon may
// read late, reacts to signals, dies. Knows the protocol from the outside only.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "protocol/lines.hpp"
#include "server/supervise/liveness.hpp"
#include "tests/sim/scheduler.hpp"
#include "tests/sim/script.hpp"

namespace vigil::sim {

// What the process does to the daemon; each call is a thing that a driver would notice.
struct EngineEvents {
  std::function<void(std::string line)> line;
  std::function<void()> output_closed;
  std::function<void(std::string how)> exited;
  std::function<void(int64_t pid)> spawned;
  std::function<void(std::string why)> spawn_failed;
  std::function<void()> tree_changed;                 // perhaps empty now
  std::function<void(const std::string& what)> violation;
};

class Engine : public std::enable_shared_from_this<Engine> {
 public:
  Engine(Scheduler& clock, Random& dice, Script script, uint64_t generation, int32_t end_token, EngineEvents events);
  void begin();
  void receive(const std::string& line);              // one line on stdin
  void terminate();
  void kill();
  bool tree_empty() const { return !leader_ && !grandchild_; }
  supervise::TreeUsage usage();
  // For judging whether a kill was just.
  TimePoint last_output() const { return last_output_; }
  bool working() const { return !open_.empty(); }
  bool spinning() const { return spinning_; }
  bool has_ids() const { return script_.ids; }
  bool beats() const { return script_.beat_ms > 0; }
  bool healthy() const { return healthy_; }
  int64_t overran() const { return overran_; }        // tokens printed past max_new without a STOP, by an engine that knows STOP

 private:
  struct Work {
    protocol::Generate generate;
    Answer answer = Answer::normal;
    int64_t produced = 0;
    int stops = 0;
    bool done = false;
  };
  void ready();
  void print(std::string text, std::optional<uint64_t> request = std::nullopt);
  void work(uint64_t key);
  void step(uint64_t key);
  bool fault(uint64_t key, Work& job);                // true when the job went another way
  void finish(uint64_t key, const std::string& how);
  void stop(std::optional<uint64_t> request);
  void beat();
  void die(const std::string& how);
  template <typename Function>
  void later(Duration delay, Function&& function);

  Scheduler& clock_;
  Random& dice_;
  Script script_;
  uint64_t generation_;
  int32_t end_token_;
  EngineEvents events_;
  bool leader_ = false, grandchild_ = false, printing_ = true, spinning_ = false, healthy_ = true, frozen_ = false, beating_ = false;
  bool unkillable_ = false, terminated_ = false;
  TimePoint last_output_{}, usage_asked_{};
  Duration cpu_{};
  size_t requests_ = 0;
  int64_t overran_ = 0;
  uint64_t steps_ = 0, next_key_ = 1;
  std::map<uint64_t, Work> open_;                     // by req= when tagged, else by our own count
};

}  // namespace vigil::sim
