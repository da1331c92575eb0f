// Everything that a schema asks of one string or of a property's name, as one deterministic automaton over code points: patterns that must or
// must not be found, a length, names that it must not be. Out comes GBNF. Not here: reading patterns (regex.hpp), schemas.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/result.hpp"
#include "server/text/regex.hpp"

namespace vigil::text {

struct StringLimits {
  std::vector<const Regex*> matches = {};     // each is found somewhere in the string, as `pattern` means it
  std::vector<const Regex*> matches_not = {};
  size_t min_length = 0;                      // code points
  std::optional<size_t> max_length = {};
  std::vector<std::string> excluded = {};     // UTF-8

  bool empty() const { return matches.empty() && matches_not.empty() && min_length == 0 && !max_length && excluded.empty(); }
};

// The inside of a JSON string (without its quotes) whose text keeps the limits, as rules named prefix0, prefix1, …; the first is where it
// begins. Empty when no string keeps them. An error when more than max_schema_automaton_states would be needed.
Result<std::string> string_rules(const StringLimits& limits, std::string_view prefix);

// Whether strings keep the limits; what was found out about one helps with the next. `limits` must outlive it. An error when all texts together
// were too much work.
class StringCheck {
 public:
  explicit StringCheck(const StringLimits& limits);
  ~StringCheck();
  Result<bool> keeps(std::string_view text);

 private:
  class Product;
  friend Result<std::string> string_rules(const StringLimits& limits, std::string_view prefix);
  std::unique_ptr<Product> product_;
};

// One code point of `ranges` as it stands inside a JSON string: plain, or escaped where JSON demands it. GBNF; "[]" for nothing.
std::string json_character(const std::vector<CodeRange>& ranges);

// `regex` written as GBNF, where its ^ and $ stand only at the ends of its alternatives; nothing where they do not.
std::optional<std::string> regex_expression(const Regex& regex);

// A GBNF literal: quoted and escaped.
std::string gbnf_literal(std::string_view text);

}  // namespace vigil::text
