// A text as characters with their Unicode classes, as the split patterns of byte-level tokenizers ask for them.
// Classes: Unicode general categories (utf8proc's tables) and White_Space. Not here: the patterns (word_patterns.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace vigil::gguf {

// Sets of these bits are tested together; a character has space and newline, or one of the categories below (none: control, unassigned).
namespace char_class {
inline constexpr uint32_t space = 1u << 22;        // White_Space
inline constexpr uint32_t newline = 1u << 23;      // CR and LF; they are space as well
inline constexpr uint32_t letter = 1u << 24;       // L
inline constexpr uint32_t number = 1u << 25;       // N
inline constexpr uint32_t mark = 1u << 26;         // M
inline constexpr uint32_t punctuation = 1u << 27;  // P
inline constexpr uint32_t symbol = 1u << 28;       // S
inline constexpr uint32_t upper = 1u << 29;        // Lu, Lt; they are letter as well
inline constexpr uint32_t lower = 1u << 30;        // Ll; they are letter as well
inline constexpr uint32_t invalid = 1u << 31;      // a byte that is no UTF-8; the code is the byte
}  // namespace char_class

// One character in four bytes: its code point in the low 22 bits, class bits above.
class Character {
 public:
  constexpr Character() = default;
  constexpr Character(uint32_t code, uint32_t classes) : packed_(code | classes) {}

  constexpr uint32_t code() const { return packed_ & ((1u << 22) - 1); }
  constexpr bool is(uint32_t classes) const { return (packed_ & classes) != 0; }  // any of them
  constexpr bool is_char(char c) const { return (packed_ & (((1u << 22) - 1) | char_class::invalid)) == static_cast<unsigned char>(c); }
  constexpr bool within(uint32_t first, uint32_t last) const { return !is(char_class::invalid) && code() >= first && code() <= last; }
  constexpr size_t bytes() const {  // as UTF-8
    if (is(char_class::invalid) || code() < 0x80) return 1;
    return code() < 0x800 ? 2 : code() < 0x10000 ? 3 : 4;
  }

 private:
  uint32_t packed_ = 0;
};

// The class bits of a code point.
uint32_t classes_of(uint32_t code);

std::vector<Character> characters_of(std::string_view text);

// Appends a code point (0 to U+10FFFF) as UTF-8.
void append_utf8(std::string& out, uint32_t code);

}  // namespace vigil::gguf
