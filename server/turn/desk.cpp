// Admission, leases and endings. Every change of a request goes through set_phase() or end(), so that counts, queue and status agree.
#include "server/turn/desk_parts.hpp"

#include <algorithm>
#include <cassert>
#include <exception>
#include <limits>

namespace vigil::turn {

std::string context_message(const std::string& prompt, int64_t context) {
  return "the prompt has " + prompt + " tokens, and the context holds " + std::to_string(context) +
         " (engine.context) of which at least one is needed for the answer; shorten the prompt";
}

namespace {

bool is_waiting(Phase phase) { return phase == Phase::queued || phase == Phase::loading; }

RequestError crash_loop(const EngineView& engine) {
  return {ErrorCode::engine_crash_loop,
          "the engine failed several times in a row and is not started again before its back-off is over "
          "(engine.backoff_first_ms, engine.backoff_max_s); last reason: " + engine.reason,
          "", std::max(1.0, engine.retry_in_s)};
}

RequestError unloaded() { return {ErrorCode::engine_unloaded, "the engine is being unloaded (/v1/unload)", "", 1}; }

RequestError model_changed() { return {ErrorCode::engine_unloaded, "the model was changed while the request waited; send it again", "", 1}; }

}  // namespace

Desk::Desk(DeskLimits limits, TurnPort& port, DeskObserver observer) : limits_(limits), port_(port), observer_(std::move(observer)) {}
Desk::~Desk() = default;

// ---- clients

RequestKey Desk::submit(Request request, std::unique_ptr<ReplySink> sink, TimePoint now) {
  const RequestKey key = next_key_++;
  if (auto error = refused(request, now)) {
    reject(request, std::move(sink), std::move(*error));
    return key;
  }
  auto open = std::make_unique<Open>();
  open->key = key;
  open->admitted = open->waiting_since = now;
  open->request = std::move(request);
  open->sink = std::move(sink);
  Open& accepted = *open;
  open_.emplace(key, std::move(open));
  if (cancels_.take(accepted.request.id, limits_.cancel_memory, now)) {
    Ending ending;
    ending.how = Cancelled{CancelledBy::api};
    end(key, std::move(ending), now);
  } else if (!accepted.request.pictures.empty()) {
    set_phase(accepted, Phase::encoding, now);
    report_gauges();
    encoder_->encode(key, accepted.request.pictures);
  } else {
    enqueue(accepted, now);
  }
  return key;
}

void Desk::enqueue(Open& open, TimePoint now) {
  std::optional<RequestError> error;
  if (engine_.phase == EnginePhase::backoff) error = crash_loop(engine_);
  if (unloading_) error = unloaded();
  if (error) {
    Ending ending;
    ending.how = Failed{std::move(*error)};
    return end(open.key, std::move(ending), now);
  }
  queue_.push(open.request.client, open.key);
  set_phase(open, engine_.phase == EnginePhase::ready ? Phase::queued : Phase::loading, now);
  if (engine_.phase == EnginePhase::unloaded || engine_.phase == EnginePhase::failed) port_.need_engine();
  pump(now);
  report_gauges();
}

std::optional<RequestError> Desk::refused(const Request& request, TimePoint now) const {
  if (closed_) return RequestError{ErrorCode::shutting_down, "the server is shutting down", "", 5};
  if (engine_.phase == EnginePhase::backoff) return crash_loop(engine_);
  if (unloading_) return unloaded();
  if (crashes_.refuses(request.fingerprint, limits_.crashes_refused, limits_.crash_memory, now)) {
    return RequestError{ErrorCode::request_crashes_engine,
                        "the engine died " + std::to_string(limits_.crashes_refused) +
                            " times while it worked on this very request; it is refused for some minutes",
                        "", 1};
  }
  if (!request.pictures.empty()) {
    if (!encoder_) return RequestError{ErrorCode::image_invalid, "this server takes no pictures (vision.mmproj)", request.pictures.front().part, 1};
    // Those whose pictures are being encoded will be queued next. A text is not refused for them: pictures hold up no text.
    if (limits_.queue_limit != 0 && encoding_ + queued_.size() >= limits_.queue_limit) {
      return RequestError{ErrorCode::queue_full,
                          std::to_string(queued_.size()) + " requests are waiting already and " + std::to_string(encoding_) +
                              " for their pictures to be encoded, and queue.limit is " + std::to_string(limits_.queue_limit) + "; try again later",
                          "", 1};
    }
  }
  if (engine_.phase != EnginePhase::ready) return std::nullopt;
  if (auto error = unfit(request)) return error;
  const bool starts_at_once = engine_free() && queue_.empty();
  if (!starts_at_once && limits_.queue_limit != 0 && queued_.size() >= limits_.queue_limit) {
    return RequestError{ErrorCode::queue_full,
                        std::to_string(queued_.size()) + " requests are waiting already, and queue.limit is " +
                            std::to_string(limits_.queue_limit) + "; try again later",
                        "", 1};
  }
  return std::nullopt;
}

std::optional<RequestError> Desk::unfit(const Request& request) const {
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  if (engine_.context > 0 && prompt >= engine_.context + (request.embed ? 1 : 0)) {
    return RequestError{ErrorCode::context_length_exceeded, context_message(std::to_string(prompt), engine_.context), "", 1};
  }
  if (request.embed && !engine_.can_embed) {
    return RequestError{ErrorCode::invalid_request, "this engine gives no embeddings (its READY does not carry the word embeddings)", "model", 1};
  }
  if (request.vocabulary != engine_.vocabulary) {
    return model_changed();
  }
  if (!request.sampling.grammar.empty() && !engine_.can_grammar) {
    return RequestError{ErrorCode::invalid_request,
                        request.grammar_field + " needs an engine that takes grammars (its READY does not carry the word grammar); leave it out",
                        request.grammar_field, 1};
  }
  if (request.sampling.logprobs && !engine_.can_logprobs) {
    return RequestError{ErrorCode::invalid_request, "this engine does not give log probabilities; leave `logprobs` out", "logprobs", 1};
  }
  return std::nullopt;
}

void Desk::reject(Request& request, std::unique_ptr<ReplySink> sink, RequestError error) {
  ++rejected_;
  Ending ending;
  ending.how = Failed{std::move(error)};
  ending.usage.prompt = static_cast<int64_t>(request.prompt.size());
  if (observer_.ended) observer_.ended(request, ending, true);
  sink->on_end(ending);
}

void Desk::leave(RequestKey key, TimePoint now) {
  Open* open = find(key);
  if (!open) return;
  Ending ending;
  ending.how = Cancelled{CancelledBy::client_left};
  end(key, std::move(ending), now);
  pump(now);
}

bool Desk::cancel(const std::string& request_id, TimePoint now) {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const auto& entry) { return entry.second->request.id == request_id; });
  if (found == open_.end()) {
    cancels_.cancelled_unseen(request_id, now);
    return false;
  }
  Ending ending;
  ending.how = Cancelled{CancelledBy::api};
  end(found->first, std::move(ending), now);
  pump(now);
  return true;
}

void Desk::reader_blocked(RequestKey key, TimePoint now) {
  Open* open = find(key);
  if (!open || open->lease == 0 || paused_for_ == key) return;
  if (leases_.size() == 1) {
    // Alone: holding the engine back costs nobody else anything.
    paused_for_ = key;
    paused_until_ = now + limits_.slow_reader_wait;
    port_.pause_output(true);
    report_gauges();  // deadline() is new
    return;
  }
  Ending ending;
  ending.how = Cancelled{CancelledBy::slow_reader};
  end(key, std::move(ending), now);
  pump(now);
}

void Desk::reader_ready(RequestKey key, TimePoint) {
  if (paused_for_ == key) unpause();
}

void Desk::unpause() {
  if (paused_for_ == 0) return;
  paused_for_ = 0;
  port_.pause_output(false);
}

// ---- the engine

void Desk::engine_changed(const EngineView& view, TimePoint now) {
  const bool other_model = view.vocabulary != engine_.vocabulary;
  engine_ = view;
  if (view.phase != EnginePhase::ready) unloading_ = false;
  if (view.phase == EnginePhase::backoff) {
    const RequestError error = crash_loop(view);
    end_waiting(Phase::loading, error, now);
    end_waiting(Phase::queued, error, now);
    return;
  }
  if (other_model) end_strangers(now);
  const Phase waiting = view.phase == EnginePhase::ready ? Phase::queued : Phase::loading;
  for (auto& [key, open] : open_) {
    if (is_waiting(open->phase) && open->phase != waiting) set_phase(*open, waiting, now);
  }
  if ((view.phase == EnginePhase::unloaded || view.phase == EnginePhase::failed) && !queue_.empty()) port_.need_engine();
  pump(now);
  report_gauges();
}

// Requests whose ids are another model's: they can never run.
void Desk::end_strangers(TimePoint now) {
  std::vector<RequestKey> keys;
  for (const auto& [key, open] : open_) {
    if (is_waiting(open->phase) && open->request.vocabulary != engine_.vocabulary) keys.push_back(key);
  }
  for (const RequestKey key : keys) {
    Ending ending;
    ending.how = Failed{model_changed()};
    end(key, std::move(ending), now);
  }
}

void Desk::load_failed(const RequestError& error, TimePoint now) { end_waiting(Phase::loading, error, now); }

void Desk::end_waiting(Phase phase, const RequestError& error, TimePoint now) {
  std::vector<RequestKey> keys;
  for (const auto& [key, open] : open_) {
    if (open->phase == phase) keys.push_back(key);
  }
  for (const RequestKey key : keys) {
    Ending ending;
    ending.how = Failed{error};
    end(key, std::move(ending), now);
  }
}

void Desk::begin_unload(TimePoint now) {
  unloading_ = engine_.phase == EnginePhase::ready;
  end_waiting(Phase::loading, unloaded(), now);
  end_waiting(Phase::queued, unloaded(), now);
}

// ---- turns

bool Desk::engine_free() const {
  if (engine_.phase != EnginePhase::ready) return false;
  const size_t room = engine_.tagged ? static_cast<size_t>(std::max(1, engine_.slots)) : 1;
  if (leases_.size() >= room) return false;
  return std::none_of(leases_.begin(), leases_.end(), [](const auto& entry) { return entry.second->error_pending; });
}

void Desk::pump(TimePoint now) {
  while (engine_free()) {
    const auto key = queue_.pop();
    if (!key) return;
    Open& open = *find(*key);
    if (auto error = unfit(open.request)) {
      Ending ending;
      ending.how = Failed{std::move(*error)};
      end(*key, std::move(ending), now);
      continue;
    }
    start(open, now);
  }
}

void Desk::end_thinking(Open& open) const {
  const auto& end = open.request.thinking_end;
  if (!end || !engine_.can_grammar) return;
  int64_t most = open.max_new - std::min(end->reserve, open.max_new / 2);
  if (end->most > 0) most = std::min(most, end->most);
  open.request.sampling.force_at = protocol::ForceAt{most, end->ids, end->unless};
}

void Desk::start(Open& open, TimePoint now) {
  if (paused_for_ != 0) {
    // A second request starts: nobody may hold the pipe any more.
    const RequestKey slow = paused_for_;
    Ending ending;
    ending.how = Cancelled{CancelledBy::slow_reader};
    end(slow, std::move(ending), now);
  }
  auto lease = std::make_unique<Lease>();
  lease->id = next_lease_++;
  lease->generation = engine_.generation;
  lease->key = open.key;
  lease->tagged = engine_.tagged;
  lease->request_id = open.request.id;
  lease->fingerprint = open.request.fingerprint;
  lease->stream = open.request.stream;
  lease->prompt_tokens = static_cast<int64_t>(open.request.prompt.size());
  lease->embeddings = open.request.embeddings;
  lease->admitted = open.admitted;
  open.lease = lease->id;
  open.started = now;
  open.usage.prompt = lease->prompt_tokens;
  const int64_t room = engine_.context > 0 ? engine_.context - lease->prompt_tokens : std::numeric_limits<int64_t>::max();
  open.max_new = open.request.max_new > 0 ? std::min(open.request.max_new, room) : room;
  end_thinking(open);
  set_phase(open, Phase::prefill, now);
  const LeaseId id = lease->id;
  leases_.emplace(id, std::move(lease));
  port_.start(id, open.request, open.max_new);
  open.sink->on_started(open.request.prompt);
}

void Desk::set_phase(Open& open, Phase phase, TimePoint now) {
  forget_phase(open);
  open.phase = phase;
  if (phase == Phase::loading) ++loading_;
  if (phase == Phase::encoding) ++encoding_;
  if (phase == Phase::queued) {
    open.waiting_since = now;
    queued_.insert({now, open.key});
  }
}

void Desk::forget_phase(const Open& open) {
  if (open.phase == Phase::loading) --loading_;
  if (open.phase == Phase::encoding) --encoding_;
  if (open.phase == Phase::queued) queued_.erase({open.waiting_since, open.key});
}

void Desk::end(RequestKey key, Ending ending, TimePoint now) {
  const auto found = open_.find(key);
  assert(found != open_.end());
  const std::unique_ptr<Open> open = std::move(found->second);
  open_.erase(found);
  forget_phase(*open);
  if (open->phase == Phase::encoding && encoder_) encoder_->abandon(key);
  queue_.remove(key);
  cancels_.ended(open->request.id);
  if (paused_for_ == key) unpause();
  if (open->usage.prompt == 0) open->usage.prompt = static_cast<int64_t>(open->request.prompt.size());
  const bool started = open->started != TimePoint{};
  ending.usage = open->usage;
  ending.total_s = seconds(now - open->admitted);
  ending.queued_s = seconds((started ? open->started : now) - open->admitted);
  if (open->usage.generated > 0) ending.first_token_s = seconds(open->first_token - open->admitted);
  if (std::holds_alternative<Finished>(ending.how)) ++served_;
  if (std::holds_alternative<Failed>(ending.how)) ++failed_;
  if (std::holds_alternative<Cancelled>(ending.how)) ++cancelled_;
  if (const auto lease = leases_.find(open->lease); lease != leases_.end()) {
    lease->second->key = 0;
    if (std::holds_alternative<Finished>(ending.how)) {
      port_.answered(lease->first);
    } else {
      stop(*lease->second);
    }
  }
  if (observer_.ended) observer_.ended(open->request, ending, false);
  const auto sink = std::move(open->sink);
  sink->on_end(ending);
  report_gauges();
}

// ---- time and the end

std::optional<TimePoint> Desk::deadline() const {
  std::optional<TimePoint> first;
  const auto consider = [&](TimePoint at) { first = first ? std::min(*first, at) : at; };
  if (limits_.queue_wait > Duration::zero() && !queued_.empty()) consider(queued_.begin()->first + limits_.queue_wait);
  if (paused_for_ != 0) consider(paused_until_);
  if (limits_.queue_warn > Duration::zero()) {
    for (const auto& [id, lease] : leases_) {
      const auto open = open_.find(lease->key);
      if (open != open_.end() && !open->second->warned) consider(open->second->started + limits_.queue_warn);
    }
  }
  return first;
}

void Desk::tick(TimePoint now) {
  while (limits_.queue_wait > Duration::zero() && !queued_.empty() && queued_.begin()->first + limits_.queue_wait <= now) {
    Ending ending;
    ending.how = Failed{{ErrorCode::queue_timeout,
                         "the request waited for its turn longer than queue.wait_s allows (" +
                             std::to_string(static_cast<int64_t>(seconds(limits_.queue_wait))) + " s)", "", 5}};
    end(queued_.begin()->second, std::move(ending), now);
  }
  if (paused_for_ != 0 && paused_until_ <= now) {
    Ending ending;
    ending.how = Cancelled{CancelledBy::slow_reader};
    end(paused_for_, std::move(ending), now);
  }
  if (limits_.queue_warn > Duration::zero()) {
    for (const auto& [id, lease] : leases_) {
      Open* open = find(lease->key);
      if (!open || open->warned || open->started + limits_.queue_warn > now) continue;
      open->warned = true;
      log("request " + open->request.id + " has been running for longer than queue.warn_s: prompt " +
          std::to_string(open->usage.prompt) + " tokens, read " + std::to_string(open->prefilled) + ", generated " +
          std::to_string(open->usage.generated) + ", engine generation " + std::to_string(lease->generation));
    }
  }
  pump(now);
}

void Desk::close(TimePoint now) {
  closed_ = true;
  const RequestError error{ErrorCode::shutting_down, "the server is shutting down", "", 5};
  end_waiting(Phase::encoding, error, now);
  end_waiting(Phase::loading, error, now);
  end_waiting(Phase::queued, error, now);
}

void Desk::end_running(const RequestError& error, TimePoint now) {
  std::vector<RequestKey> keys;
  for (const auto& [key, open] : open_) {
    if (open->lease != 0) keys.push_back(key);
  }
  for (const RequestKey key : keys) {
    Ending ending;
    ending.how = Failed{error};
    end(key, std::move(ending), now);
  }
}

bool Desk::idle() const { return open_.empty() && leases_.empty(); }

Snapshot Desk::snapshot(TimePoint now) const {
  Snapshot view;
  view.running = static_cast<int64_t>(leases_.size());
  view.queued = static_cast<int64_t>(queued_.size());
  view.loading = static_cast<int64_t>(loading_);
  view.encoding = static_cast<int64_t>(encoding_);
  view.limit = static_cast<int64_t>(limits_.queue_limit);
  view.served = served_;
  view.failed = failed_;
  view.cancelled = cancelled_;
  view.rejected = rejected_;
  for (const auto& [id, lease] : leases_) {
    if (open_.count(lease->key) != 0) continue;
    view.active.push_back({lease->request_id, Phase::stopping, seconds(now - lease->admitted), lease->stream, lease->prompt_tokens,
                           lease->prefilled, lease->tokens});
  }
  for (const auto& [key, open] : open_) {
    view.active.push_back({open->request.id, open->phase, seconds(now - open->admitted), open->request.stream,
                           static_cast<int64_t>(open->request.prompt.size()), open->prefilled, open->usage.generated});
  }
  return view;
}

Desk::Open* Desk::find(RequestKey key) {
  const auto found = open_.find(key);
  return found == open_.end() ? nullptr : found->second.get();
}

void Desk::report_gauges() const {
  if (observer_.gauges) observer_.gauges(static_cast<int64_t>(leases_.size()), static_cast<int64_t>(queued_.size()));
}

void Desk::log(const std::string& line) const {
  if (observer_.log) observer_.log(line);
}

}  // namespace vigil::turn
