// Chooses one token from a row of scores. Order: logit_bias, penalties, the grammar's mask, then top_k, top_p, min_p on the plain distribution, then
// temperature. A tie goes to the lowest id; NaN and minus infinity are never chosen. Not here: end tokens, limits, text.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/sample/constraint.hpp"
#include "engine/sample/random.hpp"
#include "engine/sample/settings.hpp"
#include "protocol/lines.hpp"
#include "protocol/result.hpp"

namespace vigil::sample {

// One of the best scores of a row: picked elsewhere, by the order of a tie as above.
struct Pick {
  TokenId id = -1;  // below 0 = there are no more usable scores
  float score = 0;
};

class Sampler {
 public:
  // `entropy` seeds a request that brings no seed.
  Sampler(Settings settings, uint64_t entropy);

  // `history`: all tokens so far, prompt included. `scores` [vocabulary] is changed. An error when no score is usable.
  // With a `constraint` only what it allows is chosen; nothing (a value without an id) when it allows nothing but the end.
  Result<TokenId> pick(std::span<float> scores, std::span<const TokenId> history);
  Result<std::optional<TokenId>> pick(std::span<float> scores, std::span<const TokenId> history, Constraint& constraint);
  // The same from the best scores alone, best first, where they are enough to tell: pick() would choose the same. Nothing, and nothing has happened, when
  // they are not: all scores are needed. `vocabulary` is how many there are.
  Result<std::optional<TokenId>> pick_among(std::span<const Pick> best, int64_t vocabulary, Constraint& constraint);

 private:
  struct Candidate {
    float score;
    TokenId id;
    float weight;  // unnormalised probability, 1 for the best
  };
  Result<TokenId> choose(std::span<const float> scores);
  TokenId draw(TokenId best);
  bool greedy() const { return settings_.temperature == 0 || settings_.top_k == 1; }
  void adjust(std::span<float> scores, std::span<const TokenId> history);
  void collect(std::span<const float> scores);
  void weigh(double temperature);
  void narrow_by_top_p();
  void narrow_by_min_p();

  const Settings settings_;
  Random random_;
  float top_ = 0;                      // the best score
  std::vector<Candidate> candidates_;  // kept between picks for its memory
  std::vector<TokenId> seen_;
};

// The logarithm of softmax over the raw scores (NaN counts as absent): of `id` in `logprob`, and the best `top` ids, best first.
void add_logprobs(std::span<const float> scores, int top, protocol::Token& token);

}  // namespace vigil::sample
