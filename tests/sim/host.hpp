// The place of ChildHost and ChildProcess in the simulation: a mind's hands on virtual processes, pipes and timers, with everything that can be
// late, lost or in another order. What those promise to the mind holds here too, and no more. The same for every kind of child.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/line_splitter.hpp"
#include "server/process/hands.hpp"
#include "server/process/lateness.hpp"
#include "tests/sim/fault.hpp"
#include "tests/sim/judge.hpp"
#include "tests/sim/process.hpp"

namespace vigil::sim {

// What differs from one kind of child to the other.
class Role {
 public:
  virtual ~Role() = default;
  enum class Spawn : uint8_t { works, fails };
  virtual std::shared_ptr<Process> make(supervise::Generation generation, Spawn spawn, ProcessHost& host) = 0;  // not begun yet
  virtual bool written(std::string_view line) = 0;      // without its end, to be judged; false when it is no command
  virtual void deliver(Process& to) = 0;                // the line that was written last
};

class Host final : public process::Hands {
 public:
  // What it needs from the world around it.
  struct World {
    std::function<void(const std::string&)> note, violation;
    std::function<bool()> frozen;                       // the daemon stands still
    bool traced = false;
    std::string name;                                   // before its states in a trace
    std::string prefix;                                 // before everything else
  };
  Host(Scheduler& clock, Random& dice, FaultPlan& plan, Judge& judge, Role& role, World world, process::Mind& mind);
  ~Host() override;

  Process* process();                                   // the current one; null when there is none
  // Every order and report to the mind goes through here, because each may move its deadline.
  template <typename Happening>
  void order(Happening&& happening) {
    notice_lateness();
    happening();
    rearm();
  }
  // Like DriverOptions: a number that stands for all of them, and holds from the next process on.
  void set_settings(uint64_t number);
  uint64_t settings() const { return settings_; }
  uint64_t vocabulary() const override { return settings_; }
  bool busy() const { return soon_; }                   // posted work waits: nothing can be judged before it ran
  bool armed() const { return armed_.has_value(); }
  std::vector<std::function<void()>> thaw();            // what came to pass while the daemon stood still, to be run in any order
  bool process_left() const;
  void note(const std::string& what) const {
    if (world_.traced) world_.note(world_.prefix + what);
  }

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
  void killed(supervise::Trouble why) override { judge_.killed(why, mind_.child().reason()); }

  void take_next_settings();
  void rearm();
  void notice_lateness();
  void disarm();
  void timer();
  void ring();
  void empty_soon();
  void tree_empty();
  void run_pending();
  void lines(std::string_view bytes);

  Scheduler& clock_;
  Random& dice_;
  FaultPlan& plan_;
  Judge& judge_;
  Role& role_;
  World world_;
  process::Mind& mind_;
  std::shared_ptr<Child> child_;
  std::vector<std::shared_ptr<Process>> graveyard_;     // whom a judge may still ask
  protocol::LineSplitter splitter_;
  std::string words_;
  std::optional<TimePoint> wanted_, armed_;
  process::Lateness lateness_;
  uint64_t settings_ = 1;
  std::optional<uint64_t> next_settings_;
  uint64_t timer_epoch_ = 0;
  bool timer_waits_ = false, soon_ = false, soon_waits_ = false, empty_posted_ = false;
  supervise::TreeUsage last_usage_;
};

}  // namespace vigil::sim
