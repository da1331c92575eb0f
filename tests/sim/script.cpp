// How faults are distributed: about half of the processes are healthy, so that worlds get somewhere.
#include "tests/sim/script.hpp"

namespace vigil::sim {

using std::chrono::milliseconds;

Script Script::healthy(Random& dice) {
  Script script;
  script.start_delay = milliseconds(dice.between(0, 3000));
  script.stop = dice.chance(85);
  script.ids = dice.chance(40);
  script.slots = script.ids && dice.chance(50) ? static_cast<int>(dice.between(2, 4)) : 1;
  script.beat_ms = dice.chance(35) ? dice.between(100, 1000) : 0;
  script.token_every = milliseconds(dice.between(1, 400));
  script.answers = {Answer::normal};
  return script;
}

Script Script::draw(Random& dice) {
  Script script = healthy(dice);
  if (dice.chance(40)) return script;
  if (dice.chance(30)) script.start = static_cast<Start>(dice.between(1, 8));
  script.answers.clear();
  for (int64_t n = dice.between(1, 4); n > 0; --n) {
    script.answers.push_back(dice.chance(40) ? Answer::normal : static_cast<Answer>(dice.between(0, 13)));
  }
  script.fault_after = dice.between(0, 6);
  script.beats_lost = dice.chance(15);
  script.on_stop = dice.chance(50) ? OnStop::done_cancel : static_cast<OnStop>(dice.between(0, 3));
  script.on_term = dice.chance(50) ? OnTerm::exits : static_cast<OnTerm>(dice.between(0, 4));
  script.dies_idle = dice.chance(10);
  return script;
}

}  // namespace vigil::sim
