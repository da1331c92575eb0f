// One world: the daemon's real desk, conductor and child machine, a scripted engine, clients that come and go, and a clock that jumps.
// Everything follows from the seed. After every step the invariants are checked; at the end faults stop and everything must drain.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/process/conductor.hpp"
#include "tests/sim/engine.hpp"
#include "tests/sim/random.hpp"
#include "tests/sim/scheduler.hpp"

namespace vigil::sim {

struct WorldResult {
  std::optional<std::string> violation;
  uint64_t steps = 0;
  uint64_t served = 0, failed = 0, cancelled = 0, rejected = 0;
  std::vector<std::string> trace;                       // when asked for
};

class World final : public process::Hands {
 public:
  enum class Trace : uint8_t { off, on };
  World(uint64_t seed, Trace trace);
  ~World() override;
  WorldResult run();

 private:
  class Sink;
  struct Client {
    turn::RequestKey key = 0;
    TimePoint came{};
    int endings = 0;
    int64_t tokens = 0;
    std::optional<int64_t> stops_after;                 // its stop string shows then
    bool left = false;
    std::optional<turn::Ending> ending;
  };

  // process::Hands
  TimePoint now() const override { return clock_.now(); }
  void spawn(supervise::Generation generation) override;
  uint64_t vocabulary() const override { return 0; }
  void terminate() override;
  void kill() override;
  void write(std::string line) override;
  void pause_reading(bool paused) override;
  supervise::TreeUsage usage() override;
  void run_soon() override;
  std::string last_words() const override { return {}; }
  void log(const std::string& line) override { note("log: " + line); }
  void state_changed() override;
  void started() override {}
  void loaded(double) override {}
  void killed(supervise::Trouble why) override;

  void plan_clients();
  void arrive();
  void client_leaves(size_t index);
  void client_blocks(size_t index);
  bool running(const std::string& id) const;
  bool erring() const;
  void freeze();                                        // the daemon stands still for a while (SIGSTOP, swap)
  void shut_down();
  void daemon_event(uint64_t generation, std::function<void()> what);  // now, or when the daemon turns again
  void deliver_held();
  void drain_pipe();
  void arm_timer();
  void on_timer();
  void check();
  void check_end();
  void fail(const std::string& what);
  void note(const std::string& what);

  uint64_t seed_;
  Trace trace_;
  Random dice_;
  Scheduler clock_;
  supervise::ChildLimits limits_;
  turn::DeskLimits desk_limits_;
  std::unique_ptr<process::Conductor> conductor_;
  std::unique_ptr<turn::Desk> desk_;
  std::shared_ptr<Engine> engine_;
  supervise::Generation generation_ = 0;
  std::vector<std::shared_ptr<Engine>> graveyard_;      // earlier processes: their late events must still find them
  std::deque<std::pair<uint64_t, std::function<void()>>> held_;  // what a frozen or paused daemon has not read yet
  std::vector<std::unique_ptr<Client>> clients_;
  std::set<uint64_t> finished_tags_;
  std::optional<TimePoint> timer_;
  uint64_t timer_epoch_ = 0, stops_written_ = 0;
  std::optional<TimePoint> last_error_;
  std::optional<TimePoint> frozen_until_;
  bool reading_paused_ = false, faults_over_ = false, soon_ = false, closed_ = false;
  int64_t gauge_running_ = 0, gauge_queued_ = 0;
  TimePoint last_thaw_{};
  WorldResult result_;
};

}  // namespace vigil::sim
