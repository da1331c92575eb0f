// A recursive descent over the pattern's bytes; groups are the only recursion, and that has a limit.
#include "server/text/regex.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "server/text/utf8.hpp"

namespace vigil::text {
namespace {

constexpr char32_t last_code_point = 0x10FFFF, first_surrogate = 0xD800, last_surrogate = 0xDFFF;

const std::vector<CodeRange> digits = {{'0', '9'}};
const std::vector<CodeRange> words = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const std::vector<CodeRange> spaces = {{'\t', '\r'}, {' ', ' '}};
const std::vector<CodeRange> line_ends = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}
  Result<Regex> run() {
    regex_.root = choice(0);
    if (!failure_ && at_ < text_.size()) fail("')' without '('");
    if (failure_) return std::move(*failure_);
    return std::move(regex_);
  }

 private:
  using Kind = Regex::Kind;
  char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  bool ended() const { return at_ >= text_.size(); }
  void fail(const std::string& what) {
    if (!failure_) failure_ = Error{"the pattern at byte " + std::to_string(at_ + 1) + ": " + what};
  }
  uint32_t add(Regex::Node node) {
    regex_.nodes.push_back(std::move(node));
    return static_cast<uint32_t>(regex_.nodes.size() - 1);
  }
  uint32_t group(Kind kind, std::vector<uint32_t> parts) { return parts.size() == 1 ? parts.front() : add({kind, {}, std::move(parts)}); }
  uint32_t set(std::vector<CodeRange> ranges, bool negated = false) { return add({Kind::set, tidy_ranges(std::move(ranges), negated)}); }

  uint32_t choice(size_t depth) {
    std::vector<uint32_t> ways = {sequence(depth)};
    while (!failure_ && peek() == '|' && !ended()) {
      ++at_;
      ways.push_back(sequence(depth));
    }
    return group(Kind::choice, std::move(ways));
  }

  uint32_t sequence(size_t depth) {
    std::vector<uint32_t> parts;
    while (!failure_ && !ended() && peek() != '|' && peek() != ')') parts.push_back(quantified(atom(depth)));
    return group(Kind::sequence, std::move(parts));
  }

  uint32_t quantified(uint32_t part) {
    size_t quantifiers = 0;
    while (!failure_ && !ended()) {
      Regex::Node node{Kind::repeat, {}, {part}};
      const char c = peek();
      if (c == '+') node.min = 1;
      else if (c == '?') node.max = 1;
      else if (c == '{') {
        if (!counts(node)) return part;
      } else if (c != '*') return part;
      if (c != '{') ++at_;
      if (++quantifiers > 1) return fail("a quantifier behind a quantifier"), part;
      if (peek() == '?') ++at_;  // lazy: the same texts
      if (peek() == '+') return fail("possessive quantifiers are not supported"), part;
      part = add(std::move(node));
    }
    return part;
  }

  // {m}, {m,} or {m,n}; false, and nothing is read, where the brace means itself.
  bool counts(Regex::Node& node) {
    size_t at = at_ + 1;
    const auto number = [&]() -> std::optional<uint32_t> {
      if (at >= text_.size() || text_[at] < '0' || text_[at] > '9') return std::nullopt;
      uint64_t value = 0;
      for (; at < text_.size() && text_[at] >= '0' && text_[at] <= '9'; ++at) value = std::min<uint64_t>(value * 10 + static_cast<uint64_t>(text_[at] - '0'), 1u << 30);
      return static_cast<uint32_t>(value);
    };
    const auto min = number();
    if (!min) return fail("'{' without a number behind it; write \\{ for the sign"), false;
    node.min = node.max = *min;
    if (at < text_.size() && text_[at] == ',') {
      ++at;
      node.max = number().value_or(protocol::gbnf::unbounded);
    }
    if (at >= text_.size() || text_[at] != '}') return fail("a repetition is written {m}, {m,} or {m,n}"), false;
    at_ = at + 1;
    if (node.max < node.min) return fail("a repetition whose most is below its least"), false;
    if (node.min > max_pattern_repeat || (node.max != protocol::gbnf::unbounded && node.max > max_pattern_repeat)) {
      return fail("more than " + std::to_string(max_pattern_repeat) + " repetitions"), false;
    }
    return true;
  }

  uint32_t atom(size_t depth) {
    const char c = peek();
    switch (c) {
      case '(': return parenthesis(depth);
      case '[': return bracket();
      case '.': return ++at_, set(line_ends, true);
      case '^': return ++at_, add({Kind::begin});
      case '$': return ++at_, add({Kind::end});
      case '*': case '+': case '?': case '{': return fail("a quantifier with nothing before it"), 0;
      case '\\': {
        std::vector<CodeRange> ranges;
        bool negated = false;
        if (!escape(ranges, negated)) return 0;
        return set(std::move(ranges), negated);
      }
      default: break;
    }
    const auto read = character();
    return read ? set({{*read, *read}}) : 0;
  }

  uint32_t parenthesis(size_t depth) {
    if (depth == max_pattern_depth) return fail("groups deeper than " + std::to_string(max_pattern_depth)), 0;
    ++at_;
    if (peek() == '?') {
      if (peek(1) == ':') {
        at_ += 2;
      } else if ((peek(1) == '<' || (peek(1) == 'P' && peek(2) == '<')) && peek(2) != '=' && peek(2) != '!') {
        const size_t end = text_.find('>', at_);
        if (end == std::string_view::npos) return fail("a group's name is never closed"), 0;
        at_ = end + 1;
      } else {
        return fail("lookaround and flags, (?...), are not supported"), 0;
      }
    }
    const uint32_t inner = choice(depth + 1);
    if (failure_) return 0;
    if (peek() != ')' || ended()) return fail("a group is never closed"), 0;
    ++at_;
    return inner;
  }

  std::optional<char32_t> character() {
    const auto lead = static_cast<unsigned char>(peek());
    const size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (at_ + length > text_.size()) return fail("bytes that are not UTF-8"), std::nullopt;
    char32_t value = length == 1 ? lead : lead & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; ++i) value = value << 6 | (static_cast<unsigned char>(peek(i)) & 0x3Fu);
    if (valid_utf8(text_.substr(at_, length)) != text_.substr(at_, length)) return fail("bytes that are not UTF-8"), std::nullopt;
    at_ += length;
    return value;
  }

  std::optional<char32_t> hex(size_t count, size_t skip) {
    char32_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      const char c = peek(skip + i);
      const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
      if (digit < 0) return fail("an escape with too few hexadecimal digits"), std::nullopt;
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (value >= first_surrogate && value <= last_surrogate) return fail("half of a surrogate pair"), std::nullopt;
    at_ += skip + count;
    return value;
  }

  // Behind the backslash: a class (perhaps negated) or one code point.
  bool escape(std::vector<CodeRange>& ranges, bool& negated) {
    const char c = peek(1);
    std::optional<char32_t> one;
    switch (c) {
      case 'D': negated = true; [[fallthrough]];
      case 'd': ranges = digits; break;
      case 'W': negated = true; [[fallthrough]];
      case 'w': ranges = words; break;
      case 'S': negated = true; [[fallthrough]];
      case 's': ranges = spaces; break;
      case 'n': one = U'\n'; break;
      case 'r': one = U'\r'; break;
      case 't': one = U'\t'; break;
      case 'f': one = U'\f'; break;
      case 'v': one = U'\v'; break;
      case '0': one = U'\0'; break;
      case 'x': one = hex(2, 2); break;
      case 'u': one = hex(4, 2); break;
      default:
        if (at_ + 1 >= text_.size()) return fail("a backslash at the end"), false;
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '1' && c <= '9')) {
          return fail(std::string("\\") + c + " is not supported; what is: \\d \\w \\s and their capitals, \\n \\r \\t \\f \\v \\xHH \\uHHHH and escaped signs"), false;
        }
        ++at_;
        one = character();
        if (!one) return false;
        ranges = {{*one, *one}};
        return true;
    }
    if (failure_) return false;
    if (c != 'x' && c != 'u') at_ += 2;
    if (one) ranges = {{*one, *one}};
    return true;
  }

  uint32_t bracket() {
    ++at_;
    const bool negated = peek() == '^';
    if (negated) ++at_;
    std::vector<CodeRange> ranges;
    while (!failure_ && (peek() != ']' || ended())) {
      if (ended()) return fail("a class is never closed with ']'"), 0;
      std::vector<CodeRange> from;
      if (!member(from)) return 0;
      const bool single = from.size() == 1 && from.front().first == from.front().last;
      if (peek() == '-' && peek(1) != ']' && single) {
        ++at_;
        std::vector<CodeRange> to;
        if (!member(to)) return 0;
        if (to.size() != 1 || to.front().first != to.front().last || to.front().first < from.front().first) return fail("a range that is none"), 0;
        from.front().last = to.front().first;
      }
      ranges.insert(ranges.end(), from.begin(), from.end());
    }
    if (failure_) return 0;
    ++at_;
    return set(std::move(ranges), negated);
  }

  bool member(std::vector<CodeRange>& out) {
    if (peek() == '\\' && peek(1) == 'b') {
      at_ += 2;
      out = {{8, 8}};
      return true;
    }
    if (peek() == '\\') {
      bool negated = false;
      if (!escape(out, negated)) return false;
      if (negated) out = tidy_ranges(std::move(out), true);
      return true;
    }
    const auto c = character();
    if (c) out = {{*c, *c}};
    return c.has_value();
  }

  const std::string_view text_;
  size_t at_ = 0;
  std::optional<Error> failure_;
  Regex regex_;
};

}  // namespace

std::vector<CodeRange> tidy_ranges(std::vector<CodeRange> ranges, bool negated) {
  std::sort(ranges.begin(), ranges.end(), [](const CodeRange& a, const CodeRange& b) { return a.first < b.first; });
  std::vector<CodeRange> joined;
  for (const CodeRange& range : ranges) {
    if (!joined.empty() && range.first <= joined.back().last + 1) joined.back().last = std::max(joined.back().last, range.last);
    else joined.push_back(range);
  }
  if (negated) {
    std::vector<CodeRange> rest;
    char32_t next = 0;
    for (const CodeRange& range : joined) {
      if (range.first > next) rest.push_back({next, range.first - 1});
      next = range.last + 1;
    }
    if (next <= last_code_point) rest.push_back({next, last_code_point});
    joined = std::move(rest);
  }
  std::vector<CodeRange> out;
  for (const CodeRange& range : joined) {
    if (range.first < first_surrogate) out.push_back({range.first, std::min<char32_t>(range.last, first_surrogate - 1)});
    if (range.last > last_surrogate) out.push_back({std::max<char32_t>(range.first, last_surrogate + 1), range.last});
  }
  return out;
}

Result<Regex> parse_regex(std::string_view pattern) {
  if (pattern.size() > max_pattern_bytes) return Error{"the pattern has more than " + std::to_string(max_pattern_bytes) + " bytes"};
  return Parser(pattern).run();
}

}  // namespace vigil::text
