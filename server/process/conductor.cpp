// The glue between the child machine and the desk; see conductor.hpp.
#include "server/process/conductor.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace vigil::process {

namespace event = supervise::event;
namespace effect = supervise::effect;
using supervise::ChildState;
using supervise::Trouble;
using turn::ErrorCode;

namespace {

ErrorCode code_of(Trouble why) {
  switch (why) {
    case Trouble::not_ready: return ErrorCode::engine_not_ready;
    case Trouble::start_failed: return ErrorCode::engine_start_failed;
    case Trouble::stalled:
    case Trouble::cancel_unanswered: return ErrorCode::engine_stalled;
    case Trouble::silent: return ErrorCode::engine_silent;
    case Trouble::crashed: return ErrorCode::engine_crashed;
    case Trouble::unloaded: return ErrorCode::engine_unloaded;
    case Trouble::shutting_down: return ErrorCode::shutting_down;
    case Trouble::crash_loop: return ErrorCode::engine_crash_loop;
  }
  return ErrorCode::internal_error;
}

std::string message_of(Trouble why, const std::string& text) {
  switch (why) {
    case Trouble::not_ready:
    case Trouble::start_failed: return "the engine " + text;
    case Trouble::stalled: return "the engine stalled: " + text;
    case Trouble::silent: return "the engine was silent: " + text;
    case Trouble::crashed: return "the engine died during the request: " + text;
    case Trouble::unloaded: return "the engine is not loaded: " + text;
    case Trouble::cancel_unanswered:
    case Trouble::shutting_down:
    case Trouble::crash_loop: return text;
  }
  return text;
}

turn::EnginePhase phase_of(ChildState state) {
  switch (state) {
    case ChildState::unloaded: return turn::EnginePhase::unloaded;
    case ChildState::starting: return turn::EnginePhase::starting;
    case ChildState::ready: return turn::EnginePhase::ready;
    case ChildState::stopping: return turn::EnginePhase::stopping;
    case ChildState::backoff: return turn::EnginePhase::backoff;
    case ChildState::failed: return turn::EnginePhase::failed;
  }
  return turn::EnginePhase::failed;
}

}  // namespace

Conductor::Conductor(supervise::ChildLimits limits, Hands& hands) : ChildMind(std::move(limits), hands) {}

// ---- what the machine decided

void Conductor::settle() {
  if (unload_wanted_) {
    if (!leases_.empty()) return;
    unload_wanted_ = false;
    give(event::Stop{Trouble::unloaded, false});
  } else if (!loads_after_unload_.empty()) {
    // Only now, so that the end of what went before is not theirs.
    load_waiters_ = std::exchange(loads_after_unload_, {});
    give(event::Start{true});
  } else if (!load_waiters_.empty()) {
    settle_loads();
  }
}

void Conductor::settle_loads() {
  switch (child_.state()) {
    case ChildState::ready:
      tell_load_waiters(std::nullopt);
      break;
    case ChildState::starting:
    case ChildState::stopping:
      break;  // its end tells them, or leads to the next case
    case ChildState::unloaded:
    case ChildState::failed:
    case ChildState::backoff:
      give(event::Start{true});  // it died just as it was asked for
      break;
  }
}

void Conductor::before_spawn() {
  leases_.clear();
  errors_.clear();
  fatal_.clear();
  tell_unload_waiters();  // the process before is gone, although a new one follows at once
}

void Conductor::state_settled() {
  if (child_.state() == ChildState::unloaded) tell_unload_waiters();
}

void Conductor::load_failed(const effect::LoadFailed& failed) {
  const auto error = error_for(failed.why, failure_text(failed));
  desk_->load_failed(error, hands_.now());
  tell_load_waiters(error);
}

void Conductor::forgotten(const effect::LeaseForgotten& what) {
  desk_->lease_forgotten(what.lease, "generation " + std::to_string(child_.generation()) + ": " + what.evidence, hands_.now());
}

void Conductor::tell_desk() {
  turn::EngineView view;
  view.phase = phase_of(child_.state());
  view.generation = child_.generation();
  view.vocabulary = hands_.vocabulary();
  if (const auto& ready = child_.ready()) {
    view.context = ready->context;
    view.tagged = ready->ids;
    view.slots = ready->ids ? ready->slots : 1;
    view.can_stop = ready->stop;
    view.can_logprobs = ready->logprobs;
    view.can_grammar = ready->grammar;
    view.can_embed = ready->embeddings;
  }
  view.reason = child_.reason();
  view.retry_in_s = seconds(child_.retry_in(hands_.now()));
  desk_->engine_changed(view, hands_.now());
}

void Conductor::lost(const effect::Lost& lost) {
  turn::EngineLoss loss;
  loss.error = error_for(lost.why, lost.text);
  if (!lost.culprits.empty()) {
    loss.error = error_for(lost.others_why, lost.others_text);
    for (const auto lease : lost.culprits) loss.particular.emplace_back(lease, error_for(lost.why, lost.text));
  }
  leases_.clear();
  errors_.clear();
  desk_->engine_lost(child_.generation(), loss, hands_.now());
}

turn::RequestError Conductor::error_for(Trouble why, const std::string& text) const {
  turn::RequestError error{code_of(why), message_of(why, text), "", 1};
  if (why == Trouble::not_ready || why == Trouble::shutting_down) error.retry_after_s = 5;
  return error;
}

// ---- orders

void Conductor::load(bool by_hand) {
  give(event::Start{by_hand});
  run();
}

void Conductor::load_and_tell(LoadDone done) {
  if (unload_wanted_) {
    loads_after_unload_.push_back(std::move(done));
  } else {
    load_waiters_.push_back(std::move(done));
    give(event::Start{true});
  }
  hands_.run_soon();  // the answer comes from the loop, also when the engine is ready already
}

void Conductor::tell_load_waiters(const std::optional<turn::RequestError>& error) {
  const auto waiters = std::exchange(load_waiters_, {});
  for (const auto& done : waiters) done(error);
}

void Conductor::tell_unload_waiters() {
  const auto waiters = std::exchange(unload_waiters_, {});
  for (const auto& done : waiters) done();
}

void Conductor::unload_when_idle(std::function<void()> done) {
  run();  // what was asked for before comes before it
  const auto overtaken = std::exchange(loads_after_unload_, {});
  unload_waiters_.push_back(std::move(done));
  const bool running = child_.state() == ChildState::ready && !leases_.empty();
  desk_->begin_unload(hands_.now());
  if (running) {
    unload_wanted_ = true;
  } else {
    give(event::Stop{Trouble::unloaded, false});
  }
  run();
  for (const auto& load : overtaken) load(error_for(Trouble::unloaded, "it was unloaded again"));
}

void Conductor::unload(Trouble why, bool at_once) {
  run();
  unload_wanted_ = false;
  const auto overtaken = std::exchange(loads_after_unload_, {});
  give(event::Stop{why, at_once});
  run();
  for (const auto& load : overtaken) load(error_for(why, why == Trouble::shutting_down ? "the server is shutting down" : "it was unloaded again"));
}

void Conductor::set_limits(const supervise::ChildLimits& limits) {
  give(event::Limits{limits});
  run();
}

void Conductor::settings_changed() { tell_desk(); }

// ---- happenings

void Conductor::stdout_line(std::string_view text, bool overlong) {
  auto line = overlong ? Result<protocol::EngineLine>(Error{"a line over " + std::to_string(protocol::max_line_from_child_bytes) + " bytes"})
                       : protocol::parse_engine_line(text);
  if (!line) {
    // The first ones tell what is wrong; a flood is counted.
    if (std::has_single_bit(++bad_lines_)) hands_.log("bad line (" + std::to_string(bad_lines_) + " so far): " + line.error());
    give(event::BadLine{line.error()});
    run();
    return;
  }
  const auto lease = lease_of(*line);
  if (lease && nothing_pending() && std::holds_alternative<protocol::Token>(line->event)) return token_of(*lease, line->event);
  give(event::Line{lease, line->event});
  run();
  const bool loading = child_.state() == ChildState::starting;
  if (lease && leases_.count(*lease) != 0) {
    line_of(*lease, line->event);
    run();
  } else if (const auto* fatal = std::get_if<protocol::Fatal>(&line->event)) {
    fatal_ = fatal->why;
    const auto open = leases_;
    for (const auto id : open) line_of(id, line->event);
    run();
  } else if (const auto* error = std::get_if<protocol::EngineError>(&line->event); error && !loading) {
    fatal_ = error->text;
    stray(text);
  } else if (!std::holds_alternative<protocol::Info>(line->event) && !std::holds_alternative<protocol::Beat>(line->event) &&
             !std::holds_alternative<protocol::Ready>(line->event)) {
    stray(text);
  }
}

std::optional<turn::LeaseId> Conductor::lease_of(const protocol::EngineLine& line) const {
  const auto& ready = child_.ready();
  if (!ready) return std::nullopt;
  if (line.request) {
    if (!ready->ids || leases_.count(*line.request) == 0) return std::nullopt;
    return *line.request;
  }
  const bool about_the_process = std::holds_alternative<protocol::Info>(line.event) || std::holds_alternative<protocol::Ready>(line.event) ||
                                 std::holds_alternative<protocol::Beat>(line.event) || std::holds_alternative<protocol::Fatal>(line.event);
  if (about_the_process || leases_.size() != 1) return std::nullopt;
  // An engine that tags its lines may still have said ERR without one: with a single open request it can only be that one's.
  if (ready->ids && !std::holds_alternative<protocol::EngineError>(line.event)) return std::nullopt;
  return *leases_.begin();
}

// Nearly every line: told to both without the queue, since a token never has an effect on the machine's state.
void Conductor::token_of(turn::LeaseId lease, const protocol::EngineEvent& token) {
  const TimePoint now = hands_.now();
  child_.token(lease, token, now);
  desk_->on_line(lease, token, now);
  if (!nothing_pending()) run();
}

void Conductor::line_of(turn::LeaseId lease, const protocol::EngineEvent& what) {
  if (std::holds_alternative<protocol::EngineError>(what) || std::holds_alternative<protocol::Fatal>(what)) {
    errors_.try_emplace(lease, hands_.now() + error_awaits_exit);
  }
  desk_->on_line(lease, what, hands_.now());
}

void Conductor::stray(std::string_view line) {
  if (std::has_single_bit(++strays_)) {
    hands_.log("a line that belongs to no open request (" + std::to_string(strays_) + " so far): " + protocol::printable(line));
  }
}

std::optional<TimePoint> Conductor::deadline() const {
  auto first = child_.deadline();
  for (const auto& [lease, until] : errors_) first = first ? std::min(*first, until) : until;
  return first;
}

void Conductor::late(Duration by) {
  for (auto& [lease, until] : errors_) until += by;
  ChildMind::late(by);
}

void Conductor::due() {
  const TimePoint now = hands_.now();
  const auto errors = errors_;
  for (const auto& [lease, until] : errors) {
    if (until <= now) desk_->error_settled(lease, "", now);
  }
  run();
  judge_if_due();
}

// ---- turn::TurnPort: called from inside the desk

void Conductor::need_engine() {
  give(event::Start{false});
  hands_.run_soon();
}

void Conductor::start(turn::LeaseId lease, const turn::Request& request, int64_t max_new) {
  assert(child_.ready());
  std::optional<protocol::RequestTag> tag;
  if (child_.ready() && child_.ready()->ids) tag = lease;
  leases_.insert(lease);
  if (request.embed) {
    hands_.write(protocol::encode(protocol::EngineCommand{protocol::Embed{tag, *request.embed, request.prompt}}));
  } else {
    protocol::Generate generate;
    generate.max_new = max_new;
    generate.request = tag;
    generate.sampling = request.sampling;
    generate.ids = request.prompt;
    if (request.embeddings) {
      generate.embeddings_file = request.embeddings->path;
      generate.others.emplace_back("image", std::to_string(request.image_token));  // which id stands for rows: our own engine asks
    }
    hands_.write(protocol::encode(protocol::EngineCommand{std::move(generate)}));
  }
  give(event::LeaseOpened{lease});
  hands_.run_soon();
}

void Conductor::cancel(turn::LeaseId lease) {
  const auto& ready = child_.ready();
  if (leases_.count(lease) == 0 || !ready) return;
  if (ready->stop) {
    protocol::Stop stop;
    if (ready->ids) stop.request = lease;
    hands_.write(protocol::encode(protocol::EngineCommand{stop}));
  }
  give(event::LeaseCancelled{lease});
  hands_.run_soon();
}

void Conductor::answered(turn::LeaseId) {
  give(event::LeaseAnswered{});
  hands_.run_soon();
}

void Conductor::release(turn::LeaseId lease) {
  leases_.erase(lease);
  errors_.erase(lease);
  give(event::LeaseClosed{lease});
  hands_.run_soon();
}

void Conductor::pause_output(bool paused) {
  hands_.pause_reading(paused);
  give(event::Paused{paused});
  hands_.run_soon();
}

}  // namespace vigil::process
