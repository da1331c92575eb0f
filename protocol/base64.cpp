// See base64.hpp.
#include "protocol/base64.hpp"

#include <array>
#include <cstdint>

namespace vigil::protocol {

namespace {

constexpr std::string_view alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<uint8_t, 256> make_digits() {
  std::array<uint8_t, 256> digits{};
  digits.fill(0xFF);
  for (size_t i = 0; i < alphabet.size(); ++i) digits[static_cast<uint8_t>(alphabet[i])] = static_cast<uint8_t>(i);
  return digits;
}
constexpr std::array<uint8_t, 256> digits = make_digits();

}  // namespace

std::string encode_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  const auto byte = [&](size_t at) { return at < bytes.size() ? uint32_t{static_cast<uint8_t>(bytes[at])} : 0U; };
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const uint32_t bits = byte(i) << 16 | byte(i + 1) << 8 | byte(i + 2);
    out += alphabet[bits >> 18];
    out += alphabet[bits >> 12 & 63];
    out += i + 1 < bytes.size() ? alphabet[bits >> 6 & 63] : '=';
    out += i + 2 < bytes.size() ? alphabet[bits & 63] : '=';
  }
  return out;
}

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  text.remove_suffix(padding);
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const uint8_t digit = digits[static_cast<uint8_t>(c)];
    if (digit == 0xFF) return std::nullopt;
    bits = (bits << 6 | digit) & 0xFFFF;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out += static_cast<char>(bits >> held);
  }
  if ((bits & ((1U << held) - 1)) != 0) return std::nullopt;
  return out;
}

}  // namespace vigil::protocol
