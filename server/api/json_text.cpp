// See json_text.hpp. Escapes: RFC 8259, section 7.
#include "server/api/json_text.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "server/text/utf8.hpp"

namespace vigil::api {

namespace {

bool plain(unsigned char byte) { return byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\' && byte != 0x7F; }

void append_escaped_ascii(std::string& out, unsigned char byte) {
  switch (byte) {
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    case '\n': out += "\\n"; return;
    case '\r': out += "\\r"; return;
    case '\t': out += "\\t"; return;
    case '\b': out += "\\b"; return;
    case '\f': out += "\\f"; return;
    default: break;
  }
  constexpr std::string_view digits = "0123456789abcdef";
  out += "\\u00";
  out += digits[byte >> 4];
  out += digits[byte & 15];
}

template <typename Number>
void append_to_chars(std::string& out, Number value) {
  std::array<char, 32> buffer;
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  out.append(buffer.data(), end);
}

}  // namespace

void append_json_escaped(std::string& out, std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const size_t start = i;
    while (i < text.size() && plain(static_cast<unsigned char>(text[i]))) ++i;
    out.append(text.substr(start, i - start));
    if (i == text.size()) return;
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) {
      append_escaped_ascii(out, byte);
      ++i;
      continue;
    }
    const text::Utf8Head head = text::utf8_head(text.substr(i));
    out.append(head.state == text::Utf8State::whole ? text.substr(i, head.bytes) : text::replacement_character);
    i += head.bytes;
  }
}

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  append_json_escaped(out, text);
  out += '"';
}

void append_json_integer(std::string& out, int64_t value) { append_to_chars(out, value); }

void append_json_number(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  append_to_chars(out, value);
}

void append_json_ids(std::string& out, const std::vector<int32_t>& ids) {
  out += '[';
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    append_json_integer(out, ids[i]);
  }
  out += ']';
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace vigil::api
