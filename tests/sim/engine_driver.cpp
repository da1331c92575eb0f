// See engine_driver.hpp.
#include "tests/sim/engine_driver.hpp"

namespace vigil::sim {

void EngineDriver::set_vocabulary(uint64_t vocabulary) {
  host_.set_settings(vocabulary);
  host_.order([this] { conductor_.settings_changed(); });
}

std::shared_ptr<Process> EngineDriver::make(supervise::Generation generation, Spawn spawn, ProcessHost& host) {
  Script script = script_();
  if (spawn == Spawn::fails) script.start = Start::spawn_fails;
  auto engine = std::make_shared<Engine>(clock_, Random(dice_.next()), std::move(script), host);
  oracle_.spawn(generation, *engine);
  return engine;
}

bool EngineDriver::written(std::string_view line) {
  auto command = protocol::parse_engine_command(line);
  if (!command) return false;
  command_ = std::move(*command);
  oracle_.command(command_);
  return true;
}

void EngineDriver::deliver(Process& to) { static_cast<Engine&>(to).receive(command_); }

}  // namespace vigil::sim
