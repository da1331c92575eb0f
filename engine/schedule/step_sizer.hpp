// How many prompt tokens the next step reads beside tokens that are being generated. Alone a prompt fills `step_ms`; beside others it takes what
// keeps the step within a few times a step without it, so that nobody's tokens come much slower while a long prompt is read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/schedule/chunk_sizer.hpp"

namespace vigil::schedule {

class StepSizer {
 public:
  // `max_decoding`: sequences that may generate at once.
  StepSizer(double step_ms, int64_t max_tokens, int64_t max_decoding)
      : step_ms_(step_ms), max_tokens_(max_tokens), alone_(step_ms, max_tokens), decode_(static_cast<size_t>(max_decoding) + 1) {}

  // Prompt tokens of the next step when `decoding` sequences generate in it; 0 = none this time, so that a step without is measured.
  int64_t tokens(int64_t decoding) const {
    if (decoding == 0) return alone_.tokens();
    const Samples& without = decode_[static_cast<size_t>(decoding)];
    if (without.ms.empty() || mixed_steps_ >= (without.ms.size() < few_samples ? recheck_early : recheck)) return 0;
    const double spare = target_ms(without) - without.median();
    const int64_t fitting = static_cast<int64_t>(std::min(spare / guessed_ms(without), static_cast<double>(max_tokens_)));
    const int64_t grown = last_mixed_ > 0 ? std::min(fitting, growth * last_mixed_) : fitting;
    return std::clamp<int64_t>(grown, 1, max_tokens_);
  }

  // How long a step takes in which `decoding` sequences generate and no prompt is read; 0 = not known.
  double generating_ms(int64_t decoding) const { return decode_[static_cast<size_t>(decoding)].median(); }

  void finished(int64_t decoding, int64_t prompt_tokens, double ms) {
    if (decoding == 0) {
      if (prompt_tokens > 0) alone_.finished(prompt_tokens, ms);
      return;
    }
    Samples& without = decode_[static_cast<size_t>(decoding)];
    if (prompt_tokens == 0) {
      without.add(ms);
      mixed_steps_ = 0;
      return;
    }
    ++mixed_steps_;
    const double each = std::max(ms - without.median(), ms * least_share) / static_cast<double>(prompt_tokens);
    per_token_ms_ = per_token_ms_ > 0 ? per_token_ms_ + (each - per_token_ms_) * weight_of_new : each;
    last_mixed_ = prompt_tokens;
  }

  // A step with a prompt's tokens takes about this many times one without; four times is what we promise.
  static constexpr double mixed_factor = 2.5;

 private:
  // The last few times of steps that only generate; their median, since a busy machine makes any one of them long.
  struct Samples {
    std::vector<double> ms;
    size_t next = 0;
    void add(double value) {
      if (ms.size() < kept) return ms.push_back(value);
      ms[next++ % kept] = value;
    }
    double median() const {
      if (ms.empty()) return 0;
      std::vector<double> sorted = ms;
      std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
      return sorted[sorted.size() / 2];
    }
    static constexpr size_t kept = 5;
  };
  // What a prompt's token costs beside others. Before it is known: twice what it does alone, in long chunks; before that is known either, what a
  // generated one costs, which reads all weights for itself.
  double guessed_ms(const Samples& without) const {
    if (per_token_ms_ > 0) return per_token_ms_;
    return alone_.per_token_ms() > 0 ? std::min(2 * alone_.per_token_ms(), without.median()) : without.median();
  }
  // Where even a step without prompts is long, a prompt still gets something.
  double target_ms(const Samples& without) const {
    return std::max(std::min(without.median() * mixed_factor, step_ms_), without.median() * 1.5);
  }

  static constexpr size_t few_samples = 3;
  static constexpr int64_t recheck = 24, recheck_early = 8;  // steps with prompts between two that are measured without; a host changes its speed within seconds
  static constexpr int64_t growth = 2;
  static constexpr double weight_of_new = 0.3, least_share = 0.02;
  const double step_ms_;
  const int64_t max_tokens_;
  ChunkSizer alone_;
  std::vector<Samples> decode_;  // by the number of sequences that generate
  int64_t mixed_steps_ = 0, last_mixed_ = 0;
  double per_token_ms_ = 0;      // of a prompt's token beside others; 0 = not known
};

}  // namespace vigil::schedule
