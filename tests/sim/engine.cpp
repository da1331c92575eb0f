// Plays a Script. Everything it does later is guarded: a dead process does nothing.
#include "tests/sim/engine.hpp"

#include <utility>

namespace vigil::sim {

using std::chrono::milliseconds;

Engine::Engine(Scheduler& clock, Random& dice, Script script, uint64_t generation, int32_t end_token, EngineEvents events)
    : clock_(clock), dice_(dice), script_(std::move(script)), generation_(generation), end_token_(end_token), events_(std::move(events)),
      last_output_(clock.now()), usage_asked_(clock.now()) {}

template <typename Function>
void Engine::later(Duration delay, Function&& function) {
  clock_.in(delay, [self = weak_from_this(), function = std::forward<Function>(function)] {
    if (const auto engine = self.lock(); engine && engine->leader_) function();
  });
}

void Engine::begin() {
  if (script_.start == Start::spawn_fails) {
    clock_.in(milliseconds(1), [events = events_] { events.spawn_failed("No such file or directory"); });
    return;
  }
  leader_ = true;
  if (script_.start == Start::exec_hangs) return;
  later(milliseconds(1), [this] { events_.spawned(static_cast<int64_t>(1000 + generation_)); });
  const Duration delay = milliseconds(2) + script_.start_delay;
  switch (script_.start) {
    case Start::ready: later(delay, [this] { ready(); }); break;
    case Start::slow_with_progress:
      for (int n = 1; n <= 5; ++n) later(delay + n * milliseconds(4000), [this, n] { print("INFO load=0." + std::to_string(n)); });
      later(delay + milliseconds(24000), [this] { ready(); });
      break;
    case Start::dies: later(delay, [this] { die("killed by signal 9 (SIGKILL)"); }); break;
    case Start::says_err: later(delay, [this] { print("ERR cannot load"); }); break;
    case Start::says_fatal: later(delay, [this] { print("FATAL bad model"); }); break;
    case Start::closes_output: later(delay, [this] { printing_ = false; events_.output_closed(); }); break;
    case Start::never_ready:
    case Start::exec_hangs:
    case Start::spawn_fails: break;
  }
}

void Engine::ready() {
  std::string line = "READY 4096";
  if (script_.stop) line += " stop";
  if (script_.ids) line += " ids slots=" + std::to_string(script_.slots);
  if (script_.beat_ms > 0) line += " beat=" + std::to_string(script_.beat_ms);
  print(line);
  if (script_.dies_idle) later(milliseconds(dice_.between(10, 20000)), [this] { die("exited with status 3"); });
}

void Engine::print(std::string text, std::optional<uint64_t> request) {
  if (!leader_ || !printing_) return;
  if (request && script_.ids) text = "@" + std::to_string(*request) + " " + text;
  last_output_ = clock_.now();
  events_.line(std::move(text));
}

void Engine::receive(const std::string& text) {
  auto command = protocol::parse_engine_command(std::string_view(text).substr(0, text.size() - 1));
  if (!command) return events_.violation("the daemon wrote a malformed line: " + text);
  if (!leader_) return;  // the pipe of a dead process
  if (const auto* stop_order = std::get_if<protocol::Stop>(&*command)) return stop(stop_order->request);
  const auto* generate = std::get_if<protocol::Generate>(&*command);
  if (!generate) return;
  size_t running = 0;
  for (const auto& [key, job] : open_) running += job.done ? 0 : 1;
  if (!script_.ids && running > 0) events_.violation("GEN while an untagged one is open");
  if (script_.ids && running >= static_cast<size_t>(script_.slots)) events_.violation("more requests than slots");
  if (script_.ids != generate->request.has_value()) events_.violation("req= does not fit READY");
  const uint64_t key = generate->request ? *generate->request : next_key_++;
  Work job;
  job.generate = *generate;
  job.answer = script_.answers[std::min(requests_++, script_.answers.size() - 1)];
  if (job.answer != Answer::normal && job.answer != Answer::ends_at_once && job.answer != Answer::slow_prefill) healthy_ = false;
  open_.insert_or_assign(key, std::move(job));
  if (script_.beat_ms > 0 && !beating_) {
    beating_ = true;
    beat();
  }
  work(key);
}

void Engine::beat() {
  if (open_.empty() || frozen_) {
    beating_ = false;
    return;
  }
  if (script_.beats_lost && steps_ > 3) {
    healthy_ = false;
    return;
  }
  print("BEAT step=" + std::to_string(steps_));
  later(milliseconds(script_.beat_ms), [this] { beat(); });
}

void Engine::work(uint64_t key) {
  Work& job = open_.at(key);
  ++steps_;
  if (job.answer == Answer::ends_at_once) return later(script_.token_every, [this, key] { finish(key, "stop"); });
  const int chunks = job.answer == Answer::slow_prefill ? 8 : 1;
  for (int n = 1; n <= chunks; ++n) {
    later(n * milliseconds(chunks > 1 ? 700 : 5), [this, key, n] {
      ++steps_;
      if (open_.count(key) != 0) print("PP " + std::to_string(n) + " 8 10 100", key);
    });
  }
  later(chunks * milliseconds(700) + script_.token_every, [this, key] { step(key); });
}

void Engine::step(uint64_t key) {
  const auto found = open_.find(key);
  if (found == open_.end() || found->second.done) return;
  Work& job = found->second;
  ++steps_;
  if (job.produced >= script_.fault_after && fault(key, job)) return;
  if (job.answer != Answer::too_many && job.produced >= job.generate.max_new) return finish(key, "length");
  if (job.answer == Answer::too_many && job.produced >= job.generate.max_new + 20) return finish(key, "length");
  print("T " + std::to_string(10 + job.produced % 50), key);
  ++job.produced;
  if (job.produced > job.generate.max_new && job.stops == 0 && script_.stop) overran_ = job.produced - job.generate.max_new;
  later(script_.token_every, [this, key] { step(key); });
}

bool Engine::fault(uint64_t key, Work& job) {
  switch (job.answer) {
    case Answer::goes_silent: frozen_ = true; return true;
    case Answer::spins_silently: frozen_ = spinning_ = true; return true;
    case Answer::says_err:
      job.done = true;
      print("ERR out of memory", key);
      open_.erase(key);
      return true;
    case Answer::says_err_and_exits:
      print("ERR device lost", key);
      open_.erase(key);
      later(milliseconds(dice_.between(0, 400)), [this] { die("exited with status 7"); });
      return true;
    case Answer::crashes: die("killed by signal 11 (SIGSEGV)"); return true;
    case Answer::half_line: die("exited with status 1"); return true;
    case Answer::garbage:
      print("T banana");
      print(std::string("NOPE \0 \xff", 8));
      return false;
    case Answer::closes_output: printing_ = false; events_.output_closed(); return true;
    case Answer::past_end_token:
      if (job.produced == script_.fault_after) print("T " + std::to_string(end_token_), key);
      return false;
    case Answer::stray_done:
    case Answer::normal:
    case Answer::ends_at_once:
    case Answer::too_many:
    case Answer::slow_prefill: return false;
  }
  return false;
}

void Engine::finish(uint64_t key, const std::string& how) {
  const auto found = open_.find(key);
  if (found == open_.end()) return;
  const Work job = found->second;
  open_.erase(found);
  overran_ = 0;
  const std::string done = "DONE " + std::to_string(job.produced) + " 8 10 10 " + how;
  print(done, key);
  if (job.answer == Answer::stray_done && job.produced > 0) print(done, key);
}

void Engine::stop(std::optional<uint64_t> request) {
  if (!script_.stop) events_.violation("STOP to an engine whose READY had no `stop`");
  uint64_t key = 0;
  if (request) {
    key = *request;
  } else if (!open_.empty()) {
    key = open_.rbegin()->first;
  }
  const auto found = open_.find(key);
  if (found == open_.end()) return;  // it has just ended: an idle STOP
  overran_ = 0;
  if (++found->second.stops > 1) events_.violation("two STOPs for one request");
  if (frozen_) return;
  switch (script_.on_stop) {
    case OnStop::done_cancel: later(milliseconds(3), [this, key] { finish(key, "cancel"); }); break;
    case OnStop::late_done: later(milliseconds(dice_.between(500, 6000)), [this, key] { finish(key, "cancel"); }); break;
    case OnStop::ignores: healthy_ = false; break;
    case OnStop::crashes: later(milliseconds(5), [this] { die("killed by signal 6 (SIGABRT)"); }); break;
  }
}

void Engine::terminate() {
  if (!leader_ || terminated_) return;
  terminated_ = true;
  switch (script_.on_term) {
    case OnTerm::exits: later(milliseconds(2), [this] { die("killed by signal 15 (SIGTERM)"); }); break;
    case OnTerm::exits_late: later(milliseconds(dice_.between(100, 1500)), [this] { die("exited with status 0"); }); break;
    case OnTerm::leaves_grandchild:
      grandchild_ = true;
      later(milliseconds(2), [this] { die("killed by signal 15 (SIGTERM)"); });
      break;
    case OnTerm::unkillable_for_a_while: unkillable_ = true; break;
    case OnTerm::ignores: break;
  }
}

void Engine::kill() {
  if (unkillable_) {
    unkillable_ = false;  // the second KILL finds it awake
    return;
  }
  grandchild_ = false;
  if (leader_) {
    die("killed by signal 9 (SIGKILL)");
  } else {
    events_.tree_changed();
  }
}

void Engine::die(const std::string& how) {
  if (!leader_) return;
  leader_ = false;
  healthy_ = false;
  events_.exited(how);
  events_.tree_changed();
}

supervise::TreeUsage Engine::usage() {
  // A working process burns CPU; a frozen one does not, unless it spins.
  if (leader_ && (spinning_ || (!open_.empty() && !frozen_))) cpu_ += clock_.now() - usage_asked_;
  usage_asked_ = clock_.now();
  supervise::TreeUsage totals;
  totals.cpu = cpu_;
  return totals;
}

}  // namespace vigil::sim
