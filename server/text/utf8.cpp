// See utf8.hpp.
#include "server/text/utf8.hpp"

#include <cstdint>

namespace vigil::text {

namespace {

uint8_t byte_at(std::string_view bytes, size_t i) { return static_cast<uint8_t>(bytes[i]); }

}  // namespace

Utf8Head utf8_head(std::string_view bytes) {
  const uint8_t first = byte_at(bytes, 0);
  if (first < 0x80) return {Utf8State::whole, 1};
  size_t length = 0;
  uint8_t second_min = 0x80, second_max = 0xBF;  // narrower where overlong forms, surrogates and values above U+10FFFF would begin
  if (first >= 0xC2 && first <= 0xDF) {
    length = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) second_min = 0xA0;
    if (first == 0xED) second_max = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) second_min = 0x90;
    if (first == 0xF4) second_max = 0x8F;
  } else {
    return {Utf8State::invalid, 1};
  }
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {Utf8State::cut, i};
    const uint8_t low = i == 1 ? second_min : uint8_t{0x80}, high = i == 1 ? second_max : uint8_t{0xBF};
    if (byte_at(bytes, i) < low || byte_at(bytes, i) > high) return {Utf8State::invalid, i};
  }
  return {Utf8State::whole, length};
}

size_t append_valid_utf8(std::string& out, std::string_view bytes) {
  while (!bytes.empty()) {
    size_t ascii = 0;
    while (ascii < bytes.size() && byte_at(bytes, ascii) < 0x80) ++ascii;
    out.append(bytes.substr(0, ascii));
    bytes.remove_prefix(ascii);
    if (bytes.empty()) break;
    const Utf8Head head = utf8_head(bytes);
    if (head.state == Utf8State::cut) return head.bytes;
    out.append(head.state == Utf8State::whole ? bytes.substr(0, head.bytes) : replacement_character);
    bytes.remove_prefix(head.bytes);
  }
  return 0;
}

std::string valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  if (append_valid_utf8(out, bytes) > 0) out.append(replacement_character);
  return out;
}

std::string_view clip_utf8(std::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 && (byte_at(text, bytes) & 0xC0) == 0x80) --bytes;
  return text.substr(0, bytes);
}

}  // namespace vigil::text
