// Order within a step: answers before prompts, older requests before younger. A request that finds no block takes them from the youngest.
#include "engine/schedule/scheduler.hpp"

#include <algorithm>
#include <exception>
#include <string>

namespace vigil::schedule {
namespace {

constexpr int64_t worth_waiting = 64;  // tokens that a younger request would have to read twice
// How long the draft model may read between two steps, of a step without prompts: nobody's tokens come much slower for it.
constexpr double draft_reading_share = 0.5;

}  // namespace

Scheduler::Scheduler(Runtime& runtime, RequestQueue& queue, double step_ms, Clock clock, Emit emit)
    : runtime_(runtime), queue_(queue), clock_(std::move(clock)), emit_(std::move(emit)), conversations_(runtime.make_conversations()),
      sizer_(step_ms, runtime.step_rows(), runtime.slots()) {
  if (runtime.draft() != nullptr) draft_.emplace(runtime, queue_, clock_);
}

void Scheduler::step() {
  end_stopped();
  admit();
  std::vector<Draft::Wish> wishes = let_draft_read();
  const TimePoint started = clock_();
  guess(std::move(wishes));
  plan();
  if (shares_.empty()) return;
  std::vector<Part> parts;
  std::vector<Number> members;
  int64_t generating = 0, prompt_tokens = 0;
  for (const Share& share : shares_) {
    parts.push_back(share.part);
    members.push_back(share.place->number);
    if (share.place->answer->reading()) prompt_tokens += static_cast<int64_t>(share.part.tokens.size());
    else ++generating;
    share.place->answer->announce([&](protocol::EngineEvent event) { emit_(share.place->answer->request().tag, std::move(event)); });
  }
  queue_.begin_step(members);
  const compute::RunOutcome outcome = runtime_.step(parts);
  const TimePoint now = clock_();
  queue_.end_step();
  if (outcome == compute::RunOutcome::aborted) return;  // all of it was stopped, or the queue closed: nothing has happened
  sizer_.finished(generating, prompt_tokens, seconds(now - started) * 1e3);
  for (size_t i = 0; i < shares_.size(); ++i) {
    shares_[i].part = parts[i];
    deliver(shares_[i], now);
  }
}

void Scheduler::end_stopped() {
  for (size_t i = places_.size(); i-- > 0;) {
    Place& place = *places_[i];
    if (queue_.stopped(place.number)) end(place, place.answer->cancel(clock_()));
  }
}

void Scheduler::admit() {
  while (static_cast<int64_t>(places_.size()) < runtime_.slots()) {
    std::optional<RequestQueue::Taken> taken = queue_.take();
    if (!taken) return;
    const std::optional<protocol::RequestTag> tag = taken->request.tag;
    const RequestQueue::Number number = taken->number;
    Result<void> admitted = check_ids(taken->request, runtime_.model().vocabulary(), runtime_.context());
    try {
      if (admitted) seat(std::move(*taken));
    } catch (const compute::DeviceLost&) {
      throw;
    } catch (const std::exception& failure) {
      admitted = Error{std::string("internal error: ") + failure.what()};
    }
    if (admitted) continue;
    queue_.finished(number);
    emit_(tag, protocol::EngineError{admitted.error()});
  }
}

void Scheduler::seat(RequestQueue::Taken taken) {
  auto place = std::make_unique<Place>();
  place->number = taken.number;
  auto masks = masks_.get(taken.request.constraint);
  place->answer = std::make_unique<Answer>(runtime_, std::move(taken.request), std::move(masks), clock_());
  places_.reserve(places_.size() + 1);  // nothing may fail once a sequence is out
  Answer& answer = *place->answer;
  answer.sequence = answer.request().embed ? conversations_.begin_empty() : conversations_.begin(answer.known());
  follow(*place);
  places_.push_back(std::move(place));
}

void Scheduler::follow(Place& place) {
  const std::vector<TokenId>& mine = place.answer->request().ids;
  if (place.answer->request().embed || runtime_.plan().parked_blocks == 0) return;
  int64_t best = place.answer->sequence->length() + worth_waiting - 1;
  for (const auto& other : places_) {
    const Request& theirs = other->answer->request();
    if (theirs.embed || other->answer->prompt_read()) continue;
    int64_t common = std::mismatch(mine.begin(), mine.end(), theirs.ids.begin(), theirs.ids.end()).first - mine.begin();
    common = std::min(common, static_cast<int64_t>(mine.size()) - 1);
    if (runtime_.pool().recurrent) common = common / cache::checkpoint_tokens * cache::checkpoint_tokens;
    if (common <= best) continue;
    best = place.leader_length = common;
    place.leader = other->number;
  }
}

// Who need not wait any longer goes on from what there is by now.
void Scheduler::settle_waits() {
  for (const auto& place : places_) {
    Answer& answer = *place->answer;
    place->idle = false;
    if (place->leader != 0) {
      const Place* leader = find(place->leader);
      place->idle = leader != nullptr && !leader->answer->prompt_read() && leader->answer->sequence->length() < place->leader_length;
      if (!place->idle) place->leader = 0;
    } else if (place->suspended) {
      place->idle = *place->suspended == endings_ && places_.size() > 1;
      if (!place->idle) place->suspended.reset();
    } else {
      continue;
    }
    if (place->idle || answer.request().embed || conversations_.reusable(answer.known()) <= answer.sequence->length()) continue;
    conversations_.drop(std::move(answer.sequence));
    answer.sequence = conversations_.begin(answer.known());
  }
  if (runtime_.pool().window.positions == 0) return;
  for (const auto& place : places_) {  // told each time: a leader may have got another sequence
    if (place->leader != 0) find(place->leader)->answer->sequence->keep_at(place->leader_length);
  }
}

// Beside the time that is measured for the sizer: it is bounded by itself.
std::vector<Draft::Wish> Scheduler::let_draft_read() {
  std::vector<Draft::Wish> wishes;
  if (!draft_) return wishes;
  int64_t generating = 0;
  for (const auto& place : places_) {
    generating += !place->answer->reading();
    if (place->answer->draftable()) wishes.push_back({place->number, place->answer->known()});
  }
  draft_->read(wishes, sizer_.generating_ms(generating) * draft_reading_share);
  return wishes;
}

void Scheduler::guess(std::vector<Draft::Wish> wishes) {
  if (runtime_.speculate() == 0) return;
  for (const auto& place : places_) place->answer->look_ahead();
  for (Draft::Wish& wish : wishes) wish.count = find(wish.number)->answer->wanted_guesses();
  if (draft_) draft_->guess(wishes);
  for (Draft::Wish& wish : wishes) {
    if (!wish.guesses.empty()) find(wish.number)->answer->suggest(std::move(wish.guesses));
  }
}

void Scheduler::plan() {
  for (int attempt = 0; attempt < 2; ++attempt) {
    shares_.clear();
    settle_waits();
    std::vector<Place*> readers;
    const std::vector<std::unique_ptr<Place>>& places = places_;
    for (size_t i = 0; i < places.size(); ++i) {
      Place& place = *places[i];
      if (place.idle) continue;  // it waits, or an older one has just taken its blocks
      if (place.answer->reading()) readers.push_back(&place);
      else add_generating(place);
    }
    plan_reading(readers);
    if (!shares_.empty() || places_.empty()) return;
    for (const auto& place : places_) {  // nobody can go on: then nobody waits for anybody
      place->leader = 0;
      place->suspended.reset();
    }
  }
  // One sequence always fits into the pool, so this is a fault of ours; it must not become a loop without end.
  end(*places_.front(), protocol::EngineError{"the KV cache has no free block"});
}

void Scheduler::plan_reading(std::vector<Place*>& readers) {
  if (readers.empty()) return;
  const int64_t generating = static_cast<int64_t>(shares_.size());
  int64_t left = sizer_.tokens(generating), planned = 0;
  // Equal shares; who is first changes, so that a share smaller than a token is nobody's fate.
  std::rotate(readers.begin(), readers.begin() + static_cast<std::ptrdiff_t>(turns_++ % readers.size()), readers.end());
  for (size_t i = 0; i < readers.size() && left > 0; ++i) {
    const int64_t sharers = static_cast<int64_t>(readers.size() - i);
    if (readers[i]->idle) continue;
    const Answer& answer = *readers[i]->answer;
    int64_t count = std::min((left + sharers - 1) / sharers, answer.left());
    if (runtime_.pool().recurrent) count = std::min(count, cache::checkpoint_tokens - answer.sequence->length() % cache::checkpoint_tokens);
    if (const Pictures* pictures = answer.request().pictures.get()) {
      count = pictures->whole(answer.sequence->length(), count);
      if (count > runtime_.step_rows() - planned) continue;  // a picture that may not be cut waits for a step with room: whoever is first has all of it
    }
    if (!add_reading(*readers[i], count)) continue;
    left -= count;
    planned += count;
  }
}

bool Scheduler::add_generating(Place& place) {
  Part part = place.answer->generate(Answer::Guesses::with);
  if (part.tokens.size() > 1 && !conversations_.reserve(*part.sequence, static_cast<int64_t>(part.tokens.size()))) {
    part = place.answer->generate(Answer::Guesses::without);
  }
  if (!make_room(place, static_cast<int64_t>(part.tokens.size()))) return false;
  shares_.push_back({&place, part});
  return true;
}

bool Scheduler::add_reading(Place& place, int64_t count) {
  if (!make_room(place, count)) return false;
  shares_.push_back({&place, place.answer->read(count)});
  return true;
}

bool Scheduler::make_room(Place& place, int64_t count) {
  while (!conversations_.reserve(*place.answer->sequence, count)) {
    if (Place* victim = youngest_behind(place)) {
      suspend(*victim);
    } else {
      if (places_.size() > 1) suspend(place);
      return false;
    }
  }
  return true;
}

Scheduler::Place* Scheduler::youngest_behind(const Place& place) {
  for (size_t i = places_.size(); i-- > 0 && places_[i].get() != &place;) {
    if (!places_[i]->answer->sequence->blocks().empty()) return places_[i].get();
  }
  return nullptr;
}

// It keeps what it has said and its random numbers; only the computing is done again.
void Scheduler::suspend(Place& place) {
  std::erase_if(shares_, [&](const Share& share) { return share.place == &place; });
  conversations_.drop(std::move(place.answer->sequence));
  place.answer->sequence = conversations_.begin_empty();
  if (draft_) draft_->suspended(place.number);
  place.suspended = endings_;
  place.idle = true;
}

void Scheduler::deliver(const Share& share, TimePoint now) {
  Place& place = *share.place;
  std::optional<protocol::EngineEvent> last_line;
  try {
    last_line = place.answer->take(share.part, queue_.stopped(place.number), now,
                                   [&](protocol::EngineEvent event) { emit_(place.answer->request().tag, std::move(event)); });
  } catch (const compute::DeviceLost&) {
    throw;  // it is everybody's
  } catch (const std::exception& failure) {  // one request's failure is not the engine's
    last_line = protocol::EngineError{std::string("internal error: ") + failure.what()};
  }
  if (last_line) end(place, std::move(*last_line));
}

void Scheduler::end(Place& place, protocol::EngineEvent last_line) {
  const std::optional<protocol::RequestTag> tag = place.answer->request().tag;
  if (place.answer->request().embed) conversations_.drop(std::move(place.answer->sequence));
  else conversations_.park(std::move(place.answer->sequence));
  if (draft_) draft_->ended(place.number);
  tally_ += place.answer->tally();
  queue_.finished(place.number);
  std::erase_if(places_, [&](const auto& other) { return other.get() == &place; });
  ++endings_;
  emit_(tag, std::move(last_line));
  if (places_.empty()) runtime_.backend().rest();
}

Scheduler::Place* Scheduler::find(Number number) {
  const auto found = std::find_if(places_.begin(), places_.end(), [&](const auto& place) { return place->number == number; });
  return found == places_.end() ? nullptr : found->get();
}

}  // namespace vigil::schedule
