// Finds control and user-defined pieces in a text. Not here: what becomes of the text between them.
#pragma once

#include <array>
#include <functional>
#include <string_view>
#include <vector>

#include "engine/gguf/vocabulary.hpp"

namespace vigil::gguf {

struct MarkerMatch {
  size_t start = 0;   // bytes
  size_t length = 0;  // bytes
  TokenId id = -1;
};

// Longer pieces are placed first, anywhere in the text, and equally long ones from left to right; what overlaps a placed one is not a match.
class MarkerMatcher {
 public:
  // The pieces that `wanted` says yes to; `vocabulary` must outlive the matcher.
  MarkerMatcher(const Vocabulary& vocabulary, const std::function<bool(TokenId)>& wanted);

  std::vector<MarkerMatch> find(std::string_view text) const;  // in the order of the text
  // The longest piece that begins at `start` and is no longer than `most_bytes`; length 0 for none.
  MarkerMatch longest_at(std::string_view text, size_t start, size_t most_bytes) const;

 private:
  const Vocabulary& vocabulary_;
  std::vector<TokenId> sorted_;  // by piece: the pieces that begin with a given text are neighbours, the shortest first
  std::array<uint32_t, 257> first_byte_{};  // where in sorted_ the pieces that begin with a byte start
};

}  // namespace vigil::gguf
