// The engine's driver in the simulation: the real Conductor on a simulated host, with scripted engines and the oracle that judges them.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "server/process/conductor.hpp"
#include "tests/sim/engine.hpp"
#include "tests/sim/host.hpp"
#include "tests/sim/oracle.hpp"

namespace vigil::sim {

class EngineDriver final : private Role {
 public:
  // `script`: of the next process.
  EngineDriver(Scheduler& clock, Random& dice, FaultPlan& plan, Oracle& oracle, Host::World world, std::function<Script()> script, supervise::ChildLimits limits)
      : clock_(clock), dice_(dice), oracle_(oracle), script_(std::move(script)),
        host_(clock, dice, plan, oracle, *this, std::move(world), conductor_), conductor_(std::move(limits), host_) {}

  process::Conductor& conductor() { return conductor_; }
  const process::Conductor& conductor() const { return conductor_; }
  Process* engine() { return host_.process(); }         // the current one; null when there is none
  template <typename Happening>
  void report(Happening&& happening) {
    host_.order(std::forward<Happening>(happening));
  }
  void set_vocabulary(uint64_t vocabulary);             // of the model that the next start will run
  uint64_t vocabulary() const { return host_.vocabulary(); }
  bool busy() const { return host_.busy(); }
  bool bounded() const { return conductor_.deadline().has_value(); }
  std::vector<std::function<void()>> thaw() { return host_.thaw(); }
  bool process_left() const { return host_.process_left(); }

 private:
  std::shared_ptr<Process> make(supervise::Generation generation, Spawn spawn, ProcessHost& host) override;
  bool written(std::string_view line) override;
  void deliver(Process& to) override;

  Scheduler& clock_;
  Random& dice_;
  Oracle& oracle_;
  std::function<Script()> script_;
  protocol::EngineCommand command_;                     // the last one
  Host host_;
  process::Conductor conductor_;
};

}  // namespace vigil::sim
