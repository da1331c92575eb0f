// Grammars in GBNF, the notation that llama.cpp users know: text into a checked value. Shared by the daemon, which answers a wrong grammar with
// an error, and the engine, which makes masks of a right one. Not here: automata, tokens' bytes, JSON Schema.
//
//   rule     = name "::=" choice                  "root" is where it begins; a rule ends where the next "name ::=" begins
//   choice   = sequence *( "|" sequence )         an empty sequence is the empty text
//   element  = literal | class | "." | name | "(" choice ")" | token, then any of  * + ? {m} {m,} {m,n} {,n}
//   literal  = "text"     class = [a-z] or [^a-z]     token = <[id]>, one token of the vocabulary, whatever its text
//   escapes  = \n \r \t \xNN \uNNNN \UNNNNNNNN (code points), and a backslash before any other ASCII sign for itself
//   comments run from # to the end of the line
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/result.hpp"

namespace vigil::protocol::gbnf {

inline constexpr size_t max_text_bytes = 256 * 1024;
inline constexpr size_t max_rules = 16 * 1024;
inline constexpr size_t max_depth = 64;             // groups and repetitions inside each other
inline constexpr size_t max_ranges = 32 * 1024;     // of all classes together
inline constexpr uint32_t max_repeat = 1'000'000;   // m and n
inline constexpr uint32_t max_empty_repeat = 256;   // n, where what is repeated may be the empty text
inline constexpr uint32_t unbounded = std::numeric_limits<uint32_t>::max();

struct Range {
  char32_t first = 0, last = 0;  // code points, both included; never surrogates
  bool operator==(const Range&) const = default;
};

struct Expression {
  enum class Kind : uint8_t { choice, sequence, literal, characters, rule, repeat, token };
  Kind kind = Kind::sequence;
  std::vector<uint32_t> parts = {};   // choice, sequence: in order; repeat: one. Indices into Grammar::expressions
  std::string text = {};              // literal: UTF-8
  std::vector<Range> ranges = {};     // characters: sorted, apart; may be empty, and then nothing fits
  uint32_t rule = 0;                  // rule: index into Grammar::rules
  uint32_t min = 0, max = unbounded;  // repeat
  int32_t token = 0;                  // token
  uint16_t depth = 1;                 // of this tree, rules not followed
};

struct Rule {
  std::string name;
  uint32_t expression = 0;
  size_t line = 0;
};

// What parse() gives keeps these promises: every rule that is named exists, none is left-recursive, root can end, depth is at most max_depth.
struct Grammar {
  std::vector<Expression> expressions;
  std::vector<Rule> rules;
  uint32_t root = 0;
  // By expression: whether it can be the empty text, and whether any finite text fits it at all.
  std::vector<bool> nullable, productive;
};

// Errors begin with "grammar line L, column C: " (in characters, from 1) where there is a place to name. Time and memory are linear in the text.
Result<Grammar> parse(std::string_view text);

}  // namespace vigil::protocol::gbnf
