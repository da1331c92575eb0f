// The half of the scripted engine that is not about requests: READY, its lines, and what it burns. Requests are in engine_work.cpp.
#include "tests/sim/engine.hpp"

#include <utility>

namespace vigil::sim {

using std::chrono::milliseconds;

namespace {
constexpr Duration history_kept = std::chrono::seconds(12);
}

Engine::Engine(Scheduler& clock, Random dice, Script script, ProcessHost& host)
    : Process(clock, dice, script, host), script_(std::move(script)), accounted_at_(clock.now()), last_busy_(clock.now()), last_io_(clock.now()) {}

void Engine::ready() {
  std::string line = "READY 4096";
  if (script_.stop) line += " stop";
  if (script_.ids) line += " ids slots=" + std::to_string(script_.slots);
  if (script_.beat_ms > 0) line += " beat=" + std::to_string(script_.beat_ms);
  if (script_.gpu) line += " gpu";
  print(line);
  if (script_.dies_after > Duration::zero()) later(script_.dies_after, [this] { die("exited with status 3"); });
}

void Engine::print(const std::string& text, std::optional<uint64_t> request) {
  print_bytes((request && script_.ids ? "@" + std::to_string(*request) + " " : std::string()) + text + "\n");
}

void Engine::woke() {
  accounted_at_ = clock_.now();
  last_busy_ = std::max(last_busy_, cpu_rate() >= 0.01 ? clock_.now() : last_busy_);
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
