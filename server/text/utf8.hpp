// UTF-8 as bytes that may be wrong or not yet whole. Well-formedness: Unicode 15, table 3-7. Not here: anything about tokens.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace vigil::text {

inline constexpr std::string_view replacement_character = "\xEF\xBF\xBD";  // U+FFFD

enum class Utf8State { whole, cut, invalid };  // cut: a beginning that more bytes could complete

struct Utf8Head {
  Utf8State state = Utf8State::invalid;
  size_t bytes = 1;  // of the character; for invalid and cut, of the longest beginning that is not wrong (at least 1)
};

// What the first character of `bytes` (not empty) is.
Utf8Head utf8_head(std::string_view bytes);

// Appends `bytes` to `out` as valid UTF-8: each wrong sequence becomes one U+FFFD. A beginning of a character at the end is not appended;
// its length is returned (0 to 3).
size_t append_valid_utf8(std::string& out, std::string_view bytes);

// The whole of `bytes` as valid UTF-8; a cut character at the end becomes one U+FFFD too.
std::string valid_utf8(std::string_view bytes);

// The longest beginning of valid UTF-8 `text` that has at most `bytes` bytes and ends at a character's end.
std::string_view clip_utf8(std::string_view text, size_t bytes);

}  // namespace vigil::text
