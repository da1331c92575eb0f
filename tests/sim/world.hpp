// One world: the daemon's real desk, conductors and child machines, scripted children, clients that come and go, and a clock that jumps.
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
#include "tests/sim/vision_driver.hpp"

namespace vigil::sim {

struct WorldResult {
  std::optional<std::string> violation;
  uint64_t steps = 0, fault_points = 0;
  Point failed = Point::none;
  uint64_t served = 0, failures = 0, cancelled = 0, rejected = 0, starts = 0;
  uint64_t vision_starts = 0, seen = 0, unseen = 0;     // requests whose pictures reached the desk again; which failed for them
  uint64_t texts = 0;                                   // what every request without pictures was told, and when: a hash
  std::vector<std::string> trace;                       // when asked for
};

class World final {
 public:
  enum class Trace : uint8_t { off, on };
  // Whether there is a vision child. drawn: in some worlds. doomed: in all of them, and no picture ever reaches the engine. none: the
  // world of `doomed` without it. Requests without pictures must be told the same at the same times in these two.
  enum class Pictures : uint8_t { drawn, doomed, none };
  // fail_at: which step of a driver or disk fails; 0 = none.
  World(uint64_t seed, Trace trace, uint64_t fail_at = 0, Pictures pictures = Pictures::drawn);
  ~World();
  WorldResult run();

 private:
  class Sink;
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

  // ---- pictures (world_vision.cpp)
  void make_vision(Pictures pictures);
  void draw_vision_limits();
  void plan_vision();
  std::vector<turn::Picture> pictures(Call& call, int64_t count);
  std::string embeddings_wrong(const Call& call) const; // what is wrong with the file that the engine is told to read
  void end_vision();
  template <typename Action>
  void vision_later(int64_t least_ms, int64_t most_ms, Action action);

  // ---- the daemon
  void draw_limits();
  void reload();
  void load();
  void unload();
  void signal();                                        // SIGTERM; the second one cuts the drain short
  void drained();
  void arm_desk_timer();
  void desk_timer(TimePoint wanted);
  void post(std::function<void()> what);                // now, or when the daemon turns again
  void post_unordered(std::function<void()> what);
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
  Random vision_dice_;                                  // pictures have dice of their own: the rest of the world does not hear of them
  bool has_pictures_ = false;
  std::unique_ptr<VisionDriver> vision_;
  process::VisionLimits vision_limits_;
  std::optional<size_t> submitting_;                    // the call that the desk is being given
  std::vector<std::function<void()>> unordered_;        // what waits for a daemon that stands still, in no order
  int load_waits_ = 0, unload_waits_ = 0;
  int64_t gauge_running_ = 0, gauge_queued_ = 0;
  WorldResult result_;
};

template <typename Action>
void World::later(int64_t least_ms, int64_t most_ms, Action action) {
  clock_.in(std::chrono::milliseconds(dice_.between(least_ms, most_ms)), [this, action] { post(action); });
}

template <typename Action>
void World::vision_later(int64_t least_ms, int64_t most_ms, Action action) {
  clock_.in(std::chrono::milliseconds(vision_dice_.between(least_ms, most_ms)), [this, action] { post_unordered(action); });
}

}  // namespace vigil::sim
