// Each round of guessing is a step of one row for every answer; the first round also reads the few tokens that came since the last.
#include "engine/schedule/draft.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace vigil::schedule {
namespace {

// Tokens that are read however long it takes: reading one costs nearly as much, and an answer that grows faster than it is read is never guessed for.
constexpr int64_t least_piece = 16;

}  // namespace

BestToken best_token(std::span<const float> scores) {
  // What lies further below the best adds less than 1e-7 of it: not worth an exponential each in a vocabulary of 150,000.
  constexpr float near = 16;
  BestToken best;
  float top = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > top) top = scores[i], best.id = static_cast<TokenId>(i);  // false for NaN
  }
  if (!std::isfinite(top)) return {};
  float sum = 0;
  for (const float score : scores) {
    if (score > top - near) sum += std::exp(score - top);
  }
  best.probability = 1 / static_cast<double>(sum);
  return best;
}

std::optional<bool> is_sure(std::span<const sample::Pick> best, int64_t vocabulary, double sureness) {
  if (best.empty() || best.front().id < 0 || !std::isfinite(best.front().score)) return std::nullopt;
  double sum = 0, last = 0;
  for (const sample::Pick& one : best) {
    last = one.id < 0 ? 0 : std::exp(static_cast<double>(one.score) - static_cast<double>(best.front().score));
    sum += last;
  }
  if (1 < sureness * sum) return false;
  const double others = last * static_cast<double>(std::max<int64_t>(0, vocabulary - static_cast<int64_t>(best.size())));
  if (1 >= sureness * (sum + others)) return true;
  return std::nullopt;
}

Draft::Draft(Runtime& of, RequestQueue& queue, Clock clock)
    : model_(of), runtime_(*of.draft()), queue_(queue), clock_(std::move(clock)), nearby_(1 + of.speculate()), pieces_(0, runtime_.step_rows()),
      scores_(static_cast<size_t>(runtime_.model().vocabulary())) {
  for (int64_t slot = 0; slot < of.slots(); ++slot) readers_.push_back(std::make_unique<Reader>(runtime_.pool()));
}

void Draft::read(std::span<const Wish> wishes, double most_ms) {
  if (most_ms <= 0) return;
  pieces_.aim(most_ms);
  int64_t left = std::min(std::max(pieces_.tokens(), least_piece), runtime_.step_rows()), planned = 0;
  std::vector<Part> parts;
  std::vector<Number> members;
  for (const Wish& wish : wishes) {
    cache::Sequence* sequence = seat(wish);
    if (sequence == nullptr) continue;
    const int64_t unread = static_cast<int64_t>(wish.known.size()) - sequence->length();
    const int64_t count = std::min(left, unread - 1);  // the last one is read for its scores
    if (unread <= nearby_ || count == 0 || !reserve(*sequence, count)) continue;
    parts.push_back({sequence, wish.known.subspan(static_cast<size_t>(sequence->length()), static_cast<size_t>(count))});
    members.push_back(wish.number);
    left -= count;
    planned += count;
  }
  if (parts.empty()) return;
  const TimePoint started = clock_();
  if (run(parts, members)) pieces_.finished(planned, seconds(clock_() - started) * 1e3);
}

void Draft::guess(std::span<Wish> wishes) {
  std::vector<Turn> turns;
  for (Wish& wish : wishes) {
    wish.guesses.clear();
    cache::Sequence* sequence = wish.count > 0 ? seat(wish) : nullptr;
    if (sequence == nullptr) continue;
    const int64_t known = static_cast<int64_t>(wish.known.size()), unread = known - sequence->length();
    const int64_t most = std::min(wish.count, runtime_.context() - known + 1);  // the last guess need not be read
    if (unread > nearby_ || !reserve(*sequence, unread + most - 1)) continue;
    wish.guesses.reserve(static_cast<size_t>(most));  // parts point into it
    turns.push_back({&wish, sequence, most});
  }
  for (;;) {
    std::erase_if(turns, [&](const Turn& turn) { return queue_.stopped(turn.wish->number); });
    if (turns.empty()) return;
    std::vector<Part> parts;
    std::vector<Number> members;
    for (const Turn& turn : turns) {
      const std::span<const TokenId> guesses = turn.wish->guesses, known = turn.wish->known;
      Part part{turn.sequence, guesses.empty() ? known.subspan(static_cast<size_t>(turn.sequence->length())) : guesses.last(1)};
      part.scores = 1;
      parts.push_back(part);
      members.push_back(turn.wish->number);
    }
    if (!run(parts, members)) return;  // everybody in it was stopped
    std::vector<Turn> next;
    for (size_t i = 0; i < turns.size(); ++i) {
      if (take_guess(turns[i], parts[i])) next.push_back(turns[i]);
    }
    turns = std::move(next);
  }
}

// False when it was the last.
bool Draft::take_guess(const Turn& turn, const Part& part) {
  const std::span<const sample::Pick> picked = runtime_.picked(part.first_score);
  std::optional<bool> sure = is_sure(picked, runtime_.model().vocabulary(), model_.draft_sureness());
  TokenId id = sure ? picked.front().id : -1;
  if (!sure) {
    runtime_.read_scores(part.first_score, scores_);
    const BestToken best = best_token(scores_);
    id = best.id;
    sure = best.id >= 0 && best.probability >= model_.draft_sureness();
  }
  if (!*sure || model_.ends(id)) return false;
  turn.wish->guesses.push_back(id);
  return static_cast<int64_t>(turn.wish->guesses.size()) < turn.most;
}

// The answer's reader, cut back to what it has read of just this text; null when the draft model's context cannot hold it.
cache::Sequence* Draft::seat(const Wish& wish) {
  const int64_t known = static_cast<int64_t>(wish.known.size());
  if (known > runtime_.context()) return nullptr;
  Reader* reader = reader_of(wish.number);
  if (reader == nullptr) {  // the one that has read most of it; of equals the one that was left longest ago
    int64_t most = -1;
    for (const auto& free : readers_) {
      if (free->owner != 0) continue;
      const int64_t common = free->sequence.reusable(wish.known);
      if (common > most || (common == most && free->used < reader->used)) most = common, reader = free.get();
    }
    reader->owner = wish.number;  // there are as many as slots
  }
  const int64_t usable = reader->sequence.reusable(wish.known);
  if (usable < reader->sequence.length()) reader->sequence.truncate(usable);
  return &reader->sequence;
}

Draft::Reader* Draft::reader_of(Number number) {
  const auto found = std::find_if(readers_.begin(), readers_.end(), [&](const auto& reader) { return reader->owner == number; });
  return found == readers_.end() ? nullptr : found->get();
}

// What nobody owns gives way.
bool Draft::reserve(cache::Sequence& sequence, int64_t more) {
  while (!sequence.reserve(more)) {
    Reader* oldest = nullptr;
    for (const auto& reader : readers_) {
      if (reader->owner == 0 && !reader->sequence.blocks().empty() && (oldest == nullptr || reader->used < oldest->used)) oldest = reader.get();
    }
    if (oldest == nullptr) return false;
    oldest->sequence.truncate(0);
  }
  return true;
}

// False when the step was aborted, and nothing has happened.
bool Draft::run(std::span<Part> parts, std::span<const Number> members) {
  queue_.begin_step(members);
  const compute::RunOutcome outcome = runtime_.step(parts);
  queue_.end_step();
  if (outcome == compute::RunOutcome::aborted) return false;
  for (const Part& part : parts) part.sequence->commit(part.tokens);
  return true;
}

void Draft::ended(Number number) {
  Reader* reader = reader_of(number);
  if (reader == nullptr) return;
  reader->sequence.settle();
  reader->owner = 0;
  reader->used = ++leavings_;
}

void Draft::suspended(Number number) {
  Reader* reader = reader_of(number);
  if (reader == nullptr) return;
  reader->sequence.truncate(0);
  reader->owner = 0;
  reader->used = 0;
}

}  // namespace vigil::schedule
