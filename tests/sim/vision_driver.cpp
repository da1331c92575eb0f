// See vision_driver.hpp.
#include "tests/sim/vision_driver.hpp"

namespace vigil::sim {

VisionDriver::VisionDriver(Scheduler& clock, Random& dice, FaultPlan& plan, World world, const process::VisionLimits& limits)
    : clock_(clock), dice_(dice), world_(std::move(world)), oracle_(clock, world_.host.violation, world_.encoded),
      disk_(clock, dice, plan, oracle_, around_disk()), host_(clock, dice, plan, oracle_, *this, world_.host, conductor_),
      conductor_(limits, host_, disk_) {
  oracle_.limits(limits);
  disk_.attach(conductor_);
}

Disk::World VisionDriver::around_disk() {
  Disk::World around;
  around.report = [this](std::function<void()> report) {
    if (world_.host.frozen()) waiting_.push_back(std::move(report));
    else host_.order(report);
  };
  around.note = [this](const std::string& what) { host_.note(what); };
  around.calm = world_.calm;
  around.joins = world_.joins;
  return around;
}

// ---- the daemon's orders

void VisionDriver::load() {
  host_.note("load");
  oracle_.load_ordered();
  host_.order([this] { conductor_.load(); });
}

void VisionDriver::unload(supervise::Trouble why, bool at_once) {
  host_.note("unload");
  oracle_.unload_ordered(why);
  host_.order([&] { conductor_.unload(why, at_once); });
}

void VisionDriver::set_limits(const process::VisionLimits& limits) {
  oracle_.limits(limits);
  host_.order([&] { conductor_.set_limits(limits); });
}

void VisionDriver::change_program() {
  ++program_;
  host_.note("another program: " + std::to_string(program_));
  oracle_.settings_changed(program_);
  host_.set_settings(program_);
  host_.order([this] { conductor_.settings_changed(); });
}

// ---- the world

std::vector<std::function<void()>> VisionDriver::thaw() {
  auto all = host_.thaw();
  for (auto& report : std::exchange(waiting_, {})) all.push_back([this, report = std::move(report)] { host_.order(report); });
  return all;
}

VisionOracle::Seen VisionDriver::seen() const { return {conductor_.orders(), conductor_.waiting(), conductor_.deadline().has_value(), host_.armed()}; }

// ---- turn::EncoderPort: from inside the desk

void VisionDriver::encode(turn::RequestKey key, const std::vector<turn::Picture>& pictures) {
  const auto call = world_.asking();
  if (!call) return world_.host.violation("pictures of nobody are encoded");
  oracle_.asked(key, *call, desk_->client_of(key), pictures);
  conductor_.encode(key, pictures);
}

void VisionDriver::abandon(turn::RequestKey key) {
  oracle_.over(key);
  conductor_.abandon(key);
}

// ---- Role

std::shared_ptr<Process> VisionDriver::make(supervise::Generation generation, Spawn spawn, ProcessHost& host) {
  VisionScript script = world_.script();
  if (spawn == Spawn::fails) script.start = Start::spawn_fails;
  script.program = host_.settings();
  script.width = script.program % 4 < 2 ? 4 : 8;        // another program may have the same width
  if (dice_.chance(3)) script.width = 16;
  auto child = std::make_shared<VisionChild>(clock_, Random(dice_.next()), script, disk_, host);
  oracle_.spawn(generation, *child, script.program);
  return child;
}

bool VisionDriver::written(std::string_view line) {
  auto command = protocol::parse_vision_command(line);
  if (!command || !std::holds_alternative<protocol::Encode>(*command)) return false;
  command_ = std::move(*command);
  oracle_.command(std::get<protocol::Encode>(command_), disk_);
  return true;
}

void VisionDriver::deliver(Process& to) { static_cast<VisionChild&>(to).receive(command_); }

}  // namespace vigil::sim
