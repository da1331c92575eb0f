// What one simulated engine process will do: drawn once per spawn from the world's dice. Data only; engine.cpp plays it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/time.hpp"
#include "tests/sim/random.hpp"

namespace vigil::sim {

enum class Start : uint8_t { ready, spawn_fails, exec_hangs, never_ready, slow_with_progress, dies, says_err, says_fatal, closes_output };

enum class Answer : uint8_t {
  normal,             // tokens, then DONE
  ends_at_once,       // DONE 0
  goes_silent,        // stops printing after some tokens; no CPU either
  spins_silently,     // the same, but burns CPU
  says_err,           // ERR, and is idle again
  says_err_and_exits,
  crashes,            // after some tokens
  half_line,          // part of a line, then death
  garbage,            // malformed lines between tokens, then normal
  closes_output,      // and lives on
  too_many,           // goes on past max_new
  past_end_token,     // prints an end token and goes on
  stray_done,         // a second DONE after its own
  slow_prefill        // long prompt progress before the first token
};

enum class OnStop : uint8_t { done_cancel, late_done, ignores, crashes };
enum class OnTerm : uint8_t { exits, exits_late, ignores, leaves_grandchild, unkillable_for_a_while };

struct Script {
  Start start = Start::ready;
  Duration start_delay{};
  bool stop = true, ids = false;
  int slots = 1;
  int64_t beat_ms = 0;       // 0 = no beat
  bool beats_lost = false;   // stops beating while it works
  Duration token_every{};
  int64_t fault_after = 0;   // tokens before an answer's fault shows
  std::vector<Answer> answers;  // by request, the last one repeats
  OnStop on_stop = OnStop::done_cancel;
  OnTerm on_term = OnTerm::exits;
  bool dies_idle = false;    // some time after READY, for no reason

  static Script draw(Random& dice);
  static Script healthy(Random& dice);
};

}  // namespace vigil::sim
