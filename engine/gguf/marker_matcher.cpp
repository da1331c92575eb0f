// Marker search: a walk through the sorted pieces, one byte a step, in place of a tree.
#include "engine/gguf/marker_matcher.hpp"

#include <algorithm>
#include <queue>

namespace vigil::gguf {

namespace {

// A longer piece is no marker anyone writes; the cap bounds the time a hostile vocabulary can cost.
constexpr size_t most_marker_bytes = 256;

}  // namespace

MarkerMatcher::MarkerMatcher(const Vocabulary& vocabulary, const std::vector<TokenKind>& kinds) : vocabulary_(vocabulary) {
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string& piece = vocabulary.piece(id);
    const bool wanted = std::find(kinds.begin(), kinds.end(), vocabulary.kind(id)) != kinds.end();
    if (wanted && !piece.empty() && piece.size() <= most_marker_bytes && vocabulary.find(piece) == id) sorted_.push_back(id);
  }
  std::sort(sorted_.begin(), sorted_.end(), [&](TokenId a, TokenId b) { return vocabulary.piece(a) < vocabulary.piece(b); });
}

MarkerMatch MarkerMatcher::longest_at(std::string_view text, size_t start, size_t most_bytes) const {
  MarkerMatch best{start, 0, -1};
  auto first = sorted_.begin(), last = sorted_.end();
  const size_t limit = std::min({text.size() - start, most_bytes, most_marker_bytes});
  for (size_t depth = 0; depth < limit && first != last; ++depth) {
    // All pieces in [first, last) share the first `depth` bytes; one that ends there sorts in front and reads as byte -1 here.
    const auto byte_at = [&](TokenId id) {
      const std::string& piece = vocabulary_.piece(id);
      return depth < piece.size() ? static_cast<int>(static_cast<unsigned char>(piece[depth])) : -1;
    };
    const int wanted = static_cast<unsigned char>(text[start + depth]);
    first = std::partition_point(first, last, [&](TokenId id) { return byte_at(id) < wanted; });
    last = std::partition_point(first, last, [&](TokenId id) { return byte_at(id) <= wanted; });
    if (first != last && vocabulary_.piece(*first).size() == depth + 1) best = {start, depth + 1, *first};
  }
  return best;
}

std::vector<MarkerMatch> MarkerMatcher::find(std::string_view text) const {
  std::vector<MarkerMatch> placed;
  if (sorted_.empty()) return placed;
  const auto later = [](const MarkerMatch& a, const MarkerMatch& b) { return a.length != b.length ? a.length < b.length : a.start > b.start; };
  std::priority_queue<MarkerMatch, std::vector<MarkerMatch>, decltype(later)> candidates(later);
  for (size_t start = 0; start < text.size(); ++start) {
    if (const auto match = longest_at(text, start, most_marker_bytes); match.length > 0) candidates.push(match);
  }
  std::vector<bool> taken(text.size(), false);
  while (!candidates.empty()) {
    const MarkerMatch match = candidates.top();
    candidates.pop();
    if (taken[match.start]) continue;
    // Everything placed so far is at least as long, so it covers an end of what it overlaps.
    if (taken[match.start + match.length - 1]) {
      if (const auto shorter = longest_at(text, match.start, match.length - 1); shorter.length > 0) candidates.push(shorter);
      continue;
    }
    std::fill_n(taken.begin() + static_cast<std::ptrdiff_t>(match.start), match.length, true);
    placed.push_back(match);
  }
  std::sort(placed.begin(), placed.end(), [](const MarkerMatch& a, const MarkerMatch& b) { return a.start < b.start; });
  return placed;
}

}  // namespace vigil::gguf
