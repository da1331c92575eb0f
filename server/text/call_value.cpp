// See call_value.hpp.
#include "server/text/call_value.hpp"

#include "server/text/output_call.hpp"

namespace vigil::text {
namespace {

constexpr std::string_view quote_mark = "<|\"|>";
constexpr size_t max_word_bytes = 512;  // a number longer than this is none

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_json_number(std::string_view text) {
  size_t at = 0;
  const auto digits = [&] {
    const size_t from = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at - from;
  };
  if (at < text.size() && text[at] == '-') ++at;
  const bool zero = at < text.size() && text[at] == '0';
  const size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) return false;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (digits() == 0) return false;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

void append_code(std::string& out, uint32_t code) {
  constexpr char digits[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += digits[(code >> shift) & 15];
}

void append_escaped(std::string& out, char c) {
  switch (c) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    default: break;
  }
  if (static_cast<unsigned char>(c) < 0x20) append_code(out, static_cast<unsigned char>(c));
  else out += c;
}

}  // namespace

void append_json_escaped(std::string& out, std::string_view text) {
  for (const char c : text) append_escaped(out, c);
}

std::string whole_value(ValueReader::Notation notation, std::string_view text) {
  ValueReader reader(notation);
  std::string out;
  bool done = false;
  for (const char c : text) {
    if (done || (!reader.started() && is_space(c))) {
      if (!is_space(c)) return {};
      continue;
    }
    switch (reader.feed(c, out)) {
      case ValueReader::Step::more: break;
      case ValueReader::Step::done: done = true; break;
      case ValueReader::Step::done_before:
        if (!is_space(c)) return {};
        done = true;
        break;
      case ValueReader::Step::bad: return {};
    }
  }
  if (!done && reader.feed(' ', out) != ValueReader::Step::done_before) return {};
  return out;
}

ValueReader::Step ValueReader::feed(char c, std::string& out) {
  switch (state_) {
    case State::string: return quote_ == '<' ? bare_string_character(c, out) : string_character(c, out);
    case State::escape: return escape_character(c, out);
    case State::hex: return hex_digit(c, out);
    case State::quote_mark:
      if (c != quote_mark[matched_]) return Step::bad;
      if (++matched_ == quote_mark.size()) return begin_string('<', key_, out);
      return Step::more;
    case State::number:
    case State::literal: {
      const bool part = state_ == State::number ? is_digit(c) || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E' : is_letter(c);
      if (part) {
        word_ += c;
        return word_.size() > max_word_bytes ? Step::bad : Step::more;
      }
      if (!end_word(out)) return Step::bad;
      if (end_value() == Step::done) return Step::done_before;
      return feed(c, out);  // once: the state is comma_or_close now
    }
    case State::bare_key:
      if (c == ':') {
        out += "\":";
        state_ = State::value;
        return Step::more;
      }
      if (is_space(c) || c == ',' || c == '{' || c == '}' || c == '"' || c == '<' || ++matched_ > max_call_name_bytes) return Step::bad;
      append_escaped(out, c);
      return Step::more;
    default: break;
  }
  if (is_space(c)) {
    if (!waiting_.empty()) waiting_ += c;
    else if (!stack_.empty()) out += c;
    return waiting_.size() > max_word_bytes ? Step::bad : Step::more;
  }
  switch (state_) {
    case State::value_or_close:
      if (!stack_.empty() && c == stack_.back()) return close_bracket(c, out);
      return begin_value(c, out);
    case State::value: return begin_value(c, out);
    case State::key_or_close:
      if (c == '}') return close_bracket(c, out);
      return begin_key(c, out);
    case State::key: return begin_key(c, out);
    case State::colon:
      if (c != ':') return Step::bad;
      out += c;
      state_ = State::value;
      return Step::more;
    case State::comma_or_close:
      if (c == stack_.back()) return close_bracket(c, out);
      if (c != ',') return Step::bad;
      waiting_ = ",";
      // Python allows a comma before the closing bracket.
      if (notation_ == Notation::python) state_ = stack_.back() == '}' ? State::key_or_close : State::value_or_close;
      else state_ = stack_.back() == '}' ? State::key : State::value;
      return Step::more;
    default: return Step::bad;
  }
}

void ValueReader::flush(std::string& out) {
  out += waiting_;
  waiting_.clear();
}

ValueReader::Step ValueReader::begin_value(char c, std::string& out) {
  if (c == '{' || c == '[' || (c == '(' && notation_ == Notation::python)) {
    if (stack_.size() >= max_call_depth) return Step::bad;
    flush(out);
    out += c == '{' ? '{' : '[';
    stack_.push_back(c == '{' ? '}' : c == '[' ? ']' : ')');
    state_ = c == '{' ? State::key_or_close : State::value_or_close;
    return Step::more;
  }
  if (c == '"' || (c == '\'' && notation_ == Notation::python)) return begin_string(c, false, out);
  if (c == '<' && notation_ == Notation::bare_keys) {
    matched_ = 1;
    key_ = false;
    state_ = State::quote_mark;
    return Step::more;
  }
  if (!is_digit(c) && c != '-' && !is_letter(c)) return Step::bad;
  word_ = c;
  state_ = is_letter(c) ? State::literal : State::number;
  return Step::more;
}

ValueReader::Step ValueReader::begin_key(char c, std::string& out) {
  if (c == '"' || (c == '\'' && notation_ == Notation::python)) return begin_string(c, true, out);
  if (notation_ != Notation::bare_keys) return Step::bad;
  if (c == '<') {
    matched_ = 1;
    key_ = true;
    state_ = State::quote_mark;
    return Step::more;
  }
  if (!is_letter(c) && !is_digit(c) && c != '_' && c != '$') return Step::bad;
  flush(out);
  out += '"';
  out += c;
  matched_ = 1;
  state_ = State::bare_key;
  return Step::more;
}

ValueReader::Step ValueReader::begin_string(char quote, bool key, std::string& out) {
  flush(out);
  out += '"';
  quote_ = quote;
  key_ = key;
  matched_ = 0;
  state_ = State::string;
  return Step::more;
}

ValueReader::Step ValueReader::string_character(char c, std::string& out) {
  if (high_surrogate_ && c != '\\') lone_surrogate(out);
  if (c == quote_) return end_string(out);
  if (c == '\\') state_ = State::escape;
  else append_escaped(out, c);
  return Step::more;
}

ValueReader::Step ValueReader::bare_string_character(char c, std::string& out) {
  if (c == quote_mark[matched_]) {
    return ++matched_ == quote_mark.size() ? end_string(out) : Step::more;
  }
  append_json_escaped(out, quote_mark.substr(0, matched_));
  matched_ = c == quote_mark[0] ? 1 : 0;
  if (matched_ == 0) append_escaped(out, c);
  return Step::more;
}

ValueReader::Step ValueReader::escape_character(char c, std::string& out) {
  const bool unicode = c == 'u' || (c == 'x' && notation_ == Notation::python);
  if (high_surrogate_ && c != 'u') lone_surrogate(out);
  if (unicode) {
    hex_left_ = c == 'u' ? 4 : 2;
    code_ = 0;
    state_ = State::hex;
    return Step::more;
  }
  state_ = State::string;
  constexpr std::string_view known = "\"\\/bfnrt";
  if (known.find(c) != std::string_view::npos) {
    out += '\\';
    out += c;
  } else if (c == '\'') {
    out += c;
  } else if (c != '\n' || notation_ != Notation::python) {  // what no escape is, is a backslash and a character
    out += "\\\\";
    append_escaped(out, c);
  }
  return Step::more;
}

ValueReader::Step ValueReader::hex_digit(char c, std::string& out) {
  const int value = hex_value(c);
  if (value < 0) return Step::bad;
  code_ = code_ * 16 + static_cast<uint32_t>(value);
  if (--hex_left_ > 0) return Step::more;
  state_ = State::string;
  const bool high = code_ >= 0xD800 && code_ < 0xDC00, low = code_ >= 0xDC00 && code_ < 0xE000;
  if (high_surrogate_ && low) {
    append_code(out, high_);
    append_code(out, code_);
    high_surrogate_ = false;
    return Step::more;
  }
  if (high_surrogate_) lone_surrogate(out);
  if (high) {
    high_surrogate_ = true;
    high_ = code_;
  } else {
    append_code(out, low ? 0xFFFD : code_);
  }
  return Step::more;
}

void ValueReader::lone_surrogate(std::string& out) {
  append_code(out, 0xFFFD);
  high_surrogate_ = false;
}

ValueReader::Step ValueReader::end_string(std::string& out) {
  out += '"';
  if (key_) {
    state_ = State::colon;
    return Step::more;
  }
  return end_value();
}

ValueReader::Step ValueReader::end_value() {
  state_ = State::comma_or_close;
  return stack_.empty() ? Step::done : Step::more;
}

ValueReader::Step ValueReader::close_bracket(char c, std::string& out) {
  waiting_.clear();
  out += c == '}' ? '}' : ']';
  stack_.pop_back();
  return end_value();
}

// Writes the number or literal that has ended; false when it is none.
bool ValueReader::end_word(std::string& out) {
  std::string_view word = word_;
  if (state_ == State::number) {
    if (!is_json_number(word)) return false;
  } else {
    const bool capitals = notation_ != Notation::json;
    if (capitals && word == "True") word = "true";
    if (capitals && word == "False") word = "false";
    if (capitals && word == "None") word = "null";
    if (word != "true" && word != "false" && word != "null") return false;
  }
  flush(out);
  out += word;
  return true;
}

void ValueReader::close(std::string& out) {
  switch (state_) {
    case State::escape:
    case State::hex:
    case State::string: out += key_ ? "\":null" : "\""; break;
    case State::bare_key: out += "\":null"; break;
    case State::colon: out += ":null"; break;
    case State::number:
    case State::literal:
      if (end_word(out)) break;
      flush(out);
      out += "null";
      break;
    case State::value:
      if (waiting_.empty()) out += "null";  // behind a comma there need be nothing
      break;
    case State::quote_mark:
      if (key_) break;
      flush(out);
      out += "null";
      break;
    case State::key:
    case State::key_or_close:
    case State::value_or_close:
    case State::comma_or_close: break;
  }
  for (; !stack_.empty(); stack_.pop_back()) out += stack_.back() == '}' ? '}' : ']';
}

Until::Until(std::string mark) : mark_(std::move(mark)), fallback_(mark_.size() + 1, 0) {
  for (size_t at = 1, length = 0; at < mark_.size(); ++at) {
    while (length > 0 && mark_[at] != mark_[length]) length = fallback_[length];
    if (mark_[at] == mark_[length]) ++length;
    fallback_[at + 1] = length;
  }
}

bool Until::feed(char c, std::string& out) {
  while (matched_ > 0 && c != mark_[matched_]) {
    const size_t shorter = fallback_[matched_];
    out.append(mark_, 0, matched_ - shorter);
    matched_ = shorter;
  }
  if (c == mark_[matched_]) ++matched_;
  else out += c;
  if (matched_ < mark_.size()) return false;
  matched_ = 0;
  return true;
}

}  // namespace vigil::text
