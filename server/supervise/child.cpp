// State by event. Each handler starts with the states in which the event means something; elsewhere it is inert.
#include "server/supervise/child.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace vigil::supervise {

using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// A process whose output ended usually exits at once; its status makes the better reason.
constexpr Duration exit_after_output_closed = milliseconds(200);
// KILL was sent and something still lives (uninterruptible sleep): said, shown, and tried again this often.
constexpr Duration kill_again = seconds(5);

std::string exited_text(const std::string& how) { return how.empty() ? "the process ended" : how; }

}  // namespace

std::string_view to_string(ChildState state) {
  switch (state) {
    case ChildState::unloaded: return "unloaded";
    case ChildState::starting: return "starting";
    case ChildState::ready: return "ready";
    case ChildState::stopping: return "stopping";
    case ChildState::backoff: return "backoff";
    case ChildState::failed: return "failed";
  }
  return "unknown";
}

std::vector<Effect> Child::step(const Event& event, TimePoint now) {
  Effects out;
  std::visit([&](const auto& what) { handle(what, now, out); }, event);
  return out;
}

void Child::enter(ChildState state, TimePoint now, Effects& out) {
  state_ = state;
  state_since_ = now;
  if (state != ChildState::starting && state != ChildState::ready) {
    output_closed_at_.reset();
    load_ = 0;
  }
  if (state != ChildState::ready) ready_.reset();
  if (state != ChildState::stopping) asked_ = start_wanted_ = false;
  if (state == ChildState::unloaded || state == ChildState::failed || state == ChildState::backoff) pid_ = 0;
  out.push_back(effect::StateChanged{});
}

// ---- starting

void Child::handle(const event::Start& start, TimePoint now, Effects& out) {
  if (start.by_hand) failures_ = 0;
  switch (state_) {
    case ChildState::unloaded:
    case ChildState::failed:
      spawn(now, out);
      break;
    case ChildState::backoff:
      if (start.by_hand) spawn(now, out);
      break;
    case ChildState::stopping:
      start_wanted_ = true;
      break;
    case ChildState::starting:
    case ChildState::ready:
      break;  // two starts at once are one
  }
}

void Child::spawn(TimePoint now, Effects& out) {
  ++generation_;
  pid_ = 0;
  load_ = 0;
  spawned_ = exited_ = false;
  progress_at_ = now;
  out.push_back(effect::Spawn{generation_});
  enter(ChildState::starting, now, out);
}

void Child::handle(const event::Spawned& spawned, TimePoint, Effects& out) {
  if (state_ != ChildState::starting && state_ != ChildState::stopping) return;
  spawned_ = true;
  pid_ = spawned.pid;
  out.push_back(effect::StateChanged{});
}

void Child::handle(const event::SpawnFailed& failed, TimePoint now, Effects& out) {
  exited_ = true;
  if (state_ == ChildState::starting) fail({Trouble::start_failed, "could not be executed: " + failed.reason, {}}, now, out);
}

void Child::handle(const event::Line& line, TimePoint now, Effects& out) {
  if (state_ == ChildState::ready) {
    watch_.line(line.lease, line.event, limits_, now);
    if (!std::holds_alternative<protocol::Beat>(line.event)) return;  // the child's account comes with its beats
    if (auto forgotten = watch_.forgotten(now)) out.push_back(effect::LeaseForgotten{forgotten->lease, std::move(forgotten->evidence)});
    return;
  }
  if (state_ != ChildState::starting) return;
  if (const auto* info = std::get_if<protocol::Info>(&line.event)) {
    const auto load = info->load();
    if (load && *load > load_) {
      load_ = *load;
      progress_at_ = now;
      out.push_back(effect::StateChanged{});
    }
  } else if (const auto* ready = std::get_if<protocol::Ready>(&line.event)) {
    reason_.clear();
    watch_.started(*ready);
    enter(ChildState::ready, now, out);
    ready_ = *ready;
    idle_since_ = now;
    load_ = 1;
  } else if (const auto* error = std::get_if<protocol::EngineError>(&line.event)) {
    fail({Trouble::start_failed, "said instead of READY: ERR " + error->text, {}}, now, out);
  } else if (const auto* fatal = std::get_if<protocol::Fatal>(&line.event)) {
    fail({Trouble::start_failed, "could not load: " + fatal->why, {}}, now, out);
  }
}

// ---- running

void Child::handle(const event::BadLine&, TimePoint now, Effects&) {
  if (state_ == ChildState::ready) watch_.output(now);
}

void Child::handle(const event::StderrOutput&, TimePoint now, Effects&) {
  if (state_ == ChildState::ready) watch_.output(now);
}

void Child::handle(const event::Usage& usage, TimePoint now, Effects&) {
  if (state_ == ChildState::ready) watch_.usage(usage.totals, limits_, now);
}

void Child::handle(const event::LeaseOpened& opened, TimePoint now, Effects& out) {
  if (state_ != ChildState::ready) return;
  const bool first = !watch_.active();
  watch_.lease_opened(opened.id, now);
  if (first) out.push_back(effect::SampleUsage{});
}

void Child::handle(const event::LeaseCancelled& cancelled, TimePoint now, Effects&) {
  if (state_ == ChildState::ready) watch_.lease_cancelled(cancelled.id, now);
}

void Child::handle(const event::LeaseAnswered&, TimePoint, Effects&) {
  if (state_ == ChildState::ready) failures_ = 0;  // READY alone proves nothing
}

void Child::handle(const event::LeaseClosed& closed, TimePoint now, Effects&) {
  if (state_ != ChildState::ready) return;
  watch_.lease_closed(closed.id);
  idle_since_ = now;
}

void Child::handle(const event::Paused& paused, TimePoint now, Effects&) {
  if (state_ == ChildState::ready) watch_.paused(paused.paused, now);
}

void Child::handle(const event::Late& late, TimePoint now, Effects& out) {
  if (state_ != ChildState::ready || !watch_.active()) return;
  watch_.late(late.by, now);
  out.push_back(effect::Log{"the daemon itself was late by " + std::to_string(std::chrono::duration_cast<milliseconds>(late.by).count()) +
                            " ms; the liveness limits move by as much"});
}

void Child::handle(const event::Limits& limits, TimePoint, Effects&) { limits_ = limits.limits; }

// ---- ending

void Child::handle(const event::StdoutClosed&, TimePoint now, Effects&) {
  if (state_ == ChildState::starting || state_ == ChildState::ready) output_closed_at_ = now;
}

void Child::handle(const event::Exited& exited, TimePoint now, Effects& out) {
  exited_ = true;
  if (state_ == ChildState::starting) {
    fail({Trouble::start_failed, "exited before READY: " + exited_text(exited.how), {}}, now, out);
  } else if (state_ == ChildState::ready) {
    fail({Trouble::crashed, exited_text(exited.how), {}}, now, out);
  }
}

void Child::fail(LivenessWatch::Verdict verdict, TimePoint now, Effects& out) {
  ++failures_;
  reason_ = verdict.text;
  const bool ours = verdict.why != Trouble::crashed && verdict.why != Trouble::start_failed;
  if (state_ == ChildState::starting) {
    out.push_back(effect::LoadFailed{verdict.why, verdict.text});
  } else {
    effect::Lost lost{verdict.why, verdict.text, verdict.culprits, verdict.why, verdict.text};
    if (verdict.why == Trouble::cancel_unanswered || verdict.why == Trouble::silent) {
      lost.others_why = Trouble::cancel_unanswered;
      lost.others_text = "the engine was replaced because another request hung in it: " + verdict.text;
    }
    out.push_back(std::move(lost));
  }
  if (ours) out.push_back(effect::Killed{verdict.why});
  begin_stopping(exited_ ? Grace::none : Grace::full, now, out);
}

void Child::begin_stopping(Grace grace, TimePoint now, Effects& out) {
  enter(ChildState::stopping, now, out);
  kill_sent_ = false;
  if (grace == Grace::none) return kill(now, out);
  stop_deadline_ = now + limits_.stop;
  out.push_back(effect::Terminate{});
}

void Child::handle(const event::Stop& stop, TimePoint now, Effects& out) {
  const Grace grace = stop.at_once ? Grace::none : Grace::full;
  const std::string text = stop.why == Trouble::shutting_down ? "the server is shutting down" : "it was unloaded";
  switch (state_) {
    case ChildState::unloaded:
      out.push_back(effect::StateChanged{});
      break;
    case ChildState::failed:
    case ChildState::backoff:
      enter(ChildState::unloaded, now, out);
      break;
    case ChildState::starting:
      out.push_back(effect::LoadFailed{stop.why, text});
      begin_stopping(grace, now, out);
      asked_ = true;
      break;
    case ChildState::ready:
      if (watch_.active()) out.push_back(effect::Lost{stop.why, text, {}, stop.why, text});
      begin_stopping(grace, now, out);
      asked_ = true;
      break;
    case ChildState::stopping:
      asked_ = true;
      start_wanted_ = false;
      out.push_back(effect::LoadFailed{stop.why, text});  // for those that wait for the next start
      if (stop.at_once) kill(now, out);
      break;
  }
}

void Child::handle(const event::TreeEmpty&, TimePoint now, Effects& out) {
  if (state_ == ChildState::stopping) settle(now, out);
}

void Child::settle(TimePoint now, Effects& out) {
  const bool wanted = start_wanted_;
  if (asked_) {
    enter(ChildState::unloaded, now, out);
    if (wanted) spawn(now, out);
    return;
  }
  if (failures_ >= 2) {
    retry_at_ = now + backoff_delay();
    enter(ChildState::backoff, now, out);
    return;
  }
  enter(ChildState::failed, now, out);
  if (wanted || limits_.eager) spawn(now, out);
}

Duration Child::backoff_delay() const {
  const double doubled = vigil::seconds(limits_.backoff_first) * std::pow(2.0, std::min(failures_ - 2, 40));
  // A little jitter, so that daemons that died together do not start together; from the generation, so that a replay repeats it.
  const double jitter = 0.1 * static_cast<double>((generation_ * 0x9E3779B97F4A7C15ull) >> 40) / static_cast<double>(1u << 24);
  return std::min(from_seconds(std::min(doubled, 1e6) * (1 + jitter)), limits_.backoff_max);
}

Duration Child::retry_in(TimePoint now) const {
  return state_ == ChildState::backoff ? std::max(Duration::zero(), retry_at_ - now) : Duration::zero();
}

// ---- time

std::optional<TimePoint> Child::deadline() const {
  std::optional<TimePoint> first;
  const auto consider = [&](TimePoint at) { first = first ? std::min(*first, at) : at; };
  switch (state_) {
    case ChildState::unloaded:
    case ChildState::failed:
      return std::nullopt;
    case ChildState::starting:
      if (!spawned_) consider(state_since_ + limits_.exec);
      if (limits_.ready > Duration::zero()) consider(progress_at_ + limits_.ready);
      if (limits_.load_max > Duration::zero()) consider(state_since_ + limits_.load_max);
      break;
    case ChildState::ready:
      if (const auto watched = watch_.deadline(limits_)) consider(*watched);
      if (limits_.idle_unload > Duration::zero() && !watch_.active()) consider(idle_since_ + limits_.idle_unload);
      break;
    case ChildState::stopping:
      consider(stop_deadline_);
      break;
    case ChildState::backoff:
      consider(retry_at_);
      break;
  }
  if (output_closed_at_) consider(*output_closed_at_ + exit_after_output_closed);
  // Whoever forgets to give a usage sample with Due must not make us spin.
  if (first && state_ == ChildState::ready) first = std::max(*first, last_due_ + milliseconds(10));
  return first;
}

void Child::handle(const event::Due&, TimePoint now, Effects& out) {
  last_due_ = now;
  if (output_closed_at_ && now >= *output_closed_at_ + exit_after_output_closed) {
    const bool loading = state_ == ChildState::starting;
    fail({loading ? Trouble::start_failed : Trouble::crashed, loading ? "closed its output before READY" : "closed its output and lived on", {}}, now, out);
    return;
  }
  switch (state_) {
    case ChildState::unloaded:
    case ChildState::failed:
      break;
    case ChildState::starting:
      due_starting(now, out);
      break;
    case ChildState::ready:
      if (auto verdict = watch_.judge(limits_, now)) {
        fail(std::move(*verdict), now, out);
      } else if (idle_too_long(now)) {
        out.push_back(effect::Log{"stopped after " + limit_text(limits_, "idle_unload_s", limits_.idle_unload) + " without a request"});
        handle(event::Stop{Trouble::unloaded, false}, now, out);
      }
      break;
    case ChildState::stopping:
      if (now >= stop_deadline_) due_stopping(now, out);
      break;
    case ChildState::backoff:
      if (now < retry_at_) break;
      enter(ChildState::failed, now, out);
      if (limits_.eager) spawn(now, out);
      break;
  }
}

bool Child::idle_too_long(TimePoint now) const {
  return limits_.idle_unload > Duration::zero() && !watch_.active() && now >= idle_since_ + limits_.idle_unload;
}

void Child::due_starting(TimePoint now, Effects& out) {
  if (!spawned_ && now >= state_since_ + limits_.exec) {
    fail({Trouble::start_failed, "was not executed within " + limit_text(limits_, "exec_s", limits_.exec), {}}, now, out);
  } else if (limits_.load_max > Duration::zero() && now >= state_since_ + limits_.load_max) {
    fail({Trouble::not_ready, "did not report READY within " + limit_text(limits_, "load_max_s", limits_.load_max), {}}, now, out);
  } else if (limits_.ready > Duration::zero() && now >= progress_at_ + limits_.ready) {
    std::string text = "did not report READY within " + limit_text(limits_, "ready_s", limits_.ready);
    if (load_ > 0) text += "; its load had stood still at " + std::to_string(static_cast<int>(load_ * 100)) + " %";
    fail({Trouble::not_ready, text, {}}, now, out);
  }
}

void Child::due_stopping(TimePoint now, Effects& out) {
  if (kill_sent_) {
    const std::string text = "generation " + std::to_string(generation_) + " (pid " + std::to_string(pid_) + ") does not end although it was sent KILL";
    reason_ = text;
    out.push_back(effect::Log{text});
    out.push_back(effect::LoadFailed{Trouble::start_failed, text});
    out.push_back(effect::StateChanged{});
  } else if (asked_) {
    out.push_back(effect::Killed{Trouble::unloaded});  // stop_s was the limit; other kills were counted when they were decided
  }
  kill(now, out);
}

void Child::kill(TimePoint now, Effects& out) {
  kill_sent_ = true;
  stop_deadline_ = now + kill_again;
  out.push_back(effect::Kill{});
}

}  // namespace vigil::supervise
