// The vision child's driver in the simulation: the real VisionConductor on a simulated host and disk, with scripted children and the oracle
// that judges them; between it and the desk, so that the oracle hears what is asked for.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "server/process/vision_conductor.hpp"
#include "tests/sim/disk.hpp"
#include "tests/sim/host.hpp"
#include "tests/sim/vision_child.hpp"
#include "tests/sim/vision_oracle.hpp"

namespace vigil::sim {

class VisionDriver final : public turn::EncoderPort, private Role {
 public:
  struct World {
    Host::World host;
    std::function<VisionScript()> script;               // of the next process
    std::function<std::optional<size_t>()> asking;      // whose pictures the desk hands over now
    std::function<bool()> calm;                         // nothing goes wrong any more
    VisionOracle::Told encoded;
    bool joins = true;                                  // false: no picture ever reaches the engine
  };
  VisionDriver(Scheduler& clock, Random& dice, FaultPlan& plan, World world, const process::VisionLimits& limits);

  VisionOracle& oracle() { return oracle_; }
  const Disk& disk() const { return disk_; }
  Process* process() { return host_.process(); }        // the current one; null when there is none
  void attach(turn::Desk& desk) {
    desk_ = &desk;
    conductor_.attach(desk);
  }

  // ---- the daemon's orders
  void load();
  void unload(supervise::Trouble why, bool at_once);
  void set_limits(const process::VisionLimits& limits);
  void change_program();                                // another one, from the next start on
  supervise::ChildState state() const { return conductor_.child().state(); }

  // ---- the world
  bool busy() const { return host_.busy(); }
  bool quiet() const { return oracle_.quiet() && disk_.quiet() && waiting_.empty(); }
  bool process_left() const { return host_.process_left(); }
  std::vector<std::function<void()>> thaw();
  void check(const turn::Snapshot& view) { oracle_.check(view, conductor_.child(), seen()); }
  void check_end() const { oracle_.check_end(disk_, seen()); }

  // ---- turn::EncoderPort
  void encode(turn::RequestKey key, const std::vector<turn::Picture>& pictures) override;
  void abandon(turn::RequestKey key) override;

 private:
  std::shared_ptr<Process> make(supervise::Generation generation, Spawn spawn, ProcessHost& host) override;
  bool written(std::string_view line) override;
  void deliver(Process& to) override;
  VisionOracle::Seen seen() const;
  Disk::World around_disk();

  Scheduler& clock_;
  Random& dice_;
  World world_;
  VisionOracle oracle_;
  Disk disk_;
  protocol::VisionCommand command_;                     // the last one
  std::vector<std::function<void()>> waiting_;          // the disk's answers for a daemon that stands still
  Host host_;
  process::VisionConductor conductor_;
  turn::Desk* desk_ = nullptr;
  uint64_t program_ = 1;
};

}  // namespace vigil::sim
