// Regular expressions as JSON Schema's `pattern` has them, read into a tree. The subset that names a regular language: classes, groups,
// alternatives, quantifiers, escapes, ^ and $. Not here: matching (string_automaton.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "protocol/gbnf.hpp"
#include "protocol/result.hpp"

namespace vigil::text {

using CodeRange = protocol::gbnf::Range;

inline constexpr size_t max_pattern_bytes = 8 * 1024;
inline constexpr size_t max_pattern_depth = 48;
inline constexpr uint32_t max_pattern_repeat = 100'000;

struct Regex {
  enum class Kind : uint8_t { set, sequence, choice, repeat, begin, end };  // an empty sequence is the empty text
  struct Node {
    Kind kind = Kind::sequence;
    std::vector<CodeRange> ranges = {};  // set: sorted, apart, no surrogates
    std::vector<uint32_t> parts = {};
    uint32_t min = 0, max = protocol::gbnf::unbounded;
  };
  std::vector<Node> nodes;
  uint32_t root = 0;
};

// Errors say what is not understood and at which byte. \d, \w and \s are ASCII; lazy quantifiers mean the same as greedy ones here.
Result<Regex> parse_regex(std::string_view pattern);

// Sorted, joined, without surrogates; turned around when `negated`.
std::vector<CodeRange> tidy_ranges(std::vector<CodeRange> ranges, bool negated);

}  // namespace vigil::text
