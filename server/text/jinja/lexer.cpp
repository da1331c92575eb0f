// See lexer.hpp.
#include "server/text/jinja/lexer.hpp"

#include <algorithm>
#include <deque>

#include "server/text/jinja/failure.hpp"
#include "server/text/jinja/strings.hpp"

namespace vigil::text::jinja {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_begin(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80; }
bool is_name_part(char c) { return is_name_begin(c) || is_digit(c); }

std::string normalise(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

class Lexer {
 public:
  Lexer(std::string_view source, Tokens& out) : out_(out) {
    out_.source = normalise(source);
    text_ = out_.source;
  }

  void run() {
    while (at_ < text_.size()) read_data();
    push(Token::Kind::end, at_, "");
  }

 private:
  // Lines are counted as the reader passes; places only grow.
  void count_to(size_t place) {
    for (; counted_ < place; ++counted_) {
      if (text_[counted_] == '\n') {
        ++line_;
        line_begin_ = counted_ + 1;
      }
    }
  }
  void push(Token::Kind kind, size_t place, std::string_view text) {
    count_to(place);
    out_.list.push_back({kind, line_, static_cast<uint32_t>(place - std::min(place, line_begin_) + 1), text});
  }
  [[noreturn]] void error(size_t place, const std::string& what) {
    count_to(place);
    syntax_error(line_, static_cast<uint32_t>(place - std::min(place, line_begin_) + 1), what);
  }
  char peek(size_t place) const { return place < text_.size() ? text_[place] : '\0'; }
  size_t skip_space(size_t place) const {
    while (place < text_.size()) {
      const size_t bytes = character_bytes(text_, place);
      if (!is_space(code_point(text_, place, bytes))) break;
      place += bytes;
    }
    return place;
  }

  size_t next_tag(size_t from) const {
    for (size_t at = text_.find('{', from); at != std::string_view::npos; at = text_.find('{', at + 1)) {
      const char next = peek(at + 1);
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return std::string_view::npos;
  }

  // `sign` of the tag that follows: what white space before it goes.
  void push_data(size_t begin, size_t end, char sign, bool variable) {
    if (sign == '-') {
      String text;
      text.data = text_.data() + begin;
      text.size = end - begin;
      Work work{text.size};  // white space costs none
      end = begin + strip(work, text, nullptr, Side::right).end;
    } else if (sign != '+' && !variable) {
      size_t line = end;
      while (line > begin && text_[line - 1] != '\n') --line;
      if ((line > begin || line_starting_) && skip_space(line) >= end) end = line;
    }
    if (end > begin) push(Token::Kind::data, begin, text_.substr(begin, end - begin));
  }

  void read_data() {
    const size_t tag = next_tag(at_);
    if (tag == std::string_view::npos) {
      push(Token::Kind::data, at_, text_.substr(at_));
      at_ = text_.size();
      return;
    }
    const char kind = text_[tag + 1];
    const char sign = peek(tag + 2) == '-' || peek(tag + 2) == '+' ? text_[tag + 2] : '\0';
    const size_t inside = tag + 2 + (sign != '\0');
    push_data(at_, tag, sign, kind == '{');
    if (kind == '#') return read_comment(tag, inside);
    if (kind == '%') {
      if (const size_t body = raw_begin(inside)) return read_raw(tag, body);
      push(Token::Kind::block_begin, tag, "");
      return read_inside(inside, '%');
    }
    push(Token::Kind::variable_begin, tag, "");
    read_inside(inside, '}');
  }

  // After a tag's end at `place`: trims as the sign and trim_blocks say. `newline`: whether one line break goes.
  void end_tag(size_t place, char sign, bool newline) {
    if (sign == '-') place = skip_space(place);
    if (sign == '\0' && newline && peek(place) == '\n') ++place;
    at_ = place;
    line_starting_ = place > 0 && text_[place - 1] == '\n';
  }

  void read_comment(size_t tag, size_t inside) {
    const size_t end = text_.find("#}", inside);
    if (end == std::string_view::npos) error(tag, "the comment has no end #}");
    const char last = end > inside ? text_[end - 1] : '\0';
    end_tag(end + 2, last == '-' || last == '+' ? last : '\0', true);
  }

  // The place behind `raw %}`, or 0.
  size_t raw_begin(size_t inside) const {
    size_t at = skip_space(inside);
    if (text_.substr(at, 3) != "raw") return 0;
    at = skip_space(at + 3);
    if (peek(at) == '-' && text_.substr(at + 1, 2) == "%}") return skip_space(at + 3);
    return text_.substr(at, 2) == "%}" ? at + 2 : 0;
  }

  void read_raw(size_t tag, size_t body) {
    line_starting_ = body > 0 && text_[body - 1] == '\n';
    for (size_t at = text_.find("{%", body); at != std::string_view::npos; at = text_.find("{%", at + 2)) {
      size_t inside = at + 2;
      char sign = '\0';
      if (peek(inside) == '-' || peek(inside) == '+') sign = text_[inside++];
      inside = skip_space(inside);
      if (text_.substr(inside, 6) != "endraw") continue;
      inside = skip_space(inside + 6);
      const char last = peek(inside) == '-' || peek(inside) == '+' ? text_[inside++] : '\0';
      if (text_.substr(inside, 2) != "%}") continue;
      push_data(body, at, sign, false);
      return end_tag(inside + 2, last, true);
    }
    error(tag, "the raw block has no end {% endraw %}");
  }

  // Up to %} (`end` = '%') or }} outside brackets.
  void read_inside(size_t at, char end) {
    const size_t begin = at;
    brackets_.clear();
    for (;;) {
      at = skip_space(at);
      if (at >= text_.size()) error(begin, end == '%' ? "the tag has no end %}" : "the expression has no end }}");
      if (brackets_.empty()) {
        const size_t place = at + (peek(at) == '-' || (end == '%' && peek(at) == '+') ? 1 : 0);
        if (peek(place) == end && peek(place + 1) == '}') {
          push(end == '%' ? Token::Kind::block_end : Token::Kind::variable_end, at, "");
          return end_tag(place + 2, place > at ? text_[at] : '\0', end == '%');
        }
      }
      at = read_token(at);
    }
  }

  size_t read_token(size_t at) {
    const char c = text_[at];
    if (is_digit(c)) return read_number(at);
    if (is_name_begin(c)) {
      size_t end = at + 1;
      while (end < text_.size() && is_name_part(text_[end])) ++end;
      push(Token::Kind::name, at, text_.substr(at, end - at));
      return end;
    }
    if (c == '"' || c == '\'') return read_string(at);
    static constexpr std::string_view two[] = {"//", "**", "==", "!=", ">=", "<="};
    for (const std::string_view symbol : two) {
      if (text_.substr(at, 2) != symbol) continue;
      push(Token::Kind::symbol, at, text_.substr(at, 2));
      return at + 2;
    }
    if (std::string_view("+-*/%~[](){}<>=.:|,;").find(c) == std::string_view::npos) {
      error(at, "unexpected character '" + std::string(text_.substr(at, character_bytes(text_, at))) + "'");
    }
    balance(at, c);
    push(Token::Kind::symbol, at, text_.substr(at, 1));
    return at + 1;
  }

  void balance(size_t at, char c) {
    if (c == '(' || c == '[' || c == '{') brackets_.push_back(c == '(' ? ')' : c == '[' ? ']' : '}');
    if (c != ')' && c != ']' && c != '}') return;
    if (brackets_.empty()) error(at, std::string("unexpected '") + c + "'");
    if (brackets_.back() != c) error(at, std::string("unexpected '") + c + "', expected '" + brackets_.back() + "'");
    brackets_.pop_back();
  }

  size_t digits(size_t at, int base) const {
    for (;;) {
      const size_t here = peek(at) == '_' ? at + 1 : at;
      const int digit = hex_digit(peek(here));
      if (digit < 0 || digit >= base) return at;
      at = here + 1;
    }
  }

  size_t read_number(size_t at) {
    const char kind = static_cast<char>(peek(at + 1) | 0x20);
    if (text_[at] == '0' && (kind == 'x' || kind == 'o' || kind == 'b')) {
      const size_t end = digits(at + 2, kind == 'x' ? 16 : kind == 'o' ? 8 : 2);
      if (end > at + 2) {
        push(Token::Kind::integer, at, text_.substr(at, end - at));
        return end;
      }
    }
    size_t end = digits(at, 10);
    bool real = false;
    const bool after_dot = at > 0 && text_[at - 1] == '.';
    if (!after_dot && peek(end) == '.' && is_digit(peek(end + 1))) {
      end = digits(end + 1, 10);
      real = true;
    }
    if (!after_dot && (peek(end) | 0x20) == 'e') {
      size_t exponent = end + 1;
      if (peek(exponent) == '+' || peek(exponent) == '-') ++exponent;
      if (is_digit(peek(exponent))) {
        end = digits(exponent, 10);
        real = true;
      }
    }
    push(real ? Token::Kind::real : Token::Kind::integer, at, text_.substr(at, end - at));
    return end;
  }

  size_t read_string(size_t at) {
    const char quote = text_[at];
    size_t end = at + 1;
    bool escaped = false;
    while (end < text_.size() && text_[end] != quote) {
      if (text_[end] == '\\') {
        escaped = true;
        ++end;
      }
      ++end;
    }
    if (end >= text_.size()) error(at, "the string has no end");
    const std::string_view body = text_.substr(at + 1, end - at - 1);
    if (escaped) {
      kept_.push_back(unescape(body, at));
      push(Token::Kind::string, at, kept_.back());
    } else {
      push(Token::Kind::string, at, body);
    }
    return end + 1;
  }

  // Python's escapes in a string.
  std::string unescape(std::string_view body, size_t at) {
    std::string out;
    for (size_t i = 0; i < body.size(); ++i) {
      if (body[i] != '\\') {
        out += body[i];
        continue;
      }
      const char c = body[++i];
      static constexpr std::string_view plain = "\\'\"abfnrtv", meant = "\\'\"\a\b\f\n\r\t\v";
      if (const size_t known = plain.find(c); known != std::string_view::npos) {
        out += meant[known];
      } else if (c == '\n') {
      } else if (c >= '0' && c <= '7') {
        uint32_t value = 0;
        size_t n = 0;
        for (; n < 3 && i + n < body.size() && body[i + n] >= '0' && body[i + n] <= '7'; ++n) value = value * 8 + static_cast<uint32_t>(body[i + n] - '0');
        i += n - 1;
        append_utf8(out, value);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const size_t count = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        uint32_t value = 0;
        for (size_t n = 1; n <= count; ++n) {
          const int digit = i + n < body.size() ? hex_digit(body[i + n]) : -1;
          if (digit < 0) error(at, std::string("the string has a \\") + c + " without its " + std::to_string(count) + " hexadecimal digits");
          value = value << 4 | static_cast<uint32_t>(digit);
        }
        if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) error(at, "the string has an escape of no character");
        i += count;
        append_utf8(out, value);
      } else {
        out += '\\';
        out += c;
      }
    }
    return out;
  }

  Tokens& out_;
  std::string_view text_;
  std::deque<std::string>& kept_ = out_.unescaped;
  std::string brackets_;
  size_t at_ = 0, counted_ = 0, line_begin_ = 0;
  uint32_t line_ = 1;
  bool line_starting_ = true;
};

}  // namespace

void read_tokens(std::string_view source, Tokens& out) { Lexer(source, out).run(); }

void syntax_error(uint32_t line, uint32_t column, const std::string& what) {
  throw Failure{Failure::Kind::syntax, "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + what};
}

}  // namespace vigil::text::jinja
