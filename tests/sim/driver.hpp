// The driver's place in the simulation: the Conductor's hands on virtual processes, pipes and timers, with everything that can be late,
// lost or in another order. What EngineDriver and ChildProcess promise to the Conductor holds here too, and no more.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/line_splitter.hpp"
#include "server/process/conductor.hpp"
#include "server/process/lateness.hpp"
#include "tests/sim/engine.hpp"
#include "tests/sim/fault.hpp"
#include "tests/sim/oracle.hpp"
#include "tests/sim/random.hpp"
#include "tests/sim/scheduler.hpp"

namespace vigil::sim {

class Driver final : public process::Hands {
 public:
  // What the driver needs from the world around it.
  struct World {
    std::function<Script()> script;                     // of the next process
    std::function<void(const std::string&)> note, violation;
    std::function<bool()> frozen;                       // the daemon stands still
    bool traced = false;
  };
  Driver(Scheduler& clock, Random& dice, FaultPlan& plan, Oracle& oracle, World world, supervise::ChildLimits limits);
  ~Driver() override;

  process::Conductor& conductor() { return conductor_; }
  const process::Conductor& conductor() const { return conductor_; }
  Engine* engine();                                     // of the current process; null when there is none
  // Every report to the conductor goes through here, because each may move its deadline.
  template <typename Happening>
  void report(Happening&& happening) {
    notice_lateness();
    happening();
    rearm();
  }
  void set_vocabulary(uint64_t vocabulary);             // of the model that the next start will run
  uint64_t vocabulary() const override { return vocabulary_; }
  bool busy() const { return soon_; }                   // posted work waits: nothing can be judged before it ran
  bool bounded() const { return conductor_.deadline().has_value(); }
  std::vector<std::function<void()>> thaw();            // what came to pass while the daemon stood still, to be run in any order
  bool process_left() const;

 private:
  struct Child;

  // process::Hands
  TimePoint now() const override { return clock_.now(); }
  void spawn(supervise::Generation generation) override;
  void terminate() override;
  void kill() override;
  void write(std::string line) override;
  void pause_reading(bool paused) override;
  supervise::TreeUsage usage() override;
  void run_soon() override;
  std::string last_words() const override { return words_; }
  void log(const std::string& line) override { note("log: " + line); }
  void state_changed() override;
  void started() override {}
  void loaded(double) override {}
  void killed(supervise::Trouble why) override { oracle_.killed(why, conductor_.child().reason()); }

  void take_next_vocabulary();
  void rearm();
  void notice_lateness();
  void disarm();
  void timer();
  void ring();
  void empty_soon();
  void tree_empty();
  void run_pending();
  void lines(std::string_view bytes);
  void note(const std::string& what) {
    if (world_.traced) world_.note(what);
  }

  Scheduler& clock_;
  Random& dice_;
  FaultPlan& plan_;
  Oracle& oracle_;
  World world_;
  process::Conductor conductor_;
  std::shared_ptr<Child> child_;
  std::vector<std::shared_ptr<Engine>> graveyard_;      // whom the oracle may still ask
  protocol::LineSplitter splitter_;
  std::string words_;
  std::optional<TimePoint> wanted_, armed_;
  process::Lateness lateness_;
  uint64_t vocabulary_ = 1;
  std::optional<uint64_t> next_vocabulary_;
  uint64_t timer_epoch_ = 0;
  bool timer_waits_ = false, soon_ = false, soon_waits_ = false, empty_posted_ = false;
  supervise::TreeUsage last_usage_;
};

}  // namespace vigil::sim
