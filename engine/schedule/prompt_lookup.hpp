// Guesses what comes next from what came before: speculative decoding by prompt lookup (Saxena 2023). Code, quotes and lists repeat themselves.
// Not here: checking the guess, which the model does.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace vigil::schedule {

// The ids that followed the latest earlier place in `known` that ends like `known` itself, by the longest ending of 3 to 16 tokens that has one:
// at most `count` ids, none when nothing matches.
std::vector<int32_t> look_up(std::span<const int32_t> known, int64_t count);

// How many to guess: more while guesses come true, fewer when they do not, since each costs a row of the step.
class DraftLength {
 public:
  explicit DraftLength(int64_t most) : most_(most), next_(most < 2 ? most : 2) {}
  int64_t next() const { return next_; }
  void finished(int64_t guessed, int64_t right) {
    if (guessed == 0) return;
    if (right == guessed) next_ = next_ * 2 < most_ ? next_ * 2 : most_;
    else if (right * 2 < guessed) next_ = next_ > 1 ? next_ / 2 : next_;
  }

 private:
  const int64_t most_;
  int64_t next_;
};

}  // namespace vigil::schedule
