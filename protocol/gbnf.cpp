// Reads GBNF with one position and no backtracking beyond the name that begins the next rule. What the rules mean together: gbnf_check.
#include "protocol/gbnf.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "protocol/gbnf_check.hpp"

namespace vigil::protocol::gbnf {
namespace {

using Kind = Expression::Kind;
constexpr char32_t last_code_point = 0x10FFFF;
constexpr char32_t first_surrogate = 0xD800, last_surrogate = 0xDFFF;

bool is_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

// Sorted, joined, without surrogates; turned around when `negated`.
std::vector<Range> tidy(std::vector<Range> ranges, bool negated) {
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  std::vector<Range> joined;
  for (const Range& range : ranges) {
    if (!joined.empty() && range.first <= joined.back().last + 1) {
      joined.back().last = std::max(joined.back().last, range.last);
    } else {
      joined.push_back(range);
    }
  }
  if (negated) {
    std::vector<Range> rest;
    char32_t next = 0;
    for (const Range& range : joined) {
      if (range.first > next) rest.push_back({next, range.first - 1});
      next = range.last + 1;
    }
    if (next <= last_code_point) rest.push_back({next, last_code_point});
    joined = std::move(rest);
  }
  std::vector<Range> out;
  for (const Range& range : joined) {
    if (range.first < first_surrogate) out.push_back({range.first, std::min<char32_t>(range.last, first_surrogate - 1)});
    if (range.last > last_surrogate) out.push_back({std::max<char32_t>(range.first, last_surrogate + 1), range.last});
  }
  return out;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Grammar> run() {
    skip_blank();
    while (!failed() && at_ < text_.size()) parse_rule();
    if (!failed()) resolve_names();
    if (failed()) return std::move(*failure_);
    if (Result<void> meaning = check(grammar_); !meaning) return Error{meaning.error()};
    return std::move(grammar_);
  }

 private:
  bool failed() const { return failure_.has_value(); }
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void fail_at(size_t place, const std::string& what) {
    if (failed()) return;
    size_t line = 1, column = 1;
    for (size_t i = 0; i < place && i < text_.size(); ++i) {
      if (text_[i] == '\n') {
        ++line;
        column = 1;
      } else if ((static_cast<unsigned char>(text_[i]) & 0xC0) != 0x80) {
        ++column;
      }
    }
    failure_ = Error{"grammar line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + what};
  }
  void fail(const std::string& what) { fail_at(at_, what); }

  void skip_blank() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        if (c == '\n') ++line_;
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view name_here() const {
    size_t end = at_;
    while (end < text_.size() && is_name(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  // Whether "name ::=" stands here. Names are looked at twice at most, so time stays linear.
  bool rule_begins() const {
    size_t after = at_ + name_here().size();
    if (after == at_) return false;
    while (after < text_.size() && (text_[after] == ' ' || text_[after] == '\t')) ++after;
    return text_.substr(after, 3) == "::=";
  }

  void parse_rule() {
    const size_t place = at_;
    const size_t line = line_;
    const std::string name(name_here());
    if (name.empty() || !rule_begins()) return fail("a rule is expected here: name ::= ...");
    at_ += name.size();
    skip_blank();
    at_ += 3;
    skip_blank();
    const uint32_t expression = parse_choice(0);
    if (failed()) return;
    if (at_ < text_.size() && !rule_begins()) return fail(peek() == ')' ? "')' without '('" : "an element, '|' or the next rule is expected here");
    if (grammar_.rules.size() == max_rules) return fail_at(place, "more than " + std::to_string(max_rules) + " rules");
    const auto [known, fresh] = rules_.emplace(name, static_cast<uint32_t>(grammar_.rules.size()));
    if (!fresh) return fail_at(place, "rule " + name + " is defined twice (first in line " + std::to_string(grammar_.rules[known->second].line) + ")");
    grammar_.rules.push_back({name, expression, line});
  }

  uint32_t add(Expression expression) {
    uint16_t depth = 0;
    for (const uint32_t part : expression.parts) depth = std::max(depth, grammar_.expressions[part].depth);
    expression.depth = static_cast<uint16_t>(depth + 1);
    if (expression.depth > 3 * max_depth) fail("repetitions and groups inside each other deeper than " + std::to_string(max_depth));
    grammar_.expressions.push_back(std::move(expression));
    return static_cast<uint32_t>(grammar_.expressions.size() - 1);
  }

  // A choice or sequence of one is that one.
  uint32_t group(Kind kind, std::vector<uint32_t> parts) {
    if (parts.size() == 1) return parts.front();
    Expression made;
    made.kind = kind;
    made.parts = std::move(parts);
    return add(std::move(made));
  }

  uint32_t parse_choice(size_t depth) {
    std::vector<uint32_t> sequences = {parse_sequence(depth)};
    while (!failed() && peek() == '|') {
      ++at_;
      skip_blank();
      sequences.push_back(parse_sequence(depth));
    }
    return failed() ? 0 : group(Kind::choice, std::move(sequences));
  }

  uint32_t parse_sequence(size_t depth) {
    std::vector<uint32_t> elements;
    while (!failed() && at_ < text_.size() && peek() != '|' && peek() != ')' && !rule_begins()) {
      uint32_t element = parse_element(depth);
      if (failed()) return 0;
      skip_blank();
      while (!failed() && (peek() == '*' || peek() == '+' || peek() == '?' || peek() == '{')) {
        element = parse_repeat(element);
        skip_blank();
      }
      elements.push_back(element);
    }
    return failed() ? 0 : group(Kind::sequence, std::move(elements));
  }

  uint32_t parse_element(size_t depth) {
    const char c = peek();
    if (c == '"') return parse_literal();
    if (c == '[') return parse_class();
    if (c == '<') return parse_token();
    if (c == '.') {
      ++at_;
      return add_class({}, true);
    }
    if (c == '(') {
      if (depth == max_depth) return fail("groups inside each other deeper than " + std::to_string(max_depth)), 0;
      const size_t place = at_++;
      skip_blank();
      const uint32_t inner = parse_choice(depth + 1);
      if (failed()) return 0;
      if (peek() != ')') return fail_at(place, "this '(' is never closed"), 0;
      ++at_;
      return inner;
    }
    if (is_name(c)) {
      const std::string name(name_here());
      uses_.push_back({static_cast<uint32_t>(grammar_.expressions.size()), at_, name});
      at_ += name.size();
      Expression made;
      made.kind = Kind::rule;
      return add(std::move(made));
    }
    if (c == '*' || c == '+' || c == '?' || c == '{') return fail(std::string("'") + c + "' has nothing before it to repeat"), 0;
    return fail("an element is expected here: \"text\", [class], ., a rule's name or a group in ( )"), 0;
  }

  // One code point, as it stands or as an escape; `closing` is the sign that ends the literal or class.
  std::optional<char32_t> parse_character(const char* where) {
    const auto byte = static_cast<unsigned char>(peek());
    if (byte == '\n') return fail(std::string("a line break inside ") + where + "; write \\n"), std::nullopt;
    if (byte != '\\') return parse_utf8();
    const char kind = peek(1);
    if (kind == 'x') return parse_hex(2);
    if (kind == 'u') return parse_hex(4);
    if (kind == 'U') return parse_hex(8);
    const auto sign = static_cast<unsigned char>(kind);
    const bool letter = (kind >= 'a' && kind <= 'z') || (kind >= 'A' && kind <= 'Z') || is_digit(kind);
    if (kind != 'n' && kind != 'r' && kind != 't' && (letter || sign < 0x21 || sign > 0x7E)) {
      return fail("unknown escape; known are \\n \\r \\t \\xNN \\uNNNN \\UNNNNNNNN and a backslash before a sign"), std::nullopt;
    }
    at_ += 2;
    return kind == 'n' ? U'\n' : kind == 'r' ? U'\r' : kind == 't' ? U'\t' : static_cast<char32_t>(sign);
  }

  std::optional<char32_t> parse_hex(size_t digits) {
    char32_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      const int digit = hex_value(peek(2 + i));
      if (digit < 0) return fail("this escape needs " + std::to_string(digits) + " hexadecimal digits"), std::nullopt;
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (value > last_code_point || (value >= first_surrogate && value <= last_surrogate)) return fail("this is no code point of Unicode text"), std::nullopt;
    at_ += 2 + digits;
    return value;
  }

  std::optional<char32_t> parse_utf8() {
    const auto lead = static_cast<unsigned char>(peek());
    const size_t length = lead < 0x80 ? 1 : lead >= 0xC2 && lead < 0xE0 ? 2 : lead >= 0xE0 && lead < 0xF0 ? 3 : lead >= 0xF0 && lead < 0xF5 ? 4 : 0;
    char32_t value = length == 1 ? lead : length == 2 ? lead & 0x1Fu : length == 3 ? lead & 0x0Fu : lead & 0x07u;
    bool valid = length != 0 && at_ + length <= text_.size();
    for (size_t i = 1; valid && i < length; ++i) {
      const auto next = static_cast<unsigned char>(peek(i));
      valid = (next & 0xC0) == 0x80;
      value = (value << 6) | (next & 0x3F);
    }
    constexpr char32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (!valid || value < least[length] || value > last_code_point || (value >= first_surrogate && value <= last_surrogate)) {
      return fail("bytes that are not UTF-8"), std::nullopt;
    }
    at_ += length;
    return value;
  }

  uint32_t parse_literal() {
    const size_t place = at_++;
    Expression made;
    made.kind = Kind::literal;
    while (!failed() && peek() != '"') {
      if (at_ == text_.size()) return fail_at(place, "this literal is never closed with '\"'"), 0;
      const auto c = parse_character("a literal");
      if (c) append_utf8(made.text, *c);
    }
    if (failed()) return 0;
    ++at_;
    return add(std::move(made));
  }

  uint32_t parse_class() {
    const size_t place = at_++;
    const bool negated = peek() == '^';
    if (negated) ++at_;
    std::vector<Range> ranges;
    while (!failed() && peek() != ']') {
      if (at_ == text_.size()) return fail_at(place, "this class is never closed with ']'"), 0;
      const size_t begin = at_;
      const auto first = parse_character("a class");
      if (!first) return 0;
      auto last = first;
      if (peek() == '-' && peek(1) != ']' && at_ + 1 < text_.size()) {
        ++at_;
        last = parse_character("a class");
        if (!last) return 0;
      }
      if (*last < *first) return fail_at(begin, "a range that ends before it begins"), 0;
      ranges.push_back({*first, *last});
    }
    if (failed()) return 0;
    ++at_;
    ranges_ += ranges.size() + 1;
    if (ranges_ > max_ranges) return fail_at(place, "more than " + std::to_string(max_ranges) + " characters and ranges in classes"), 0;
    return add_class(std::move(ranges), negated);
  }

  uint32_t add_class(std::vector<Range> ranges, bool negated) {
    Expression made;
    made.kind = Kind::characters;
    made.ranges = tidy(std::move(ranges), negated);
    return add(std::move(made));
  }

  std::optional<uint32_t> parse_number(uint32_t most) {
    if (!is_digit(peek())) return std::nullopt;
    uint64_t value = 0;
    while (is_digit(peek())) {
      value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(peek() - '0'), uint64_t{1} << 40);
      ++at_;
    }
    if (value > most) return fail("a number above " + std::to_string(most)), std::nullopt;
    return static_cast<uint32_t>(value);
  }

  uint32_t parse_token() {
    const size_t place = at_;
    if (peek(1) == '[') {
      at_ += 2;
      const auto id = parse_number(std::numeric_limits<int32_t>::max());
      if (failed()) return 0;
      if (id && peek() == ']' && peek(1) == '>') {
        at_ += 2;
        Expression made;
        made.kind = Kind::token;
        made.token = static_cast<int32_t>(*id);
        return add(std::move(made));
      }
    }
    return fail_at(place, "a token is written <[id]>, with its number"), 0;
  }

  uint32_t parse_repeat(uint32_t element) {
    Expression made;
    made.kind = Kind::repeat;
    made.parts = {element};
    const size_t place = at_;
    const char sign = peek();
    ++at_;
    if (sign == '+') made.min = 1;
    if (sign == '?') made.max = 1;
    if (sign == '{') {
      skip_blank();
      const auto min = parse_number(max_repeat);
      skip_blank();
      made.min = min.value_or(0);
      made.max = made.min;
      bool comma = peek() == ',';
      if (comma) {
        ++at_;
        skip_blank();
        made.max = parse_number(max_repeat).value_or(unbounded);
        skip_blank();
      }
      if (failed()) return 0;
      if (peek() != '}' || (!min && !comma)) return fail_at(place, "a repetition is written {m}, {m,} or {m,n}"), 0;
      ++at_;
      if (made.max < made.min) return fail_at(place, "a repetition whose most is below its least"), 0;
    }
    return add(std::move(made));
  }

  void resolve_names() {
    for (const Use& use : uses_) {
      const auto found = rules_.find(use.name);
      if (found == rules_.end()) return fail_at(use.place, "rule " + use.name + " is not defined");
      grammar_.expressions[use.expression].rule = found->second;
    }
    const auto root = rules_.find("root");
    if (root == rules_.end()) return fail_at(0, "there is no rule named root, which is where a grammar begins");
    grammar_.root = root->second;
  }

  struct Use {
    uint32_t expression;
    size_t place;
    std::string name;
  };
  const std::string_view text_;
  size_t at_ = 0, line_ = 1, ranges_ = 0;
  std::optional<Error> failure_;
  Grammar grammar_;
  std::unordered_map<std::string, uint32_t> rules_;
  std::vector<Use> uses_;
};

}  // namespace

Result<Grammar> parse(std::string_view text) {
  if (text.size() > max_text_bytes) {
    return Error{"the grammar has " + std::to_string(text.size()) + " bytes; at most " + std::to_string(max_text_bytes) + " are allowed"};
  }
  return Parser(text).run();
}

}  // namespace vigil::protocol::gbnf
