// How faults are distributed: about half of the processes are healthy, so that worlds get somewhere.
#include "tests/sim/script.hpp"

namespace vigil::sim {

using std::chrono::milliseconds;

Script Script::healthy(Random& dice) {
  Script script;
  if (dice.chance(20)) script.start = Start::ready_late;
  script.start_delay = milliseconds(dice.between(0, 3000));
  script.stop = dice.chance(85);
  script.ids = dice.chance(45);
  script.slots = script.ids && dice.chance(60) ? static_cast<int>(dice.between(2, 4)) : 1;
  script.beat_ms = dice.chance(35) ? dice.between(300, 1000) : 0;  // a daemon may be 250 ms late unnoticed
  script.accounts = dice.chance(60);
  script.gpu = dice.chance(20);
  script.token_every = milliseconds(dice.chance(90) ? dice.between(1, 400) : dice.between(400, 1100));
  script.reads_after = milliseconds(dice.chance(70) ? 0 : dice.between(1, 300));
  script.resumes = dice.chance(30);
  script.in_pieces = dice.chance(20);
  script.chatters = dice.chance(20);
  script.low_cpu = dice.chance(20);
  script.fault_after = dice.between(0, 6);
  for (int64_t n = dice.between(1, 3); n > 0; --n) {
    script.answers.push_back(dice.chance(60) ? Answer::normal : static_cast<Answer>(dice.between(0, first_bad_answer - 1)));
  }
  return script;
}

Script Script::draw(Random& dice) {
  Script script = healthy(dice);
  if (dice.chance(40)) return script;
  if (dice.chance(25)) script.start = static_cast<Start>(dice.between(0, start_kinds - 1));
  script.answers.clear();
  for (int64_t n = dice.between(1, 4); n > 0; --n) {
    script.answers.push_back(dice.chance(40) ? Answer::normal : static_cast<Answer>(dice.between(0, answer_kinds - 1)));
  }
  script.on_stop = dice.chance(50) ? OnStop::done_cancel : static_cast<OnStop>(dice.between(0, stop_kinds - 1));
  script.on_term = dice.chance(50) ? OnTerm::exits : static_cast<OnTerm>(dice.between(0, term_kinds - 1));
  if (dice.chance(10)) script.dies_after = milliseconds(dice.between(1, 20000));
  return script;
}

}  // namespace vigil::sim
