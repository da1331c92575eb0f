// The visible characters under which byte-level vocabularies (GPT-2's and its kin) write bytes. Not here: which vocabularies do.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace vigil::gguf {

// A printable Latin-1 byte is written as itself, the 68 others as U+0100 and up, in order.
constexpr bool is_own_letter(unsigned byte) { return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae; }

constexpr uint32_t first_moved_letter = 0x100;
constexpr uint32_t moved_letters = 68;

// The code point of each byte.
constexpr std::array<uint32_t, 256> byte_letters = [] {
  std::array<uint32_t, 256> letters{};
  uint32_t next = first_moved_letter;
  for (unsigned byte = 0; byte < 256; ++byte) letters[byte] = is_own_letter(byte) ? byte : next++;
  return letters;
}();
static_assert(byte_letters[' '] == 0x120 && byte_letters['\n'] == 0x10a && byte_letters[0xad] == first_moved_letter + moved_letters - 1);

// The byte that a code point stands for; nothing for one that stands for none.
constexpr std::optional<uint8_t> byte_of_letter(uint32_t code) {
  constexpr std::array<uint8_t, moved_letters> moved = [] {
    std::array<uint8_t, moved_letters> bytes{};
    for (unsigned byte = 0; byte < 256; ++byte) {
      if (!is_own_letter(byte)) bytes[byte_letters[byte] - first_moved_letter] = static_cast<uint8_t>(byte);
    }
    return bytes;
  }();
  if (code < 256 && is_own_letter(code)) return static_cast<uint8_t>(code);
  if (code >= first_moved_letter && code < first_moved_letter + moved_letters) return moved[code - first_moved_letter];
  return std::nullopt;
}

}  // namespace vigil::gguf
