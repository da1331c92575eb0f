// Values inside calls, read a character at a time and written as JSON: JSON itself, Python literals, and the notation with bare keys. What
// was written so far can always be completed, so it may be sent at once. Not here: what the values are for.
// Sources: RFC 8259; Python's lexical analysis of literals (docs.python.org/3/reference/lexical_analysis.html).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vigil::text {

class ValueReader {
 public:
  enum class Notation {
    json,      // control characters in strings and unknown escapes are repaired, since models write them; nothing else is
    python,    // '…' and "…", True, False, None, tuples as lists, a comma before a closing bracket
    bare_keys  // {key:<|"|>text<|"|>}; JSON strings as well
  };
  enum class Step { more, done, done_before, bad };  // done_before: the value ended before this character

  explicit ValueReader(Notation notation) : notation_(notation) {}
  Step feed(char c, std::string& out);
  // No more comes: what is missing for a valid value.
  void close(std::string& out);
  bool started() const { return state_ != State::value || !stack_.empty(); }

 private:
  enum class State { value, value_or_close, key, key_or_close, bare_key, colon, comma_or_close, string, escape, hex, number, literal, quote_mark };
  Step begin_value(char c, std::string& out);
  Step begin_key(char c, std::string& out);
  Step begin_string(char quote, bool key, std::string& out);
  Step string_character(char c, std::string& out);
  Step escape_character(char c, std::string& out);
  Step hex_digit(char c, std::string& out);
  Step bare_string_character(char c, std::string& out);
  Step end_string(std::string& out);
  Step end_value();
  Step close_bracket(char c, std::string& out);
  bool end_word(std::string& out);
  void flush(std::string& out);
  void lone_surrogate(std::string& out);

  Notation notation_;
  State state_ = State::value;
  std::vector<char> stack_;   // closing brackets as they are read
  std::string waiting_;       // a comma and white space that go out with what follows
  std::string word_;          // a number, a literal
  bool key_ = false;          // the string is a key
  char quote_ = '"';          // of the string; '<' for <|"|>
  size_t matched_ = 0;        // of <|"|>
  int hex_left_ = 0;
  uint32_t code_ = 0;
  bool high_surrogate_ = false;
  uint32_t high_ = 0;
};

// Text up to an end mark. Characters come out as soon as they cannot be part of the mark; linear time.
class Until {
 public:
  explicit Until(std::string mark);
  bool feed(char c, std::string& out);  // true: the mark is complete

 private:
  std::string mark_;
  std::vector<size_t> fallback_;
  size_t matched_ = 0;
};

// Text as the inside of a JSON string.
void append_json_escaped(std::string& out, std::string_view text);

// The text as one JSON value, written as JSON; empty when it is none. White space around it is allowed.
std::string whole_value(ValueReader::Notation notation, std::string_view text);

}  // namespace vigil::text
