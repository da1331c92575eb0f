// One running request: what is known of its text, how much of it is computed, and what comes next. Speaks in protocol events.
// Not here: when it gets its turn (scheduler.hpp), the arithmetic (Runtime).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/cache/sequence.hpp"
#include "engine/sample/constraint.hpp"
#include "engine/sample/sampler.hpp"
#include "engine/schedule/prompt_lookup.hpp"
#include "engine/schedule/request.hpp"
#include "engine/schedule/runtime.hpp"
#include "protocol/lines.hpp"
#include "protocol/time.hpp"

namespace vigil::schedule {

// How an answer came about. Without guesses there is a step for every token.
struct GuessTally {
  int64_t steps = 0, tokens = 0;                    // steps that gave tokens
  int64_t looked_up = 0, looked_up_right = 0;       // guesses from what the text repeats, and those that came true
  int64_t drafted = 0, drafted_right = 0;           // from a draft model
  GuessTally& operator+=(const GuessTally& other);
};

class Answer {
 public:
  using Emit = std::function<void(protocol::EngineEvent)>;

  // `request` has passed check_ids. `masks` is its grammar's.
  Answer(Runtime& runtime, Request request, std::shared_ptr<sample::GrammarMasks> masks, TimePoint started);

  const Request& request() const { return request_; }
  // Where it is computed; given and taken back by whoever keeps conversations.
  std::unique_ptr<cache::Sequence> sequence;

  const std::vector<TokenId>& known() const { return known_; }  // prompt, then what was said
  int64_t left() const { return static_cast<int64_t>(known_.size()) - sequence->length(); }  // known tokens that are not computed
  bool reading() const { return left() > 1 || request_.embed.has_value(); }
  bool prompt_read() const { return prefilled_.has_value(); }

  // Its share of the next step: `count` of the tokens that are left, or the one that is left and, if so wished, the guesses behind it.
  Part read(int64_t count);
  enum class Guesses { with, without };
  Part generate(Guesses guesses);

  // Guesses for the next step, while it generates: what the text itself repeats, or else what a draft model says: at most wanted_guesses(), 0 when the
  // text itself had some. They are only guesses: what comes is chosen as if there were none.
  void look_ahead();
  int64_t wanted_guesses() const;
  void suggest(std::vector<TokenId> guesses);
  bool draftable() const;  // a draft model may come to guess for it

  const GuessTally& tally() const { return tally_; }

  // Said once, when the first share is about to be computed.
  void announce(const Emit& emit);
  // After a finished step. The last line, when that was the end.
  std::optional<protocol::EngineEvent> take(const Part& part, bool stopped, TimePoint now, const Emit& emit);
  protocol::EngineEvent cancel(TimePoint now) const { return done("cancel", now); }

 private:
  int64_t prompt() const { return static_cast<int64_t>(request_.ids.size()); }
  protocol::EngineEvent done(const char* finish, TimePoint now) const;
  std::optional<protocol::EngineEvent> choose(const Part& part, TimePoint now, const Emit& emit);
  Result<std::optional<TokenId>> next_token(int64_t score, std::vector<float>& raw);
  int64_t guess_room() const;
  void count_guesses(int64_t guessed, int64_t right);
  void pool(const Part& part, int64_t first);
  protocol::EngineEvent vector(TimePoint now, const Emit& emit) const;

  Runtime& runtime_;
  const Request request_;
  const TimePoint started_;
  std::vector<TokenId> known_;
  sample::Sampler sampler_;
  sample::Constraint constraint_;
  DraftLength look_up_length_, draft_length_;
  std::vector<TokenId> guesses_;  // for the next step
  bool drafted_ = false;          // where they are from
  GuessTally tally_;
  std::vector<TokenId> rows_;     // of a generating step: the token, then the guesses
  std::vector<float> scores_;     // [vocabulary], or hidden states
  std::vector<double> pooled_;    // [width] of an embedding
  int64_t generated_ = 0;
  int64_t resumed_ = 0, said_ = 0;  // prompt tokens that came from a cache; that PP has told
  bool announced_ = false;
  std::optional<TimePoint> prefilled_;
};

}  // namespace vigil::schedule
