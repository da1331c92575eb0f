// How a codebook is packed into a string. Every book is in ascending order when a point is read as a number whose digits are the places of its values
// among the book's levels (first value least significant). So a book is the gaps between its numbers, one character each: '#' stands for 1, and
// each '!' before a character adds 88. tools/pack_codebooks makes the strings from lists of values.
#pragma once

#include <string_view>

#include "engine/compute/cpu/codebooks.hpp"

namespace vigil::compute::cpu {

template <typename Value, size_t values, size_t points, size_t level_count>
constexpr Codebook<Value, values, points> unpack(std::string_view gaps, const std::array<Value, level_count>& levels) {
  Codebook<Value, values, points> book{};
  size_t point = 0;
  uint32_t code = 0, more = 0;
  bool first = true;
  for (const char character : gaps) {
    if (character == '!') {
      more += 88;
      continue;
    }
    const uint32_t place = static_cast<uint32_t>(character) - (character > '\\' ? 36u : 35u);  // no backslash is ever used
    code += more + place + (first ? 0u : 1u);  // the first gap counts from -1
    first = false;
    more = 0;
    uint32_t digits = code;
    for (Value& value : book.at(point)) {  // a string too long does not compile
      value = levels[digits % level_count];
      digits /= level_count;
    }
    ++point;
  }
  if (point != points) throw "a gap string is too short";  // at compile time only
  return book;
}

}  // namespace vigil::compute::cpu
