// See process.hpp. Everything it does later is guarded: a dead process does nothing.
#include "tests/sim/process.hpp"

#include <utility>

namespace vigil::sim {

using std::chrono::milliseconds;

Process::Process(Scheduler& clock, Random dice, ProcessScript script, ProcessHost& host)
    : clock_(clock), dice_(dice), host_(host), start_(std::move(script)) {}

void Process::begin() {
  if (start_.start == Start::spawn_fails) {
    clock_.in(milliseconds(1), [self = shared_from_this()] { self->host_.on_not_executed("No such file or directory"); });
    return;
  }
  leader_ = true;
  if (start_.start == Start::exec_hangs) return;
  later(milliseconds(start_.start == Start::ready_late ? 300 : 1), [this] { host_.on_executed(); });
  const Duration delay = milliseconds(2) + start_.start_delay;
  if (start_.chatters) chatter(milliseconds(dice_.between(100, 3000)));
  switch (start_.start) {
    case Start::ready:
    case Start::ready_late: later(delay + milliseconds(300), [this] { ready(); }); break;
    case Start::slow_with_progress:
      for (int n = 1; n <= 5; ++n) {
        later(n * milliseconds(3500), [this, n] { print_line("INFO load=0." + std::to_string(n)); });
        later(n * milliseconds(3600), [this, n] { print_line("INFO kv=9 load=0." + std::to_string(n - 1)); });  // a smaller one re-arms nothing
      }
      later(milliseconds(20000), [this] { ready(); });
      break;
    default: later(delay, [this] { load_fails(); });
  }
}

void Process::load_fails() {
  healthy_ = false;
  const Duration soon = milliseconds(dice_.between(0, 150));  // before anybody gives up waiting for the exit
  switch (start_.start) {
    case Start::says_half: return print_bytes("READY 40");
    case Start::other_info: return say_again(milliseconds(1500), "INFO vram_free_mib=100 context=4096");
    case Start::stands_still: return say_again(milliseconds(1500), "INFO load=0.5");
    case Start::grows_for_ever:
      for (int n = 1; n < 60; ++n) later(n * milliseconds(2000), [this, n] { print_line("INFO load=" + std::to_string(n * 0.01)); });
      return;
    case Start::dies: return die("killed by signal 9 (SIGKILL)");
    case Start::exits_zero: return die("exited with status 0");
    case Start::says_err: return print_line("ERR cannot load");
    case Start::says_fatal: return print_line("FATAL bad model");
    case Start::says_err_and_exits:
      print_line("ERR cannot load");
      return later(soon, [this] { die("exited with status 4"); });
    case Start::says_fatal_and_exits:
      print_line("FATAL bad model");
      return later(soon, [this] { die("exited with status 5"); });
    case Start::closes_output:
    case Start::closes_output_and_exits:
      close_output();
      if (start_.start == Start::closes_output_and_exits) later(soon, [this] { die("exited with status 6"); });
      return;
    default: return;  // says nothing
  }
}

// ---- pipes

void Process::print_bytes(std::string bytes) {
  if (!leader_ || !printing_) return;
  if (!unprinted_.empty()) bytes = std::exchange(unprinted_, {}) + bytes;
  ++pieces_;
  if (start_.in_pieces && bytes.size() > 1) {
    const auto cut = static_cast<size_t>(dice_.between(1, static_cast<int64_t>(bytes.size()) - 1));
    unprinted_ = bytes.substr(cut);
    bytes.resize(cut);
    later(milliseconds(dice_.between(0, 40)), [this, piece = pieces_] {
      if (piece == pieces_ && printing_) host_.on_output(std::exchange(unprinted_, {}));
    });
  }
  host_.on_output(bytes);
}

// The same line again and again, for as long as it lives.
void Process::say_again(Duration every, const std::string& text) {
  print_line(text);
  later(every, [=, this] { say_again(every, text); });
}

void Process::close_output() {
  printing_ = false;
  host_.on_output_closed();
}

void Process::chatter(Duration every) {
  host_.on_error_output("layer " + std::to_string(dice_.between(1, 99)) + "\n");
  later(every, [this, every] { chatter(every); });
}

// ---- signals and death

void Process::terminate() {
  if (!leader_ || terminated_) return;
  terminated_ = true;
  healthy_ = false;
  switch (start_.on_term) {
    case OnTerm::exits: later(milliseconds(2), [this] { die("killed by signal 15 (SIGTERM)"); }); break;
    case OnTerm::exits_late: later(milliseconds(dice_.between(100, 1500)), [this] { die("exited with status 0"); }); break;
    case OnTerm::leaves_grandchild:
      grandchild_ = true;
      later(milliseconds(2), [this] { die("killed by signal 15 (SIGTERM)"); });
      break;
    case OnTerm::unkillable_for_a_while: unkillable_until_ = clock_.now() + milliseconds(dice_.between(1000, 9000)); break;
    case OnTerm::closes_output: close_output(); break;
    case OnTerm::ignores: break;
  }
}

void Process::kill() {
  if (clock_.now() < unkillable_until_) {  // in uninterruptible sleep: dies when it wakes
    if (!std::exchange(kill_pending_, true)) clock_.at(unkillable_until_, [self = shared_from_this()] { self->kill(); });
    return;
  }
  const bool grandchild = std::exchange(grandchild_, false);
  if (leader_) {
    die("killed by signal 9 (SIGKILL)");
  } else if (grandchild) {
    host_.on_tree_changed();
  }
}

void Process::die(const std::string& how) {
  if (!leader_) return;
  account();
  leader_ = printing_ = healthy_ = false;
  host_.on_exit(how);
  host_.on_tree_changed();
}

void Process::machine_stops() {
  account();
  machine_stopped_ = true;
}

void Process::machine_goes_on(Duration stood_still) {
  machine_stopped_ = false;
  woke();
  for (auto& [due, action] : std::exchange(woken_late_, {})) later(due + stood_still - clock_.now(), std::move(action));
}

}  // namespace vigil::sim
