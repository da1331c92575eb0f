// What one simulated engine process will do: drawn once per spawn from the world's dice. Data only; engine.cpp plays it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/time.hpp"
#include "tests/sim/random.hpp"

namespace vigil::sim {

enum class Start : uint8_t {
  ready,
  ready_late,            // executed late, READY late, both within the limits
  slow_with_progress,    // INFO load grows for longer than ready_s
  // from here on the load fails, or should
  spawn_fails,
  exec_hangs,
  never_ready,
  says_half,             // part of READY, and no more
  other_info,            // INFO without end, none of it about the load
  stands_still,          // INFO load with the same value again and again
  grows_for_ever,        // INFO load grows a little for ever: load_max_s
  dies,
  exits_zero,
  says_err,
  says_err_and_exits,
  says_fatal,
  says_fatal_and_exits,
  closes_output,
  closes_output_and_exits
};
constexpr int start_kinds = static_cast<int>(Start::closes_output_and_exits) + 1;
constexpr int first_bad_start = static_cast<int>(Start::spawn_fails);

enum class Answer : uint8_t {
  normal,                // tokens, then DONE
  ends_at_once,          // DONE 0
  ends_by_token,         // an end token, then DONE
  slow_prefill,          // long prompt progress before the first token
  quiet_prefill,         // no line for longer than stall_s, but at work: CPU, or steps that read from disk, or a GPU
  announced_wait,        // SWAIT, then a silence longer than silence_s, at work all the while
  // from here on it is to blame for something
  goes_silent,           // stops printing after some tokens; no CPU either
  spins_silently,        // the same, but burns CPU
  only_chatters,         // the same, but writes to stderr: alive, yet silent
  only_informs,          // the same, but prints INFO: valid lines, none for the request
  prefill_stands_still,  // PP with the same number again and again
  waits_again,           // SWAIT again and again
  step_stands_still,     // beats go on, the step does not (without beats: goes_silent)
  step_reads_for_ever,   // the same, but reads from disk all the while
  loses_beats,           // beats stop (without beats: goes_silent)
  forgets,               // the request is lost to it; its beats say so, if they carry an account (else: goes_silent)
  says_err,              // ERR, and is idle again
  says_err_and_exits,
  says_err_and_babbles,  // ERR, then tokens and DONE of the same request
  says_fatal,            // and lives on
  says_fatal_and_exits,
  crashes,               // after some tokens
  exits_zero,
  half_line,             // part of a line, then death
  garbage,               // malformed, overlong and foreign lines between tokens, then normal
  closes_output,         // and lives on
  too_many,              // goes on past max_new
  past_end_token,        // prints an end token and goes on
  stray_done,            // a second DONE after its own
  late_lines,            // lines for a request that is over (tagged engines), else stray_done
  cancels_unasked        // DONE ... cancel, though nobody said STOP
};
constexpr int answer_kinds = static_cast<int>(Answer::cancels_unasked) + 1;
constexpr int first_bad_answer = static_cast<int>(Answer::goes_silent);

enum class OnStop : uint8_t { done_cancel, late_done, babbles_then_done, done_stop, says_err, ignores, crashes };
constexpr int stop_kinds = static_cast<int>(OnStop::crashes) + 1;
enum class OnTerm : uint8_t { exits, exits_late, ignores, leaves_grandchild, unkillable_for_a_while, closes_output };
constexpr int term_kinds = static_cast<int>(OnTerm::closes_output) + 1;

// What every kind of process has.
struct ProcessScript {
  Start start = Start::ready;
  Duration start_delay{};
  bool in_pieces = false;       // its lines reach us cut in two
  bool chatters = false;        // stderr now and then
  OnTerm on_term = OnTerm::exits;
  Duration dies_after{};        // after READY, for no reason; 0 = never
};

struct Script : ProcessScript {
  bool stop = true, ids = false, gpu = false;
  int slots = 1;
  int64_t beat_ms = 0;          // 0 = no beat
  bool accounts = false;        // beats say what it works on
  Duration token_every{}, reads_after{};
  bool resumes = false;         // RESUME before the first token
  bool low_cpu = false;         // 3 % of a core is all it needs
  int64_t fault_after = 0;      // tokens before an answer's fault shows
  std::vector<Answer> answers;  // by request, the last one repeats
  OnStop on_stop = OnStop::done_cancel;

  static Script draw(Random& dice);
  static Script healthy(Random& dice);
};

}  // namespace vigil::sim
