// Notices an answer that has become one token for ever. Not here: what is done about it.
#pragma once

#include <cstdint>
#include <optional>

#include "engine/gguf/vocabulary.hpp"

namespace vigil::text {

class RepetitionGuard {
 public:
  // `limit`: engine.repeat_stop_tokens, how often the same token may stand in a row; 0 = without end.
  explicit RepetitionGuard(int64_t limit) : limit_(limit) {}

  enum class State { fine, endless };
  State push(gguf::TokenId id) {
    run_ = last_ == id ? run_ + 1 : 1;
    last_ = id;
    return limit_ > 0 && run_ >= limit_ ? State::endless : State::fine;
  }

 private:
  int64_t limit_;
  int64_t run_ = 0;
  std::optional<gguf::TokenId> last_;
};

}  // namespace vigil::text
