// The life of one request inside the engine. Scores at a position depend on the tokens before it alone, and each position draws once from the
// request's own random numbers, in order: so neither neighbours nor guesses nor caches can change what is said.
#include "engine/schedule/answer.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

namespace vigil::schedule {
namespace {

uint64_t fresh_entropy() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

constexpr int64_t longest_draft_pause = 16;  // steps between two guesses of a draft model that is never right

// Microseconds are as fine as anybody reads.
double milliseconds(Duration duration) { return std::round(seconds(duration) * 1e6) / 1e3; }

}  // namespace

Answer::Answer(Runtime& runtime, Request request, std::shared_ptr<sample::GrammarMasks> masks, TimePoint started)
    : runtime_(runtime), request_(std::move(request)), started_(started), known_(request_.ids),
      sampler_(request_.settings, request_.settings.seed ? 0 : fresh_entropy()),
      constraint_(request_.constraint, std::move(masks), runtime.end_ids()), look_up_length_(runtime.speculate()), draft_length_(runtime.speculate(), longest_draft_pause) {
  if (request_.embed) pooled_.assign(static_cast<size_t>(runtime.model().config().width), 0.0);
  else scores_.resize(static_cast<size_t>(runtime.model().vocabulary()));
}

Part Answer::read(int64_t count) {
  const auto tokens = std::span<const TokenId>(known_).subspan(static_cast<size_t>(sequence->length()), static_cast<size_t>(count));
  Part part{sequence.get(), tokens, request_.pictures.get()};
  part.hidden = request_.embed.has_value();
  part.scores = !part.hidden && count == left() && request_.max_new > 0 ? 1 : 0;
  return part;
}

// The prompt's own last token may be the one that is left; guessing begins behind it.
int64_t Answer::guess_room() const {
  if (reading() || !prompt_read()) return 0;
  return std::max<int64_t>(0, std::min(request_.max_new - generated_, runtime_.context() - static_cast<int64_t>(known_.size())) - 1);
}

bool Answer::draftable() const { return guess_room() > 0 && !request_.pictures; }

int64_t Answer::wanted_guesses() const { return guesses_.empty() && draftable() ? std::min(draft_length_.next(), guess_room()) : 0; }

void Answer::look_ahead() {
  guesses_ = look_up(known_, std::min(look_up_length_.next(), guess_room()));
  guesses_.erase(std::find_if(guesses_.begin(), guesses_.end(), [](TokenId id) { return id < 0; }), guesses_.end());  // nobody says a picture
  drafted_ = false;
}

void Answer::suggest(std::vector<TokenId> guesses) {
  guesses_ = std::move(guesses);
  drafted_ = true;
}

Part Answer::generate(Guesses guesses) {
  rows_.assign(1, known_.back());
  if (guesses == Guesses::with) rows_.insert(rows_.end(), guesses_.begin(), guesses_.end());
  Part part{sequence.get(), rows_, request_.pictures.get()};
  part.scores = request_.max_new > 0 ? static_cast<int64_t>(rows_.size()) : 0;
  return part;
}

void Answer::announce(const Emit& emit) {
  if (announced_) return;
  announced_ = true;
  resumed_ = sequence->length();
  if (resumed_ > 0) emit(protocol::Resume{resumed_});
}

std::optional<protocol::EngineEvent> Answer::take(const Part& part, bool stopped, TimePoint now, const Emit& emit) {
  const int64_t before = sequence->length();
  const int64_t sure = std::min(left(), static_cast<int64_t>(part.tokens.size()));  // what stands behind them are guesses
  const bool ends_prompt = before + sure == prompt();
  sequence->commit(part.tokens.first(static_cast<size_t>(sure)), ends_prompt ? cache::Keep::as_checkpoint : cache::Keep::while_newest);
  if (stopped) return cancel(now);
  if (request_.embed) pool(part, before);
  const int64_t read = std::min(sequence->length(), prompt());
  if (!prompt_read() && read > said_) {
    const double ms = milliseconds(now - started_);
    emit(protocol::PromptProgress{read, prompt(), ms, std::round(static_cast<double>(read - resumed_) * 1e4 / std::max(ms, 1e-3)) / 10});
    said_ = read;
  }
  if (left() > 0) return std::nullopt;
  if (!prompt_read()) prefilled_ = now;
  return request_.embed ? vector(now, emit) : choose(part, now, emit);
}

std::optional<protocol::EngineEvent> Answer::choose(const Part& part, TimePoint now, const Emit& emit) {
  const int64_t most = std::min(request_.max_new, runtime_.context() - prompt());
  const std::span<const TokenId> guesses = part.tokens.last(static_cast<size_t>(std::max<int64_t>(part.scores - 1, 0)));
  int64_t right = 0;
  guesses_.clear();  // those behind what is known now are others
  if (part.scores > 0) ++tally_.steps;
  for (int64_t s = 0; s < part.scores && generated_ < most; ++s) {
    protocol::Token token;
    std::vector<float> raw;
    const Result<std::optional<TokenId>> picked = next_token(part.first_score + s, raw);
    if (!picked) return protocol::EngineError{picked.error()};
    if (!*picked || runtime_.ends(**picked)) {
      count_guesses(static_cast<int64_t>(guesses.size()), right);
      return done("stop", now);
    }
    const TokenId id = token.id = **picked;
    if (Result<void> fits = constraint_.accept(id); !fits) return protocol::EngineError{fits.error()};
    if (request_.settings.logprobs) sample::add_logprobs(raw, *request_.settings.logprobs, token);
    known_.push_back(id);
    ++generated_;
    ++tally_.tokens;
    emit(std::move(token));
    if (s + 1 == part.scores || guesses[static_cast<size_t>(s)] != id || generated_ == most) break;
    sequence->commit(std::span(&id, 1));  // computed already, since the guess was right
    ++right;
  }
  count_guesses(static_cast<int64_t>(guesses.size()), right);
  if (generated_ >= most) return done("length", now);
  return std::nullopt;
}

void Answer::count_guesses(int64_t guessed, int64_t right) {
  draft_length_.finished(drafted_ ? guessed : 0, right);
  look_up_length_.finished(drafted_ ? 0 : guessed, right);
  (drafted_ ? tally_.drafted : tally_.looked_up) += guessed;
  (drafted_ ? tally_.drafted_right : tally_.looked_up_right) += right;
}

GuessTally& GuessTally::operator+=(const GuessTally& other) {
  steps += other.steps, tokens += other.tokens;
  looked_up += other.looked_up, looked_up_right += other.looked_up_right;
  drafted += other.drafted, drafted_right += other.drafted_right;
  return *this;
}

// Of one row of the step's scores. `raw` becomes that row, when log probabilities are wanted.
Result<std::optional<TokenId>> Answer::next_token(int64_t score, std::vector<float>& raw) {
  const std::optional<TokenId> forced = constraint_.forced();
  if (!request_.settings.logprobs) {
    if (forced) return forced;
    Result<std::optional<TokenId>> known = sampler_.pick_among(runtime_.picked(score), runtime_.model().vocabulary(), constraint_);
    if (!known || *known) return known;
  }
  runtime_.read_scores(score, scores_);
  if (request_.settings.logprobs) raw = scores_;
  if (forced) return forced;
  return sampler_.pick(scores_, known_, constraint_);
}

protocol::EngineEvent Answer::done(const char* finish, TimePoint now) const {
  protocol::Done done;
  done.generated = generated_;
  // What was really read: all of the prompt once prefill has ended.
  done.prompt = prefilled_ ? prompt() : std::min(sequence->length(), prompt());
  done.prompt_ms = milliseconds(prefilled_.value_or(now) - started_);
  done.decode_ms = prefilled_ ? milliseconds(now - *prefilled_) : 0;
  done.finish = finish;
  return done;
}

// Tokens are added in order, one by one: the vector does not depend on how the text was cut into steps.
void Answer::pool(const Part& part, int64_t first) {
  const size_t width = pooled_.size(), count = part.tokens.size();
  if (first == 0) std::fill(pooled_.begin(), pooled_.end(), 0.0);
  scores_.resize(count * width);
  runtime_.read_hidden(part.first_hidden, static_cast<int64_t>(count), scores_);
  for (size_t t = 0; t < count; ++t) {
    const int64_t place = first + static_cast<int64_t>(t);
    const bool counts = request_.embed == protocol::Pooling::mean || (request_.embed == protocol::Pooling::cls ? place == 0 : place == prompt() - 1);
    for (size_t i = 0; counts && i < width; ++i) pooled_[i] += static_cast<double>(scores_[t * width + i]);
  }
}

protocol::EngineEvent Answer::vector(TimePoint now, const Emit& emit) const {
  const double share = request_.embed == protocol::Pooling::mean ? static_cast<double>(prompt()) : 1;
  std::vector<float> values;
  for (const double value : pooled_) values.push_back(static_cast<float>(value / share));
  if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); })) {
    return protocol::EngineError{"no usable vector: the model gave NaN or infinity"};
  }
  for (size_t at = 0; at < values.size(); at += protocol::max_vector_part) {
    const size_t end = std::min(values.size(), at + protocol::max_vector_part);
    emit(protocol::VectorPart{static_cast<int64_t>(at), {values.begin() + static_cast<std::ptrdiff_t>(at), values.begin() + static_cast<std::ptrdiff_t>(end)}});
  }
  return done("stop", now);
}

}  // namespace vigil::schedule
