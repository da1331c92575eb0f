// How many prompt tokens the next prefill chunk takes, so that a chunk lasts about `step_ms` on this machine and model: a chunk sized in
// tokens would take 10 ms on one machine and a minute on another, and the engine reports and yields only between chunks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace vigil::schedule {

class ChunkSizer {
 public:
  ChunkSizer(double step_ms, int64_t max_tokens) : step_ms_(step_ms), max_tokens_(max_tokens), tokens_(std::min(first_tokens, max_tokens)) {}

  int64_t tokens() const { return tokens_; }
  void aim(double step_ms) { step_ms_ = step_ms; }       // from the next measurement on
  double per_token_ms() const { return per_token_ms_; }  // of the last chunk; 0 before the first

  // A chunk of `tokens` took `ms`. Grows at most fourfold at a time: one lucky measurement must not make a chunk of many seconds.
  void finished(int64_t tokens, double ms) {
    const double per_token = std::max(ms, 1e-3) / static_cast<double>(tokens);
    // A short rest of a prompt says little about long chunks: most of its time is what every step costs. It shrinks them only when even it took too long.
    if (tokens < tokens_ && ms <= step_ms_ && per_token_ms_ > 0 && per_token > per_token_ms_) return;
    per_token_ms_ = per_token;
    const double fitting = std::min(std::max(step_ms_ / per_token, std::min(short_tokens, patience * step_ms_ / per_token)), static_cast<double>(max_tokens_));
    const int64_t target = std::min(static_cast<int64_t>(fitting), std::max(tokens, tokens_) * growth);
    tokens_ = std::clamp<int64_t>(target, 1, max_tokens_);
  }

 private:
  static constexpr int64_t first_tokens = 8;
  static constexpr int64_t growth = 4;
  // Every step reads all weights, so that one of fewer tokens than this takes hardly less time: where even it is longer than step_ms (a large model,
  // a busy machine), shrinking it further would make a prompt slower by as much. It may take several times step_ms instead.
  static constexpr double short_tokens = 16, patience = 8;
  double step_ms_;
  const int64_t max_tokens_;
  int64_t tokens_;
  double per_token_ms_ = 0;
};

}  // namespace vigil::schedule
