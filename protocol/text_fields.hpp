// The fields of one protocol line: words parted by blanks, numbers, percent coding of words. Shared by the three line families of this
// room and private to it; it knows no line's meaning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/lines.hpp"

namespace vigil::protocol {

// Counts (tokens, steps, milliseconds) end here: every one is exact as a double, and sums of a few cannot overflow.
inline constexpr int64_t max_count = int64_t{1} << 53;
// What ERR and FATAL keep of their text, in bytes.
inline constexpr size_t max_free_text_bytes = 8 * 1024;

// Reads the fields of a line from left to right. The first failure sticks: later reads give zeros, and failure() is the error to return.
// `line` must outlive the reader.
class FieldReader {
 public:
  explicit FieldReader(std::string_view line) : line_(line), rest_(line) {}

  std::string_view next();                       // the next word; empty at the end
  std::string_view remainder() const;            // what is left, without blanks around it
  bool at_end() const { return remainder().empty(); }

  // Each takes the next word as a field of that name; a missing or wrong one is a failure.
  std::string_view word(std::string_view name);  // printable: no control bytes
  int64_t count(std::string_view name, int64_t min = 0, int64_t max = max_count);
  double number(std::string_view name, double min, double max = std::numeric_limits<double>::max());
  TokenId token_id(std::string_view name) { return static_cast<TokenId>(count(name, 0, std::numeric_limits<TokenId>::max())); }

  void fail(std::string what);
  void fail_field(std::string_view name, std::string_view got, std::string_view wanted);
  bool failed() const { return failure_.has_value(); }
  // Names the line's first word (or the one given) and quotes the line.
  Error failure() const;

  void line_word(std::string_view word) { line_word_ = word; }
  std::string_view line() const { return line_; }

 private:
  std::string_view line_, rest_;
  std::string_view line_word_;
  std::optional<std::string> failure_;
};

// Decimal digits only: no sign, no blank; nothing above `max`.
std::optional<uint64_t> to_unsigned(std::string_view word, uint64_t max = std::numeric_limits<uint64_t>::max());
std::optional<int64_t> to_signed(std::string_view word, int64_t min, int64_t max);
// Finite; the C locale's form ("-0.5", "1e-3"); no leading plus.
std::optional<double> to_number(std::string_view word);
std::optional<TokenId> to_token_id(std::string_view word);

// Calls each(element) for the elements between commas until it answers false. An empty list is one empty element.
template <typename Each>
bool for_each_element(std::string_view list, Each&& each) {
  while (true) {
    const size_t comma = list.find(',');
    if (!each(list.substr(0, comma))) return false;
    if (comma == std::string_view::npos) return true;
    list.remove_prefix(comma + 1);
  }
}

// "id:number,id:number"; false on any flaw.
bool read_id_numbers(std::string_view list, size_t most, std::vector<std::pair<TokenId, double>>& out);

void append_integer(std::string& out, int64_t value);
void append_integer(std::string& out, uint64_t value);
void append_number(std::string& out, double value);  // shortest form that reads back as the same double
void append_id_numbers(std::string& out, const std::vector<std::pair<TokenId, double>>& list);

bool has_control_bytes(std::string_view text);
// Control bytes become blanks, blanks around it go, at most max_free_text_bytes stay.
std::string clean_text(std::string_view text);
// A word as it came, made safe to write: blanks and control bytes become '_'; an empty one becomes "-".
std::string plain_word(std::string_view word);
// Percent coding for a key, which also may hold no '='.
std::string percent_encode_key(std::string_view raw);
// The decoded word, or the word itself where its percent signs are no code (a foreign engine's "progress=50%").
std::string decode_or_keep(std::string_view encoded);

// Shared by the engine and vision families.
std::optional<Error> read_info(FieldReader& reader, Info& info);
void append_info(std::string& out, const Info& info);

}  // namespace vigil::protocol
