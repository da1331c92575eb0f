// Guesses with a smaller model what an answer says next: speculative decoding with a draft model (Leviathan et al. 2023, Chen et al. 2023), greedy.
// Not here: checking the guesses, which the model does (answer.hpp), and when it is asked (scheduler.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/cache/sequence.hpp"
#include "engine/schedule/chunk_sizer.hpp"
#include "engine/schedule/request_queue.hpp"
#include "engine/schedule/runtime.hpp"
#include "protocol/time.hpp"

namespace vigil::schedule {

// The best of the scores and its share of their softmax; an id below 0 when none of them is usable.
struct BestToken {
  TokenId id = -1;
  double probability = 0;
};
BestToken best_token(std::span<const float> scores);
// Whether the best token has at least `sureness` of the softmax over `vocabulary` scores, by the best of them alone, best first: none of the others is higher
// than the last of these. Nothing when that does not tell.
std::optional<bool> is_sure(std::span<const sample::Pick> best, int64_t vocabulary, double sureness);

// Runs between the model's steps, on the same thread and backend, all answers together. For each it holds what the draft model has read of it; what
// turns out to be guessed wrong is cut back when the answer is seen next.
class Draft {
 public:
  using Number = RequestQueue::Number;
  using Clock = std::function<TimePoint()>;
  // An answer that generates.
  struct Wish {
    Number number = 0;
    std::span<const TokenId> known;  // its prompt and what was said; no pictures
    int64_t count = 0;               // most guesses; 0 = none are wanted now
    std::vector<TokenId> guesses = {};
  };

  // `of` has a draft model.
  Draft(Runtime& of, RequestQueue& queue, Clock clock);

  // Reads on where much is unread (a prompt, or what was found without this model), for about `most_ms` in all, but some tokens at least; 0 = nothing is
  // read.
  void read(std::span<const Wish> wishes, double most_ms);
  // Fills `guesses`. None for who has more to read, has no room in the draft model's context or cache, or is stopped meanwhile; fewer where the model
  // is not sure (RuntimeOptions::draft_sureness) and where the answer would end.
  void guess(std::span<Wish> wishes);

  // The answer has ended: what was read of it stays for who goes on from there. Or it waits without a cache: what was read goes as well.
  void ended(Number number);
  void suspended(Number number);

 private:
  struct Reader {
    explicit Reader(cache::Pools& pools) : sequence(pools) {}
    cache::Sequence sequence;
    Number owner = 0;   // 0 = nobody's
    uint64_t used = 0;  // when it was left: the higher, the later
  };
  struct Turn {
    Wish* wish;
    cache::Sequence* sequence;
    int64_t most;
  };

  cache::Sequence* seat(const Wish& wish);
  Reader* reader_of(Number number);
  bool reserve(cache::Sequence& sequence, int64_t more);
  bool run(std::span<Part> parts, std::span<const Number> members);
  bool take_guess(const Turn& turn, const Part& part);

  Runtime& model_;
  Runtime& runtime_;  // the draft model's
  RequestQueue& queue_;
  const Clock clock_;
  const int64_t nearby_;  // so many unread tokens are read together with guessing
  ChunkSizer pieces_;
  std::vector<std::unique_ptr<Reader>> readers_;  // one a slot
  std::vector<float> scores_;                     // [vocabulary]
  uint64_t leavings_ = 0;
};

}  // namespace vigil::schedule
