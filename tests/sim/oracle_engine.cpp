// Judges the engine's life: starting, limits, accusations, leases and STOPs, the count of failures, back-off, stopping.
#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/sim/oracle.hpp"

namespace vigil::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;
using supervise::ChildState;
using supervise::Trouble;

namespace {
constexpr Duration error_waits = milliseconds(200);
constexpr Duration look_apart = milliseconds(10);  // two judgements of liveness are at least so far apart
constexpr int accounts_enough = 3;
constexpr Duration account_quiet = seconds(5);
constexpr Duration stop_extra = seconds(15);  // KILL every 5 s, and how long a script may sleep uninterruptibly
}  // namespace

// ---- orders

void Oracle::want() {
  wanted_ = true;
  wanted_at_ = clock_.now();
}

void Oracle::load_ordered(bool by_hand) {
  want();
  load_after_unload_ = by_hand && unload_pending_;
  if (by_hand) by_hand_at_ = clock_.now();
  unloaded_by_order_ = false;
  if (by_hand) may_reset_ = true;
  if (by_hand && state_ == ChildState::backoff) backoff_least_ = {};
}

void Oracle::unload_ordered(Unload when) {
  unload_pending_ = when == Unload::when_idle && state_ == ChildState::ready && !leases_.empty();
  unloading_ = !unload_pending_;
  unloaded_by_order_ = true;
  unload_since_ = mark();
  wanted_ = false;
  backoff_least_ = {};
}

// ---- the process

void Oracle::spawn(uint64_t, const Engine& engine) {
  if (engine_ && !engine_->tree_empty()) fail("a process was started while the one before still lived");
  if (closed_ && closed_->at != clock_.now()) fail("a process was started although the daemon shuts down");
  if (!leases_.empty()) fail("a process was started while requests hang on the one before");
  if (!wanted_ && wanted_at_ != clock_.now() && waiting() == 0 && (!eager_ || unloaded_by_order_)) fail("a process was started that nobody wanted");
  engine_ = &engine;
  state_ = ChildState::starting;
  state_since_ = progress_ = mark();
  executed_ = unload_pending_ = exit_told_ = accused_ = false;
  output_closed_.reset();
  ready_.reset();
  unloading_ = wanted_ = must_start_ = unloaded_by_order_ = false;
  load_ = 0;
}

void Oracle::output_closed() {
  if (state_ == ChildState::starting || state_ == ChildState::ready) output_closed_ = mark();
}

void Oracle::state(ChildState state, const supervise::Child& child) {
  const ChildState before = state_;
  if (before == state) return;
  state_ = state;
  if (state == ChildState::ready) return fail("an engine is ready that did not say so");
  if (before == ChildState::starting || before == ChildState::ready) {
    if (before == ChildState::starting && waiting() != 0) fail("a load ended and left a request waiting for it");
    over(child);
  }
  if (before == ChildState::backoff && by_the_clock(state_since_) < backoff_least_ && state != ChildState::unloaded) fail("a back-off was cut short");
  if (state == ChildState::backoff) {
    if (failures_ < 2) fail("a back-off after " + std::to_string(failures_) + " failures");
    backoff_least_ = backoff_least(failures_);
    backoff_most_ = std::min(std::chrono::duration_cast<Duration>(backoff_least_ * 1.1), child_limits_.backoff_max);
  } else if (state == ChildState::failed && before == ChildState::stopping && failures_ >= 2 && !may_reset_) {
    fail("no back-off after " + std::to_string(failures_) + " failures in a row");
  } else if (state == ChildState::starting && before == ChildState::stopping && failures_ >= 2 && !unloading_ && !may_reset_) {
    fail("a start at once after " + std::to_string(failures_) + " failures in a row");
  } else if (state == ChildState::unloaded) {
    if (!unloading_) fail("an engine that nobody unloaded is unloaded");
    unloading_ = false;
  } else if (before == ChildState::unloaded && state != ChildState::starting) {
    fail("an unloaded engine became " + std::string(supervise::to_string(state)));
  }
  must_start_ = state == ChildState::failed && eager_;
  state_since_ = mark();
}

Duration Oracle::backoff_least(int failures) const {
  const double s = vigil::seconds(child_limits_.backoff_first) * std::pow(2.0, failures - 2);
  return std::min(from_seconds(std::min(s, 1e6)), child_limits_.backoff_max);
}

void Oracle::over(const supervise::Child& child) {
  for (const auto& [id, lease] : leases_) {
    if (calls_[lease.index]->open()) fail("the engine of " + name(*calls_[lease.index]) + " is gone, and the request goes on");
  }
  const bool ordered = !died();
  if (ordered && !unloading_) {
    const bool idle = child_limits_.idle_unload > Duration::zero() && by_the_clock(idle_from_) >= child_limits_.idle_unload;
    settle_errors(Settle::perhaps);
    if (std::any_of(leases_.begin(), leases_.end(), [](const auto& entry) { return !entry.second.perhaps_gone(); })) fail("an engine was stopped while requests ran");
    if (!unload_pending_ && !idle && unload_since_.at != clock_.now()) fail("an engine was stopped, and nobody had asked for that");
    unloading_ = unloaded_by_order_ = true;
    unload_since_ = mark();
  }
  if (std::exchange(unload_pending_, false)) {  // its own death or not: it is not started again
    unloading_ = true;
    unload_since_ = mark();
  }
  leases_.clear();
  ready_.reset();
  must_reset_ = false;
  if (ordered) return;
  const bool counted = child.failures() == failures_ + 1 || (may_reset_ && child.failures() == 1);
  if (!counted) fail("a failure was not counted: " + std::to_string(child.failures()) + " after " + std::to_string(failures_));
  failures_ = child.failures();
  may_reset_ = std::exchange(load_after_unload_, false) || by_hand_at_ == clock_.now();  // a load that comes after this end
}

bool Oracle::died() const {
  if (unloading_ || (!ready_ && unload_since_.at == clock_.now())) return false;  // an order that came just before its start, too
  if (exit_told_ || accused_ || (output_closed_ && clock_.now() - output_closed_->at >= error_waits)) return true;
  return !ready_;  // a load ends by an order, or against our will
}

void Oracle::check_failures(const supervise::Child& child) {
  if (child.failures() > failures_) fail("a failure was counted that was none");
  if (child.failures() < failures_ && !may_reset_) fail("the count of failures was reset without an answer");
  if (must_reset_ && child.failures() != 0) fail("an answer did not reset the count of failures");
  must_reset_ = false;
  failures_ = child.failures();
  if (failures_ == 0) may_reset_ = false;
  if (child.state() == ChildState::failed && must_start_) fail("an eager engine was not started again");
}

// ---- what it says

void Oracle::loaded(const protocol::Ready& ready) {
  state_ = ChildState::ready;
  ready_ = ready;
  last_output_ = last_beat_ = last_step_ = looked_since_ = state_since_ = idle_from_ = idle_since_ = mark();
  step_.reset();
}

std::map<uint64_t, Oracle::Lease>::iterator Oracle::lease_of(const protocol::EngineLine& line) {
  if (!ready_) return leases_.end();
  if (line.request) return ready_->ids ? leases_.find(*line.request) : leases_.end();
  if (leases_.size() != 1 || (ready_->ids && !std::holds_alternative<protocol::EngineError>(line.event))) return leases_.end();
  return leases_.begin();
}

void Oracle::line(std::string_view text, bool overlong) {
  if (state_ == ChildState::ready) last_output_ = mark();
  if (overlong) return;
  const auto line = protocol::parse_engine_line(text);
  if (!line) return;
  const auto& event = line->event;
  if (state_ == ChildState::starting) {
    if (const auto* ready = std::get_if<protocol::Ready>(&event)) return loaded(*ready);
    const auto* info = std::get_if<protocol::Info>(&event);
    const auto load = info ? info->load() : std::nullopt;
    if (load && *load > load_) {
      load_ = *load;
      progress_ = mark();
    }
  }
  if (state_ != ChildState::ready) return;
  settle_errors(Settle::certainly);
  if (const auto* beat = std::get_if<protocol::Beat>(&event)) {
    last_beat_ = mark();
    if (step_ != beat->step) last_step_ = mark();
    step_ = beat->step;
    account(*beat);
    look_for_forgotten();
  } else if (std::holds_alternative<protocol::Fatal>(event)) {
    for (auto& [id, lease] : leases_) {
      if (!lease.error) lease.error = idle_from_ = mark();
    }
  } else if (!std::holds_alternative<protocol::Info>(event) && !std::holds_alternative<protocol::Ready>(event)) {
    if (const auto lease = lease_of(*line); lease != leases_.end()) lease_line(lease, event);
  }
}

// T14: three accounts in a row without a request, and no line for it for 5 s, and it is released. Never on less.
void Oracle::account(const protocol::Beat& beat) {
  if (!beat.active) return;
  for (auto& [id, lease] : leases_) {
    const bool known = ready_->ids ? std::find(beat.active->begin(), beat.active->end(), id) != beat.active->end() : !beat.active->empty();
    lease.accounts_without = known ? 0 : lease.accounts_without + 1;
  }
}

void Oracle::look_for_forgotten() {
  for (auto& [id, lease] : leases_) {
    if (lease.accounts_without < accounts_enough) continue;
    if (by_the_clock(lease.last_sign) >= account_quiet) lease.doubtful = true;
    if (judged(lease.last_sign) >= account_quiet) ++lease.overdue;
    if (lease.doubtful) idle_from_ = mark();
  }
}

void Oracle::lease_line(std::map<uint64_t, Lease>::iterator found, const protocol::EngineEvent& event) {
  Lease& lease = found->second;
  Call& call = *calls_[lease.index];
  bool counts = true;
  Duration allowance{};
  lease.last_sign = mark();
  lease.accounts_without = 0;
  if (const auto* progress = std::get_if<protocol::PromptProgress>(&event)) {
    counts = progress->read > lease.prompt_read;
    lease.prompt_read = std::max(lease.prompt_read, progress->read);
  } else if (const auto* wait = std::get_if<protocol::Wait>(&event)) {
    counts = !lease.waited;
    lease.waited = true;
    allowance = std::min(from_seconds(wait->seconds), child_limits_.silence);
  }
  if (counts) {
    lease.last_line = mark();
    lease.allowance = allowance;
  }
  if (lease.error) return;
  if (const auto* token = std::get_if<protocol::Token>(&event)) {
    ++lease.tokens;
    if (!call.open()) cancel_due(lease.index);
    if (call.open() && token->id == end_token) call.end_token_came = true;
  } else if (const auto* resume = std::get_if<protocol::Resume>(&event)) {
    if (call.open()) call.cached = std::clamp<int64_t>(resume->tokens, 0, call.prompt);
  } else if (std::holds_alternative<protocol::EngineError>(event)) {
    lease.error = idle_from_ = mark();
  } else if (const auto* done = std::get_if<protocol::Done>(&event)) {
    if (!lease.tagged && done->generated > 0 && lease.tokens == 0 && !lease.must_stop) return;  // a stray; after a cancel it is the answer to that
    if (call.open()) call.done = done->finish;
    leases_.erase(found);
    idle_from_ = idle_since_ = mark();
  }
}

void Oracle::error_output() {
  if (state_ == ChildState::ready) last_output_ = mark();
}

// ---- what it is told

void Oracle::command(const protocol::EngineCommand& command) {
  if (const auto* order = std::get_if<protocol::Generate>(&command)) return written(*order);
  if (const auto* order = std::get_if<protocol::Stop>(&command)) return written(*order);
}

void Oracle::written(const protocol::Generate& order) {
  if (unload_pending_) fail("GEN to an engine that is being unloaded");
  if (state_ != ChildState::ready || !ready_) return fail("GEN to an engine that is not ready");
  if (paused_since_) fail("a second request runs while the pipe is paused for the first");
  settle_errors(Settle::perhaps);
  for (const auto& [id, lease] : leases_) {
    if (lease.error) fail("GEN while an ERR is not settled");
  }
  const size_t room = ready_->ids ? static_cast<size_t>(ready_->slots) : 1;
  if (static_cast<size_t>(std::count_if(leases_.begin(), leases_.end(), [](const auto& entry) { return !entry.second.perhaps_gone(); })) >= room) fail("GEN although the engine has no room");
  const auto index = static_cast<size_t>(order.ids.front() - first_prompt_id);
  Call& call = *calls_.at(index);
  call.allowed = order.max_new;
  if (!call.waiting()) fail(name(call) + " was sent, and does not wait");
  if (static_cast<int64_t>(order.ids.size()) != call.prompt) fail(name(call) + " was sent with another prompt");
  if (order.max_new != std::min(call.max_new, ready_->context - call.prompt)) fail(name(call) + " was sent with another max_new");
  if (leases_.empty()) looked_since_ = last_beat_ = last_step_ = mark();
  Lease lease;
  lease.index = index;
  lease.tagged = order.request.has_value();
  lease.last_line = mark();
  if (order.embeddings_file != call.embeddings) fail(name(call) + " was sent with the pictures of another");
  check_embeddings(call);
  if (call.vocabulary != vocabulary_) fail(name(call) + " was sent to an engine of another model");
  lease.last_sign = mark();
  const uint64_t id = order.request ? *order.request : next_lease_++;
  if (!leases_.emplace(id, lease).second) fail("two requests with one tag");
}

void Oracle::written(const protocol::Stop& order) {
  const auto found = order.request ? leases_.find(*order.request) : leases_.begin();
  if (found == leases_.end()) return fail("STOP for a request that is over for the engine");
  Lease& lease = found->second;
  if (lease.stop_written) fail("two STOPs for " + name(*calls_[lease.index]));
  if (lease.error) fail("STOP after the ERR of " + name(*calls_[lease.index]));
  lease.stop_written = true;
  if (!lease.cancelled) lease.cancelled = mark();
}

// The engine may read the file for as long as its lease lasts.
void Oracle::check_embeddings(const Call& call) {
  if (call.pictures.empty()) return;
  if (const auto wrong = embeddings_wrong(call); !wrong.empty()) fail("the embeddings of " + name(call) + " " + wrong);
}

// The daemon has no more use for what this request's engine does.
void Oracle::cancel_due(size_t index) {
  for (auto& [id, lease] : leases_) {
    if (lease.index != index || lease.error) continue;
    lease.must_stop = true;
    if (!lease.cancelled) lease.cancelled = mark();
  }
}

void Oracle::paused(bool paused) {
  if (paused == paused_since_.has_value()) return;
  if (paused) {
    settle_errors(Settle::perhaps);
    if (std::count_if(leases_.begin(), leases_.end(), [](const auto& entry) { return !entry.second.perhaps_gone(); }) > 1) fail("the pipe of several requests was paused for one");
    paused_since_ = mark();
    pause_most_ = desk_limits_.slow_reader_wait;
  } else {
    paused_ += clock_.now() - paused_since_->at;
    paused_since_.reset();
    looked_since_ = mark();  // CPU time is looked at anew
    disturbed_ = clock_.now();
  }
}

// An ERR whose time is over is over for its lease too.
void Oracle::settle_errors(Settle when) {
  const auto gone = std::erase_if(leases_, [&](const auto& entry) {
    const auto& lease = entry.second;
    if (!lease.error || calls_[lease.index]->open()) return false;
    return when == Settle::perhaps ? clock_.now() - lease.error->at >= error_waits : lived(*lease.error) > error_waits;
  });
  if (gone > 0) idle_since_ = mark();
}

void Oracle::check_leases(const turn::Snapshot& view) {
  int64_t certain = 0;  // what is certainly running
  for (const auto& [id, lease] : leases_) {
    const Call& call = *calls_[lease.index];
    if (!lease.perhaps_gone()) {
      ++certain;
      check_embeddings(call);
    }
    // One a line, so several of them take several lines.
    if (call.open() && lease.overdue > static_cast<int>(leases_.size())) fail("the engine has lost " + name(call) + ", and nothing happened");
    if (lease.must_stop && !lease.stop_written && !lease.perhaps_gone() && ready_ && ready_->stop) fail(name(call) + " is over, and its engine was not told to stop");
    if (lease.stop_written && !lease.must_stop) fail("STOP for " + name(call) + ", which goes on");
    if (lease.error && call.open() && lived(*lease.error) > error_waits && settled()) fail("the ERR of " + name(call) + " did not end it");
  }
  // A DONE whose tokens were lost on the way is taken for a stray: the daemon goes on waiting for one.
  const bool too_many = view.running > static_cast<int64_t>(leases_.size()) && !excused.tokens;
  if (view.running < certain || too_many) {
    fail("the status counts " + std::to_string(view.running) + " running, and the engine has " + std::to_string(leases_.size()));
  }
  if (view.running == certain && std::erase_if(leases_, [](const auto& entry) { return entry.second.doubtful; }) > 0) idle_since_ = mark();
  if (state_ == ChildState::ready && leases_.empty() && child_limits_.idle_unload > Duration::zero() && settled() && !excused.tokens &&
      lived(idle_since_) > child_limits_.idle_unload && !limits_just_moved()) {
    fail("an idle engine was not unloaded");
  }
}

// ---- limits: no later ...

void Oracle::check_limits(const supervise::Child&) {
  const auto over_limit = [&](const Mark& since, Duration limit, const char* what) {
    if (limit > Duration::zero() && lived(since) > limit) fail(what);
  };
  if (paused_since_ && lived(*paused_since_) > pause_most_) fail("the pipe was paused for longer than http.write_s");
  if (exit_told_ && (state_ == ChildState::starting || state_ == ChildState::ready)) fail("the engine is dead, and the daemon goes on as if it were not");
  if (output_closed_ && (state_ == ChildState::starting || state_ == ChildState::ready)) over_limit(*output_closed_, error_waits + look_apart, "the end of its output was no death");
  if (closed_ && state_ != ChildState::unloaded && !excused.stop_time) {
    over_limit(*closed_, drain_ + child_limits_.stop + stop_extra, "the daemon does not stop within its limits");
  }
  switch (state_) {
    case ChildState::starting:
      if (!executed_) over_limit(state_since_, child_limits_.exec, "a start lasts longer than exec_s");
      over_limit(progress_, child_limits_.ready, "a load lasts longer than ready_s");
      over_limit(state_since_, child_limits_.load_max, "a load lasts longer than load_max_s");
      break;
    case ChildState::stopping:
      if (!excused.stop_time) over_limit(state_since_, child_limits_.stop + stop_extra, "a stop lasts too long");
      break;
    case ChildState::backoff: over_limit(state_since_, backoff_most_, "a back-off lasts longer than its cap"); break;
    default: break;
  }
  if (unloading_ && state_ != ChildState::unloaded && !excused.stop_time) over_limit(unload_since_, child_limits_.stop + stop_extra, "an unload did not end");
}

Duration Oracle::sampling() const {
  const Duration window = ready_ && ready_->beat_ms ? std::max(beats(), child_limits_.step) : child_limits_.stall;
  return 2 * std::clamp<Duration>(window / 10, milliseconds(50), seconds(1)) + milliseconds(50);
}

// A shorter limit may be over already when it comes; it is judged at the next look, and the last may have been just now.
bool Oracle::limits_just_moved() const { return lived(limits_since_) <= look_apart; }

Duration Oracle::quiet(const Mark& since, TimePoint busy) const {
  return judged(since) - std::max(Duration::zero(), busy - since.at);
}

void Oracle::check_liveness() {
  if (state_ != ChildState::ready || !ready_ || paused_since_ || limits_just_moved()) return;
  if (std::all_of(leases_.begin(), leases_.end(), [](const auto& entry) { return entry.second.perhaps_gone(); })) return;
  for (const auto& [id, lease] : leases_) {
    if (lease.perhaps_gone()) continue;
    const std::string who = name(*calls_[lease.index]);
    if (lease.cancelled && judged(*lease.cancelled) > child_limits_.cancel + look_apart) return fail("the STOP of " + who + " was not answered within cancel_s, and nothing happened");
    if (judged(lease.last_line) > child_limits_.silence + lease.allowance + look_apart) return fail("no line for " + who + " within silence_s, and nothing happened");
  }
  const auto latest = [](const Mark& a, const Mark& b) { return a.at > b.at ? a : b; };
  const Mark output = latest(last_output_, latest(looked_since_, limits_since_));
  const Mark step = latest(last_step_, latest(looked_since_, limits_since_));
  if (ready_->beat_ms) {
    if (judged(last_beat_) > beats() + look_apart) return fail("three beats are missing, and nothing happened");
    if (judged(last_step_) > child_limits_.stall + look_apart) return fail("the step stands still for stall_s, and nothing happened");
    if (quiet(step, engine_->last_io()) > std::max(beats(), child_limits_.step) + sampling()) return fail("the step stands still for step_s, and nothing happened");
  } else if (!ready_->gpu && quiet(output, engine_->last_busy()) > child_limits_.stall + sampling()) {
    return fail("the engine does nothing for stall_s, and nothing happened");
  }
}

// ---- ... and no sooner

void Oracle::killed(Trouble why, const std::string& reason) {
  if (why != Trouble::unloaded) accused_ = true;
  if (excused.accusations || !engine_) return;
  if (engine_->healthy() && (why == Trouble::stalled || why == Trouble::silent || (why == Trouble::cancel_unanswered && engine_->script().stop))) {
    fail("a healthy engine was accused: " + reason);
  }
  if (why == Trouble::not_ready) {
    if (by_the_clock(progress_) < child_limits_.ready && by_the_clock(state_since_) < child_limits_.load_max) fail("a load was ended before its limit: " + reason);
    if (engine_->healthy() && still_total() == state_since_.still) fail("a healthy load was ended: " + reason);
  } else if (why == Trouble::stalled) {
    judge_stalled(reason);
  } else if (why == Trouble::silent) {
    const bool just = std::any_of(leases_.begin(), leases_.end(), [&](const auto& entry) {
      return by_the_clock(entry.second.last_line) >= child_limits_.silence + entry.second.allowance;
    });
    if (!just) fail("an engine was called silent too soon: " + reason);
  } else if (why == Trouble::cancel_unanswered) {
    const bool just = std::any_of(leases_.begin(), leases_.end(), [&](const auto& entry) {
      return entry.second.cancelled && by_the_clock(*entry.second.cancelled) >= child_limits_.cancel;
    });
    if (!just) fail("an unanswered cancel was judged too soon: " + reason);
  }
}

void Oracle::judge_stalled(const std::string& reason) {
  if (!ready_) return fail("an engine that loads was called stalled");
  if (ready_->beat_ms) {
    const Duration window = std::max(beats(), child_limits_.step);
    const bool io_flat = clock_.now() - engine_->last_io() >= window - milliseconds(5);
    const bool just = by_the_clock(last_beat_) >= beats() || by_the_clock(last_step_) >= child_limits_.stall || (by_the_clock(last_step_) >= window && io_flat);
    if (!just) fail("a beating engine was called stalled: " + reason);
    return;
  }
  if (ready_->gpu) return fail("an engine on a GPU was judged by its CPU time: " + reason);
  const Mark& output = last_output_.at > looked_since_.at ? last_output_ : looked_since_;
  const bool busy = engine_->cpu_share(child_limits_.stall) > 0.013 && still_total() == output.still;
  if (by_the_clock(output) < child_limits_.stall || busy) fail("an engine that works was called stalled: " + reason);
}

}  // namespace vigil::sim
