// Guesses what comes next from what came before: speculative decoding by prompt lookup (Saxena 2023). Code, quotes and lists repeat themselves.
// Not here: checking the guess, which the model does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace vigil::schedule {

// The ids that followed the latest earlier place in `known` that ends like `known` itself, by the longest ending of 3 to 16 tokens that has one:
// at most `count` ids, none when nothing matches.
std::vector<int32_t> look_up(std::span<const int32_t> known, int64_t count);

// How many to guess: more while guesses come true, fewer when they do not, since each costs a row of the step. Where making one costs something too,
// none for some steps after single ones that were wrong: up to `longest_pause`, doubling until one is right.
class DraftLength {
 public:
  explicit DraftLength(int64_t most, int64_t longest_pause = 0) : most_(most), longest_pause_(longest_pause), next_(std::min<int64_t>(most, 2)) {}
  int64_t next() const { return pause_left_ > 0 ? 0 : next_; }
  // After each step, whatever it had.
  void finished(int64_t guessed, int64_t right) {
    if (guessed == 0) {
      if (pause_left_ > 0) --pause_left_;
      return;
    }
    if (right > 0) pause_ = 0;
    else if (next_ == 1) pause_left_ = pause_ = std::min(longest_pause_, std::max<int64_t>(1, 2 * pause_));
    if (right == guessed) next_ = std::min(most_, next_ * 2);
    else if (right * 2 < guessed) next_ = std::max<int64_t>(1, next_ / 2);
  }

 private:
  const int64_t most_, longest_pause_;
  int64_t next_;
  int64_t pause_ = 0, pause_left_ = 0;  // steps
};

}  // namespace vigil::schedule
