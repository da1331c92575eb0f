// A backward scan that compares endings: some microseconds for a context of 32,768, against a step of many milliseconds.
#include "engine/schedule/prompt_lookup.hpp"

#include <algorithm>

namespace vigil::schedule {
namespace {

constexpr int64_t least_match = 3, most_match = 16;  // tokens

}  // namespace

std::vector<int32_t> look_up(std::span<const int32_t> known, int64_t count) {
  const int64_t length = static_cast<int64_t>(known.size());
  int64_t best_end = -1, best_match = least_match - 1;
  for (int64_t end = length - 1; end >= least_match && count > 0; --end) {  // known[0, end) is compared with the whole
    if (known[static_cast<size_t>(end - 1)] != known.back()) continue;
    int64_t match = 1;
    while (match < std::min(end, most_match) && known[static_cast<size_t>(end - 1 - match)] == known[static_cast<size_t>(length - 1 - match)]) ++match;
    if (match > best_match) best_end = end, best_match = match;
    if (best_match == most_match) break;
  }
  if (best_end < 0) return {};
  const auto first = known.begin() + best_end;
  return {first, first + std::min(count, length - best_end)};
}

}  // namespace vigil::schedule
