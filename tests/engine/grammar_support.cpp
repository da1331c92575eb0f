// The slow matcher and the random grammars.
#include "grammar_support.hpp"

namespace vigil::testing {
namespace {

// The code point at `at` and its length; 0 length for what is no UTF-8.
std::pair<char32_t, size_t> decode(std::string_view text, size_t at) {
  if (at >= text.size()) return {0, 0};
  const auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u; };
  if (byte(0) < 0x80) return {byte(0), 1};
  const size_t length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : byte(0) >= 0xC2 ? 2 : 0;
  if (length == 0) return {0, 0};
  char32_t value = byte(0) & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {0, 0};
    value = value << 6 | (byte(i) & 0x3F);
  }
  return {value, length};
}

std::string random_part(std::mt19937& random, int depth, int rules, bool& reads) {
  const auto pick = [&](unsigned n) { return random() % n; };
  static const char* const leaves[] = {"\"a\"", "\"ab\"", "\"b\"", "[a-c]", "[^b]", "[\\u00e9]", "\"\\u00e9\"", ".", "\"ca\""};
  if (depth <= 0 || pick(3) == 0) {
    reads = true;
    return leaves[pick(std::size(leaves))];
  }
  switch (pick(5)) {
    case 0: {
      bool inner = false;
      const std::string part = random_part(random, depth - 1, rules, inner);
      static const char* const ops[] = {"*", "?", "+", "{2}", "{1,3}", "{0,2}", "{2,}", "{9,12}"};
      const std::string op = ops[pick(std::size(ops))];
      reads = inner && op != "*" && op != "?" && op != "{0,2}";
      return "(" + part + ")" + op;
    }
    case 1: {
      bool left = false, right = false;
      const std::string made = "(" + random_part(random, depth - 1, rules, left) + " | " + (pick(4) == 0 ? "" : random_part(random, depth - 1, rules, right)) + ")";
      reads = left && right;
      return made;
    }
    case 2:
      if (rules > 0) {  // behind something that reads, so that no rule begins with itself
        reads = true;
        return std::string("\"") + "abc"[pick(3)] + "\" (r" + std::to_string(pick(static_cast<unsigned>(rules))) + ")?";
      }
      [[fallthrough]];
    default: {
      bool left = false, right = false;
      const std::string made = random_part(random, depth - 1, rules, left) + " " + random_part(random, depth - 1, rules, right);
      reads = left || right;
      return "(" + made + ")";
    }
  }
}

}  // namespace

std::set<size_t> SlowMatcher::ends_of_class(const protocol::gbnf::Expression& expression, size_t at) const {
  const auto [c, length] = decode(text_, at);
  for (const auto& range : expression.ranges) {
    if (length != 0 && range.first <= c && c <= range.last) return {at + length};
  }
  return {};
}

std::set<size_t> SlowMatcher::ends(uint32_t index, size_t at) {
  const auto known = known_.find({index, at});
  if (known != known_.end()) return known->second;
  return known_[{index, at}] = find_ends(index, at);
}

std::set<size_t> SlowMatcher::find_ends(uint32_t index, size_t at) {
  const protocol::gbnf::Expression& expression = grammar_.expressions[index];
  std::set<size_t> here;
  switch (expression.kind) {
    case Kind::literal:
      if (text_.substr(at, expression.text.size()) == expression.text) here.insert(at + expression.text.size());
      return here;
    case Kind::characters: return ends_of_class(expression, at);
    case Kind::rule: return ends(grammar_.rules[expression.rule].expression, at);
    case Kind::token: return here;
    case Kind::choice:
      for (const uint32_t part : expression.parts) here.merge(ends(part, at));
      return here;
    case Kind::sequence:
      here.insert(at);
      for (const uint32_t part : expression.parts) {
        std::set<size_t> next;
        for (const size_t from : here) next.merge(ends(part, from));
        here = std::move(next);
      }
      return here;
    case Kind::repeat: break;
  }
  // Turn by turn; once no turn finds a new place, further turns change nothing but the count.
  std::set<size_t> turn = {at}, out;
  if (expression.min == 0) out.insert(at);
  const uint32_t most = expression.max == protocol::gbnf::unbounded ? expression.min + static_cast<uint32_t>(text_.size()) + 1 : expression.max;
  for (uint32_t count = 1; count <= most && !turn.empty(); ++count) {
    std::set<size_t> next;
    for (const size_t from : turn) next.merge(ends(expression.parts.front(), from));
    turn = std::move(next);
    if (count >= expression.min) out.insert(turn.begin(), turn.end());
  }
  return out;
}

std::string random_grammar(std::mt19937& random) {
  const int rules = static_cast<int>(random() % 4);
  bool reads = false;
  std::string text = "root ::= " + random_part(random, 4, rules, reads) + "\n";
  for (int r = 0; r < rules; ++r) text += "r" + std::to_string(r) + " ::= " + random_part(random, 3, rules, reads) + "\n";
  return text;
}

}  // namespace vigil::testing
