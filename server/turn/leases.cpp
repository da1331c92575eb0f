// The desk's leases: what an engine says about one, and how each ends. Not here: who gets the next one (desk.cpp).
#include <algorithm>
#include <exception>
#include <set>
#include <utility>

#include "server/turn/desk_parts.hpp"

namespace vigil::turn {

void Desk::engine_lost(Generation generation, const EngineLoss& loss, TimePoint now) {
  unpause();
  std::vector<LeaseId> ids;
  std::set<uint64_t> suspects;
  for (const auto& [id, lease] : leases_) {
    if (lease->generation == generation) ids.push_back(id);
  }
  for (const LeaseId id : ids) {
    const auto lease = std::move(leases_.at(id));
    leases_.erase(id);
    RequestError error = loss.error;
    for (const auto& [named, reason] : loss.particular) {
      if (named == id) error = reason;
    }
    const bool its_fault = error.code == ErrorCode::engine_crashed ||
                           ((error.code == ErrorCode::engine_stalled || error.code == ErrorCode::engine_silent) && !lease->stop_sent &&
                            (loss.particular.empty() || error.message != loss.error.message));
    // Copies of a request that ran side by side have seen one death.
    if (its_fault && lease->key != 0 && suspects.insert(lease->fingerprint).second) crashes_.remember(lease->fingerprint, limits_.crash_memory, now);
    if (lease->error_pending) error = {ErrorCode::engine_error, lease->error + " (" + error.message + ")", "", error.retry_after_s};
    if (Open* open = find(lease->key)) {
      open->lease = 0;
      Ending ending;
      ending.how = Failed{std::move(error)};
      end(lease->key, std::move(ending), now);
    }
  }
  report_gauges();
}

void Desk::on_line(LeaseId id, const protocol::EngineEvent& event, TimePoint now) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return;  // a finished lease is inert
  Lease& lease = *found->second;
  if (lease.error_pending) return;     // ERR is terminal
  Open* open = find(lease.key);
  if (const auto* token = std::get_if<protocol::Token>(&event)) {
    on_token(lease, open, *token, now);
  } else if (const auto* part = std::get_if<protocol::VectorPart>(&event)) {
    if (!open || open->sink->on_vector(*part)) return;
    Ending ending;
    ending.how = Failed{{ErrorCode::engine_error, "the engine sent numbers of a vector that do not fit what was asked for or sent before", "", 1}};
    end(lease.key, std::move(ending), now);
  } else if (const auto* progress = std::get_if<protocol::PromptProgress>(&event)) {
    lease.prefilled = progress->read;
    if (open) {
      open->prefilled = progress->read;
      open->sink->on_prompt_progress(progress->read, progress->total);
    }
  } else if (const auto* resume = std::get_if<protocol::Resume>(&event)) {
    if (open) open->usage.cached = std::clamp<int64_t>(resume->tokens, 0, open->usage.prompt);
  } else if (const auto* done = std::get_if<protocol::Done>(&event)) {
    on_done(lease, *done, now);
  } else if (const auto* error = std::get_if<protocol::EngineError>(&event)) {
    lease.error = error->text.empty() ? "the engine reported an error without a text" : error->text;
    lease.error_pending = true;        // error_settled() follows, with the exit status when there is one
  } else if (const auto* fatal = std::get_if<protocol::Fatal>(&event)) {
    lease.error = fatal->why.empty() ? "the engine said FATAL without a reason" : fatal->why;
    lease.error_pending = true;
  }
}

void Desk::on_token(Lease& lease, Open* open, const protocol::Token& token, TimePoint now) {
  ++lease.tokens;
  if (!open) {
    stop(lease);  // the request has its answer (or its client left) and the engine goes on
    return;
  }
  const auto& ends = open->request.end_ids;
  if (std::find(ends.begin(), ends.end(), token.id) != ends.end()) {
    Ending ending;
    ending.how = Finished{Finish::stop};
    end(lease.key, std::move(ending), now);  // DONE is still to come; only an engine that goes on is sent STOP
    return;
  }
  if (open->usage.generated == 0) {
    open->first_token = now;
  } else if (observer_.inter_token) {
    observer_.inter_token(seconds(now - open->last_token));
  }
  open->last_token = now;
  open->phase = Phase::decoding;
  ++open->usage.generated;
  Verdict verdict = Verdict::more;
  try {
    verdict = open->sink->on_token(token);
  } catch (const std::exception& fault) {
    Ending ending;
    ending.how = Failed{{ErrorCode::internal_error, std::string("a token could not be delivered: ") + fault.what(), "", 1}};
    end(lease.key, std::move(ending), now);
    return;
  }
  if (verdict != Verdict::more) {
    Ending ending;
    ending.how = Finished{verdict == Verdict::stop ? Finish::stop : Finish::length};
    end(lease.key, std::move(ending), now);
    stop(lease);
  } else if (open->usage.generated >= open->max_new) {
    Ending ending;
    ending.how = Finished{Finish::length};
    end(lease.key, std::move(ending), now);
  }
}

void Desk::on_done(Lease& lease, const protocol::Done& done, TimePoint now) {
  if (!lease.tagged && done.generated > 0 && lease.tokens == 0) {
    log("a DONE for " + std::to_string(done.generated) + " tokens came for request " + lease.request_id +
        ", which has had none: taken for a stray and ignored");
    return;
  }
  if (find(lease.key)) {
    Ending ending;
    if (done.finish != "cancel") {
      ending.how = Finished{done.finish == "length" ? Finish::length : Finish::stop};
    } else {
      ending.how = Failed{{ErrorCode::engine_error, "the engine cancelled the request, which nobody had asked for", "", 1}};
    }
    const LeaseId id = lease.id;
    lease.stop_sent = true;  // closed by its own DONE: no STOP
    end(lease.key, std::move(ending), now);
    close_lease(id, now);
    return;
  }
  close_lease(lease.id, now);
}

void Desk::error_settled(LeaseId id, const std::string& detail, TimePoint now) {
  const auto found = leases_.find(id);
  if (found == leases_.end() || !found->second->error_pending) return;
  Lease& lease = *found->second;
  if (Open* open = find(lease.key)) {
    Ending ending;
    ending.how = Failed{{ErrorCode::engine_error, detail.empty() ? lease.error : lease.error + " (" + detail + ")", "", 1}};
    open->lease = 0;
    end(lease.key, std::move(ending), now);
  }
  close_lease(id, now);
}

void Desk::lease_forgotten(LeaseId id, const std::string& evidence, TimePoint now) {
  const auto found = leases_.find(id);
  if (found == leases_.end()) return;
  Lease& lease = *found->second;
  log("request " + lease.request_id + " is released: " + evidence);
  lease.stop_sent = true;  // there is nothing to stop
  if (find(lease.key)) {
    Ending ending;
    ending.how = Failed{{ErrorCode::engine_error, "the engine has lost the request: " + evidence, "", 1}};
    end(lease.key, std::move(ending), now);
  }
  close_lease(id, now);
}

void Desk::close_lease(LeaseId id, TimePoint now) {
  leases_.erase(id);
  port_.release(id);
  pump(now);
  report_gauges();
}

void Desk::stop(Lease& lease) {
  if (lease.stop_sent || lease.error_pending) return;
  lease.stop_sent = true;
  port_.cancel(lease.id);
}

}  // namespace vigil::turn
