// Marker search: a walk through the sorted pieces, one byte a step, in place of a tree.
#include "engine/gguf/marker_matcher.hpp"

#include <algorithm>
#include <numeric>
#include <queue>

namespace vigil::gguf {

namespace {

// A longer piece is no marker anyone writes; the cap bounds the time a hostile vocabulary can cost.
constexpr size_t most_marker_bytes = 256;

}  // namespace

MarkerMatcher::MarkerMatcher(const Vocabulary& vocabulary, const std::function<bool(TokenId)>& wanted) : vocabulary_(vocabulary) {
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string& piece = vocabulary.piece(id);
    if (!piece.empty() && piece.size() <= most_marker_bytes && wanted(id) && vocabulary.find(piece) == id) sorted_.push_back(id);
  }
  std::sort(sorted_.begin(), sorted_.end(), [&](TokenId a, TokenId b) { return vocabulary.piece(a) < vocabulary.piece(b); });
  for (const TokenId id : sorted_) ++first_byte_[static_cast<unsigned char>(vocabulary.piece(id)[0]) + size_t{1}];
  std::partial_sum(first_byte_.begin(), first_byte_.end(), first_byte_.begin());
}

MarkerMatch MarkerMatcher::longest_at(std::string_view text, size_t start, size_t most_bytes) const {
  MarkerMatch best{start, 0, -1};
  const size_t limit = std::min({text.size() - start, most_bytes, most_marker_bytes});
  if (limit == 0) return best;
  const size_t first_byte = static_cast<unsigned char>(text[start]);
  auto first = sorted_.begin() + first_byte_[first_byte], last = sorted_.begin() + first_byte_[first_byte + 1];
  for (size_t depth = 1; first != last; ++depth) {
    // All pieces in [first, last) share the first `depth` bytes; one that ends there sorts in front and reads as byte -1 here.
    if (vocabulary_.piece(*first).size() == depth) best = {start, depth, *first};
    if (depth == limit) break;
    const auto byte_at = [&](TokenId id) {
      const std::string& piece = vocabulary_.piece(id);
      return depth < piece.size() ? static_cast<int>(static_cast<unsigned char>(piece[depth])) : -1;
    };
    const int wanted = static_cast<unsigned char>(text[start + depth]);
    first = std::partition_point(first, last, [&](TokenId id) { return byte_at(id) < wanted; });
    last = std::partition_point(first, last, [&](TokenId id) { return byte_at(id) <= wanted; });
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
  if (candidates.empty()) return placed;
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
