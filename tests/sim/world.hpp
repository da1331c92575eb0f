// One world: the daemon's real desk, conductor and child machine, a scripted engine, clients that come and go, and a clock that jumps.
// Everything follows from the seed. The oracle judges every step; in the end faults stop and everything must drain.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/engine_driver.hpp"
#include "tests/sim/fault.hpp"
#include "tests/sim/oracle.hpp"

namespace vigil::sim {

struct WorldResult {
  std::optional<std::string> violation;
  uint64_t steps = 0, fault_points = 0;
  Point failed = Point::none;
  uint64_t served = 0, failures = 0, cancelled = 0, rejected = 0, starts = 0;
  std::vector<std::string> trace;                       // when asked for
};

class World final {
 public:
  enum class Trace : uint8_t { off, on };
  // fail_at: which step of the driver fails; 0 = none.
  World(uint64_t seed, Trace trace, uint64_t fail_at = 0);
  ~World();
  WorldResult run();

 private:
  class Sink;
  class Encoder;
  enum class Freeze : uint8_t { daemon, machine };

  // ---- clients and their orders (world_clients.cpp)
  void plan();
  void plan_clients();
  void plan_orders();
  void arrive(int clients, bool hasty);
  void leave(size_t index);
  void end_input(size_t index);
  void block(size_t index, int more);
  void cancel_by_id();
  void cancel(size_t index);

  void change_model();

  // ---- the daemon
  void draw_limits();
  void reload();
  void load();
  void unload();
  void make_encoder();
  void signal();                                        // SIGTERM; the second one cuts the drain short
  void drained();
  void arm_desk_timer();
  void desk_timer(TimePoint wanted);
  void post(std::function<void()> what);                // now, or when the daemon turns again
  template <typename Action>
  void later(int64_t least_ms, int64_t most_ms, Action action);

  void freeze(Freeze kind);
  void thaw(Freeze kind, Duration length);
  Script script();
  void check();
  void check_end();
  void fail(const std::string& what);
  void note(const std::string& what);

  uint64_t seed_;
  Trace trace_;
  Random dice_;
  FaultPlan plan_;
  Scheduler clock_;
  Oracle oracle_;
  supervise::ChildLimits limits_;
  turn::DeskLimits desk_limits_;
  std::unique_ptr<EngineDriver> driver_;
  std::unique_ptr<turn::Desk> desk_;
  std::deque<std::function<void()>> posted_;            // what waits for a daemon that stands still
  std::optional<TimePoint> frozen_until_, desk_armed_;
  uint64_t desk_epoch_ = 0;
  size_t catching_up_ = 0;
  bool desk_timer_waits_ = false, desk_posted_ = false, faults_over_ = false;
  bool stopping_ = false, draining_ = false, stop_children_ = false;
  Duration drain_{};
  std::unique_ptr<turn::EncoderPort> encoder_;
  int load_waits_ = 0, unload_waits_ = 0;
  int64_t gauge_running_ = 0, gauge_queued_ = 0;
  WorldResult result_;
};

template <typename Action>
void World::later(int64_t least_ms, int64_t most_ms, Action action) {
  clock_.in(std::chrono::milliseconds(dice_.between(least_ms, most_ms)), [this, action] { post(action); });
}

}  // namespace vigil::sim
