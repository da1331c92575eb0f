// The process half of the scripted engine: start, pipes, signals, CPU. Everything it does later is guarded: a dead process does nothing.
#include "tests/sim/engine.hpp"

#include <utility>

namespace vigil::sim {

using std::chrono::milliseconds;

namespace {
constexpr Duration history_kept = std::chrono::seconds(12);
}

Engine::Engine(Scheduler& clock, Random dice, Script script, uint64_t generation, EngineHost& host)
    : clock_(clock), dice_(dice), script_(std::move(script)), generation_(generation), host_(host), accounted_at_(clock.now()),
      last_busy_(clock.now()), last_io_(clock.now()) {}

void Engine::begin() {
  if (script_.start == Start::spawn_fails) {
    clock_.in(milliseconds(1), [self = shared_from_this()] { self->host_.on_not_executed("No such file or directory"); });
    return;
  }
  leader_ = true;
  if (script_.start == Start::exec_hangs) return;
  later(milliseconds(script_.start == Start::ready_late ? 300 : 1), [this] { host_.on_executed(); });
  const Duration delay = milliseconds(2) + script_.start_delay;
  if (script_.chatters) chatter(milliseconds(dice_.between(100, 3000)));
  switch (script_.start) {
    case Start::ready:
    case Start::ready_late: later(delay + milliseconds(300), [this] { ready(); }); break;
    case Start::slow_with_progress:
      for (int n = 1; n <= 5; ++n) {
        later(n * milliseconds(3500), [this, n] { print("INFO load=0." + std::to_string(n)); });
        later(n * milliseconds(3600), [this, n] { print("INFO kv=9 load=0." + std::to_string(n - 1)); });  // a smaller one re-arms nothing
      }
      later(milliseconds(20000), [this] { ready(); });
      break;
    default: later(delay, [this] { load_fails(); });
  }
}

void Engine::load_fails() {
  healthy_ = false;
  const Duration soon = milliseconds(dice_.between(0, 150));  // before anybody gives up waiting for the exit
  switch (script_.start) {
    case Start::says_half: return print_bytes("READY 40");
    case Start::other_info: return repeat(0, milliseconds(1500), "INFO vram_free_mib=100 context=4096", false);
    case Start::stands_still: return repeat(0, milliseconds(1500), "INFO load=0.5", false);
    case Start::grows_for_ever:
      for (int n = 1; n < 60; ++n) later(n * milliseconds(2000), [this, n] { print("INFO load=" + std::to_string(n * 0.01)); });
      return;
    case Start::dies: return die("killed by signal 9 (SIGKILL)");
    case Start::exits_zero: return die("exited with status 0");
    case Start::says_err: return print("ERR cannot load");
    case Start::says_fatal: return print("FATAL bad model");
    case Start::says_err_and_exits:
      print("ERR cannot load");
      return later(soon, [this] { die("exited with status 4"); });
    case Start::says_fatal_and_exits:
      print("FATAL bad model");
      return later(soon, [this] { die("exited with status 5"); });
    case Start::closes_output:
    case Start::closes_output_and_exits:
      printing_ = false;
      host_.on_output_closed();
      if (script_.start == Start::closes_output_and_exits) later(soon, [this] { die("exited with status 6"); });
      return;
    default: return;  // says nothing
  }
}

void Engine::ready() {
  std::string line = "READY 4096";
  if (script_.stop) line += " stop";
  if (script_.ids) line += " ids slots=" + std::to_string(script_.slots);
  if (script_.beat_ms > 0) line += " beat=" + std::to_string(script_.beat_ms);
  if (script_.gpu) line += " gpu";
  print(line);
  if (script_.dies_after > Duration::zero()) later(script_.dies_after, [this] { die("exited with status 3"); });
}

// ---- pipes

void Engine::print(const std::string& text, std::optional<uint64_t> request) {
  print_bytes((request && script_.ids ? "@" + std::to_string(*request) + " " : std::string()) + text + "\n");
}

void Engine::print_bytes(std::string bytes) {
  if (!leader_ || !printing_) return;
  if (!unprinted_.empty()) bytes = std::exchange(unprinted_, {}) + bytes;
  ++pieces_;
  if (script_.in_pieces && bytes.size() > 1) {
    const auto cut = static_cast<size_t>(dice_.between(1, static_cast<int64_t>(bytes.size()) - 1));
    unprinted_ = bytes.substr(cut);
    bytes.resize(cut);
    later(milliseconds(dice_.between(0, 40)), [this, piece = pieces_] {
      if (piece == pieces_ && printing_) host_.on_output(std::exchange(unprinted_, {}));
    });
  }
  host_.on_output(bytes);
}

void Engine::chatter(Duration every) {
  host_.on_error_output("layer " + std::to_string(dice_.between(1, 99)) + "\n");
  later(every, [this, every] { chatter(every); });
}

// ---- signals and death

void Engine::terminate() {
  if (!leader_ || terminated_) return;
  terminated_ = true;
  healthy_ = false;
  switch (script_.on_term) {
    case OnTerm::exits: later(milliseconds(2), [this] { die("killed by signal 15 (SIGTERM)"); }); break;
    case OnTerm::exits_late: later(milliseconds(dice_.between(100, 1500)), [this] { die("exited with status 0"); }); break;
    case OnTerm::leaves_grandchild:
      grandchild_ = true;
      later(milliseconds(2), [this] { die("killed by signal 15 (SIGTERM)"); });
      break;
    case OnTerm::unkillable_for_a_while: unkillable_until_ = clock_.now() + milliseconds(dice_.between(1000, 9000)); break;
    case OnTerm::closes_output:
      printing_ = false;
      host_.on_output_closed();
      break;
    case OnTerm::ignores: break;
  }
}

void Engine::kill() {
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

void Engine::die(const std::string& how) {
  if (!leader_) return;
  account();
  leader_ = printing_ = healthy_ = false;
  host_.on_exit(how);
  host_.on_tree_changed();
}

void Engine::machine_stops() {
  account();
  machine_stopped_ = true;
  machine_stopped_at_ = clock_.now();
}

void Engine::machine_goes_on(Duration stood_still) {
  machine_stopped_ = false;
  accounted_at_ = clock_.now();
  last_busy_ = std::max(last_busy_, cpu_rate() >= 0.01 ? clock_.now() : last_busy_);
  for (auto& [due, action] : std::exchange(woken_late_, {})) later(due + stood_still - clock_.now(), std::move(action));
}

// ---- what it uses

double Engine::cpu_rate() const {
  if (!leader_ || machine_stopped_) return 0;
  if (spinning_) return 1;
  if (frozen_ || computing_jobs_ == 0) return 0;
  return script_.gpu ? 0 : script_.low_cpu ? 0.03 : 1;
}

void Engine::account() {
  const TimePoint now = clock_.now();
  const Duration span = machine_stopped_ ? Duration::zero() : now - accounted_at_;
  const double rate = cpu_rate();
  totals_.cpu += std::chrono::duration_cast<Duration>(span * rate);
  if (rate >= 0.01 && span > Duration::zero()) last_busy_ = now;
  if (io_jobs_ > 0 && leader_ && span > Duration::zero()) {
    totals_.io_bytes += static_cast<uint64_t>(span.count()) / 1000;
    totals_.major_faults += 1;
    last_io_ = now;
  }
  accounted_at_ = now;
  if (cpu_history_.empty() || cpu_history_.back().first != now) cpu_history_.emplace_back(now, totals_.cpu);
  while (cpu_history_.size() > 2 && cpu_history_[1].first < now - history_kept) cpu_history_.pop_front();
}

supervise::TreeUsage Engine::usage() {
  account();
  return totals_;
}

double Engine::cpu_share(Duration window) const {
  const TimePoint from = clock_.now() - window;
  const Duration now_total = totals_.cpu + std::chrono::duration_cast<Duration>((clock_.now() - accounted_at_) * cpu_rate());
  Duration then{};
  for (size_t n = 0; n < cpu_history_.size(); ++n) {
    const auto& [at, total] = cpu_history_[n];
    if (at > from) {
      if (n == 0) break;
      const auto& [before_at, before] = cpu_history_[n - 1];
      then = before + std::chrono::duration_cast<Duration>((total - before) * (seconds(from - before_at) / seconds(at - before_at)));
      break;
    }
    then = total;
  }
  return seconds(now_total - then) / seconds(window);
}

void Engine::set_work(Work& job, bool computes, bool reads_disk) {
  account();
  computing_jobs_ += static_cast<int>(computes) - static_cast<int>(job.computes);
  io_jobs_ += static_cast<int>(reads_disk) - static_cast<int>(job.reads_disk);
  job.computes = computes;
  job.reads_disk = reads_disk;
}

}  // namespace vigil::sim
