// Judges requests: admission, turns, tokens, endings, and what the status says about them.
#include "tests/sim/oracle.hpp"

#include <algorithm>

namespace vigil::sim {

using std::chrono::milliseconds;
using supervise::ChildState;
using turn::ErrorCode;

// ---- time

Mark Oracle::mark() const { return {clock_.now(), still_total(), paused_total()}; }
Duration Oracle::still_total() const { return still_ + (late_from_ ? std::min(clock_.now() - *late_from_, late_for_) : Duration::zero()); }
bool Oracle::settled() const {
  if (clock_.now() == disturbed_) return false;
  if (!late_from_ || clock_.now() > *late_from_ + late_for_) return true;
  return clock_.now() != *late_from_ + late_for_ && disturbed_ < *late_from_;  // what is due now is due to a timer that is late
}
Duration Oracle::paused_total() const { return paused_ + (paused_since_ ? clock_.now() - paused_since_->at : Duration::zero()); }
Duration Oracle::lived(const Mark& since) const { return clock_.now() - since.at - (still_total() - since.still); }
Duration Oracle::judged(const Mark& since) const { return lived(since) - (paused_total() - since.paused); }
Duration Oracle::by_the_clock(const Mark& since) const { return clock_.now() - since.at - (paused_total() - since.paused); }

void Oracle::forgive(Duration stood_still) {
  still_ += stood_still;
  disturbed_ = clock_.now();
}

void Oracle::forgive_from_now(Duration delay) {
  late_from_ = clock_.now();
  late_for_ = delay;
}

void Oracle::limits(const supervise::ChildLimits& child, const turn::DeskLimits& desk, bool eager) {
  child_limits_ = child;
  desk_limits_ = desk;
  limits_since_ = mark();  // how often CPU and disk are looked at follows the limits
  eager_ = eager;
  disturbed_ = clock_.now();
  for (auto& [id, early] : early_cancels_) {
    early.least = std::min(early.least, desk.cancel_memory);
    early.most = std::max(early.most, desk.cancel_memory);
  }
  for (const auto& call : calls_) {
    if (!call->queued) continue;
    call->queued->least = std::min(call->queued->least, desk.queue_wait);
    call->queued->most = std::max(call->queued->most, desk.queue_wait);
  }
}

// ---- admission

size_t Oracle::waiting() const {
  return static_cast<size_t>(std::count_if(calls_.begin(), calls_.end(), [](const auto& call) { return call->waiting(); }));
}

// Copies of a request that die together died once.
static void one_death(std::vector<TimePoint>& deaths, TimePoint now) {
  if (deaths.empty() || deaths.back() != now) deaths.push_back(now);
}

Call& Oracle::submit(std::unique_ptr<Call> call, size_t queued) {
  calls_.push_back(std::move(call));
  Call& made = *calls_.back();
  if (!made.encoding) enqueue(made);
  queued_at_submit_ = queued;
  submitting_ = made.index;
  return made;
}

void Oracle::submitted(Call& call) {
  submitting_.reset();
  const auto* failed = call.ending ? std::get_if<turn::Failed>(&call.ending->how) : nullptr;
  const auto early = early_cancels_.find(call.id);
  if (early != early_cancels_.end() && !failed) {
    const Duration age = clock_.now() - early->second.at;
    if (age < early->second.least && !call.cancelled_by_api) fail(name(call) + " was cancelled before it came, and goes on");
    if (age >= early->second.most && call.cancelled_by_api) fail(name(call) + " was ended by a cancel of long ago");
    early_cancels_.erase(early);
  }
  if (call.ending && !failed) return;
  const auto code = failed ? std::optional(failed->error.code) : std::nullopt;
  const auto& deaths = crashes_[call.fingerprint];
  const auto recent = std::count_if(deaths.begin(), deaths.end(), [&](TimePoint at) { return clock_.now() - at < desk_limits_.crash_memory; });
  if (recent >= desk_limits_.crashes_refused && code != ErrorCode::request_crashes_engine && code != ErrorCode::shutting_down &&
      code != ErrorCode::engine_crash_loop && code != ErrorCode::engine_unloaded) {
    fail(name(call) + " was let in although it has killed the engine again and again");
  }
  if (!code && unload_pending_) fail(name(call) + " was let in although the engine is being unloaded");
  if (!code && closed_) fail(name(call) + " was let in although the daemon shuts down");
  // A request with pictures is counted with those whose pictures are being encoded, whatever its engine does.
  if (!code && call.open() && call.encoding && desk_limits_.queue_limit != 0 && queued_at_submit_ >= desk_limits_.queue_limit) {
    fail(name(call) + " was let in although queue.limit was reached by pictures");
  }
  if (!code && call.waiting() && !call.encoding && state_ == ChildState::ready && desk_limits_.queue_limit != 0 && queued_at_submit_ >= desk_limits_.queue_limit) {
    fail(name(call) + " was let in although queue.limit was reached");
  }
}

void Oracle::cancelled_early(const std::string& id) { early_cancels_[id] = {clock_.now(), desk_limits_.cancel_memory, desk_limits_.cancel_memory}; }

// A picture stands once in the prompt as it came, and once for each of its rows from now on.
void Oracle::encoded(Call& call, int64_t prompt) {
  if (!call.open()) return;
  call.encoding = false;
  call.prompt = prompt;
  enqueue(call);
}

// ---- the turn

void Oracle::enqueue(Call& call) {
  queue_[call.client].calls.push_back(call.index);
  want();
}

// Round-robin: while somebody is the first of its client, no other client has two turns; and a client's own requests go in order.
void Oracle::take_turn(Call& call) {
  for (auto& [client, place] : queue_) {
    if (place.calls.empty()) continue;
    if (client == call.client) {
      if (place.calls.front() != call.index) fail(name(call) + " has its turn before request " + std::to_string(place.calls.front()) + " of the same client");
      continue;
    }
    if (place.first != place.calls.front()) {
      place.first = place.calls.front();
      place.passed.clear();
    }
    if (++place.passed[call.client] > 1) {
      fail("client " + call.client + " has its turn twice while request " + std::to_string(place.first) + " of client " + client + " waits");
    }
  }
}

void Oracle::forget_place(const Call& call) {
  auto& calls = queue_[call.client].calls;
  calls.erase(std::remove(calls.begin(), calls.end(), call.index), calls.end());
}

void Oracle::started(Call& call) {
  if (!call.waiting()) fail(name(call) + " was started twice, or after its ending");
  take_turn(call);
  call.started = true;
  forget_place(call);
}

turn::Verdict Oracle::token(Call& call, const protocol::Token& token) {
  if (!call.open()) fail("a token after the ending of " + name(call));
  if (call.verdict_given) fail("a token after the verdict of " + name(call));
  if (token.id == end_token) fail("an end token was shown");
  ++call.tokens;
  const bool in_order = excused.tokens ? token.id > token_of(call.index, call.last_number) && token.id < token_of(call.index + 1, 0)
                                       : token.id == token_of(call.index, call.tokens);
  if (!in_order) fail(name(call) + " got token " + std::to_string(token.id) + " as its number " + std::to_string(call.tokens));
  call.last_number = token.id - token_of(call.index, 0);
  if (!call.stops_after || call.tokens < *call.stops_after) return turn::Verdict::more;
  call.verdict_given = true;
  return call.verdict;
}

// ---- endings

void Oracle::ended(Call& call, const turn::Ending& ending) {
  if (++call.endings != 1) fail(name(call) + " ended twice");
  if (ending.usage.generated != call.tokens + (call.threw ? 1 : 0)) fail("usage does not count the tokens that " + name(call) + " was shown");
  if (ending.usage.prompt != call.prompt) fail("usage does not count the prompt of " + name(call));
  if (ending.usage.cached != call.cached) fail("usage does not repeat RESUME for " + name(call));
  if (ending.total_s < 0 || ending.queued_s > ending.total_s + 1e-9 || ending.first_token_s > ending.total_s + 1e-9) fail("impossible times for " + name(call));
  if ((ending.usage.generated == 0) != (ending.first_token_s == 0) && ending.total_s > 0.001) fail("a first token's time without a first token, " + name(call));
  call.ending = ending;
  forget_place(call);
  const auto* cancelled = std::get_if<turn::Cancelled>(&ending.how);
  if (submitting_ == call.index && cancelled && early_cancels_.count(call.id) != 0) call.cancelled_by_api = true;
  if (const auto* failed = std::get_if<turn::Failed>(&ending.how)) {
    (submitting_ == call.index ? rejected_ : failed_) += 1;
    justify(call, *failed);
    const ErrorCode code = failed->error.code;
    if (call.started && code == ErrorCode::engine_crashed) one_death(crashes_[call.fingerprint], clock_.now());
    if (call.started && (code == ErrorCode::engine_crashed || code == ErrorCode::engine_stalled || code == ErrorCode::engine_silent || code == ErrorCode::engine_error)) {
      one_death(suspicions_[call.fingerprint], clock_.now());
    }
  } else if (const auto* finished = std::get_if<turn::Finished>(&ending.how)) {
    ++served_;
    may_reset_ = must_reset_ = true;
    justify(call, *finished);
  } else {
    ++cancelled_;
    justify(call, std::get<turn::Cancelled>(ending.how));
  }
  // An answer that is whole leaves the engine to say DONE; everybody else's engine is told to stop.
  if (call.started && (!std::holds_alternative<turn::Finished>(ending.how) || call.verdict_given)) cancel_due(call.index);
}

void Oracle::justify(const Call& call, const turn::Failed& failed) const {
  const auto lease = std::find_if(leases_.begin(), leases_.end(), [&](const auto& entry) { return entry.second.index == call.index; });
  const bool leased = lease != leases_.end();
  bool just = true;
  switch (failed.error.code) {
    case ErrorCode::engine_not_ready:
      just = state_ == ChildState::starting && !call.started &&
             (by_the_clock(progress_) >= child_limits_.ready || by_the_clock(state_since_) >= child_limits_.load_max);
      break;
    case ErrorCode::engine_start_failed: just = !call.started && (state_ == ChildState::starting || state_ == ChildState::stopping); break;
    case ErrorCode::engine_stalled:
    case ErrorCode::engine_silent: just = leased && state_ == ChildState::ready; break;
    case ErrorCode::engine_crashed: just = leased && state_ == ChildState::ready && (exit_told_ || output_closed_); break;
    case ErrorCode::engine_error:
      just = call.done == "cancel" || (leased && lease->second.error) ||
             (leased && lease->second.accounts_without >= 3 && by_the_clock(lease->second.last_sign) >= std::chrono::seconds(5));  // T14
      break;
    case ErrorCode::engine_crash_loop: just = failures_ >= 2 && (state_ == ChildState::backoff || state_ == ChildState::stopping); break;
    case ErrorCode::engine_unloaded: just = !call.started && (unloading_ || unload_pending_ || unload_since_.at == clock_.now() || call.vocabulary != vocabulary_); break;
    case ErrorCode::shutting_down: just = closed_.has_value(); break;
    case ErrorCode::queue_full: just = submitting_ == call.index && desk_limits_.queue_limit != 0 && queued_at_submit_ >= desk_limits_.queue_limit; break;
    case ErrorCode::vision_unavailable:
    case ErrorCode::image_invalid: just = call.encoding; break;
    case ErrorCode::queue_timeout: {
      just = call.encoding ||  // the vision child's judge knows (vision_oracle.cpp)
             (!call.started && call.queued && clock_.now() - call.queued->since.at + milliseconds(200) >= call.queued->least);
      break;
    }
    case ErrorCode::context_length_exceeded: just = call.prompt >= 4096; break;
    case ErrorCode::invalid_request: just = call.logprobs; break;
    case ErrorCode::request_crashes_engine: {
      const auto found = suspicions_.find(call.fingerprint);
      just = submitting_ == call.index && found != suspicions_.end() &&
             std::count_if(found->second.begin(), found->second.end(), [&](TimePoint at) { return clock_.now() - at < desk_limits_.crash_memory; }) >= 2;
      break;
    }
    case ErrorCode::internal_error: just = call.threw; break;
    default: just = false;
  }
  if (!just && call.endings == 1) violation_(name(call) + " ends as " + std::string(turn::kind_of(failed.error.code).code) + ", which nothing explains: " + failed.error.message);
}

void Oracle::justify(const Call& call, const turn::Finished&) const {
  const bool whole = call.end_token_came || call.verdict_given || call.tokens >= call.allowed || (!call.done.empty() && call.done != "cancel");
  if (!whole) violation_(name(call) + " ends as finished after " + std::to_string(call.tokens) + " tokens, and nobody said so");
  if (!call.started) violation_(name(call) + " ends as finished and was never started");
}

void Oracle::justify(const Call& call, const turn::Cancelled& cancelled) const {
  const bool just = cancelled.by == turn::CancelledBy::client_left ? call.left : cancelled.by == turn::CancelledBy::api ? call.cancelled_by_api : call.blocked;
  if (!just) violation_(name(call) + " ends as cancelled, and nobody had asked for that");
}

// ---- after every step

void Oracle::check(const turn::Snapshot& view, const supervise::Child& child, bool bounded_engine, bool bounded_desk) {
  check_failures(child);
  check_leases(view);
  check_status(view);
  check_waiting(view, child);
  if (view.loading > 0 && !bounded_engine) fail("a request waits for a load that nobody bounds");
  if (view.running > 0 && !bounded_engine && !bounded_desk) fail("a request runs without a timer");
  if (view.queued > 0 && !bounded_desk && desk_limits_.queue_wait > Duration::zero()) fail("a request is queued without a timer");
  if (!settled()) return;
  check_limits(child);
  check_liveness();
}

void Oracle::check_status(const turn::Snapshot& view) {
  if (view.served != served_ || view.failed != failed_ || view.cancelled != cancelled_ || view.rejected != rejected_) fail("the totals do not add up");
  if (static_cast<int64_t>(view.active.size()) != view.running + view.queued + view.loading + view.encoding) fail("the status lists other requests than it counts");
  int64_t open = 0, queued = 0, loading = 0, encoding = 0;
  for (const auto& one : view.active) {
    const auto index = static_cast<size_t>(std::atoll(one.id.c_str() + 1));
    Call& call = *calls_.at(index);
    const bool over = one.phase == turn::Phase::stopping;
    if (over == call.open()) fail("the status shows " + name(call) + " in a phase that it is not in");
    if (over) continue;
    ++open;
    if (one.phase == turn::Phase::queued) {
      ++queued;
      if (!call.queued) call.queued = Call::Queued{mark(), desk_limits_.queue_wait, desk_limits_.queue_wait};
    } else {
      call.queued.reset();
    }
    if (one.phase == turn::Phase::loading) ++loading;
    if (one.phase == turn::Phase::encoding) ++encoding;
    if ((one.phase == turn::Phase::encoding) != call.encoding) fail("the status shows " + name(call) + " in a phase that it is not in");
    const bool waits = one.phase == turn::Phase::encoding || one.phase == turn::Phase::queued || one.phase == turn::Phase::loading;
    if (waits == call.started) fail("the status shows " + name(call) + " in a phase that it is not in");
    if (call.started && (one.phase == turn::Phase::decoding) != (call.tokens > 0)) fail("the status takes prefill for decoding in " + name(call));
    if (one.generated != call.tokens) fail("the status counts other tokens than " + name(call) + " was shown");
  }
  if (queued != view.queued || loading != view.loading || encoding != view.encoding) fail("the status counts other phases than it shows");
  const auto really = std::count_if(calls_.begin(), calls_.end(), [](const auto& call) { return call->open(); });
  if (open != really) fail("the status shows " + std::to_string(open) + " open requests of " + std::to_string(really));
}

void Oracle::check_waiting(const turn::Snapshot& view, const supervise::Child& child) {
  const ChildState state = child.state();
  if (view.queued > 0 && state != ChildState::ready) fail("a request is queued although no engine is ready");
  if (view.queued > 0 && view.running == 0) fail("a request is queued although nothing runs");
  if (view.loading > 0 && state != ChildState::starting && state != ChildState::stopping) {
    fail("a request waits for a load while the engine is " + std::string(supervise::to_string(state)));
  }
  if (unload_pending_ && view.queued + view.loading > 0) fail("a request waits although the engine is being unloaded");
  if (closed_ && view.queued + view.loading + view.encoding > 0) fail("a request waits although the daemon shuts down");
  if (!settled()) return;
  for (const auto& call : calls_) {
    if (call->waiting() && call->queued && lived(call->queued->since) > call->queued->most) return fail(name(*call) + " waits longer than queue.wait_s");
  }
}

void Oracle::check_end(const turn::Snapshot& view) {
  for (const auto& call : calls_) {
    if (call->endings != 1) fail(name(*call) + " has " + std::to_string(call->endings) + " endings");
  }
  if (view.running + view.queued + view.loading + view.encoding != 0 || !view.active.empty()) fail("the desk did not drain");
}

}  // namespace vigil::sim
