// A range is cut until all its code points have one length and each trailing byte runs either through one value's range or through all 64.
#include "engine/sample/utf8_ranges.hpp"

namespace vigil::sample {
namespace {

using protocol::gbnf::Range;

struct Encoded {
  std::array<uint8_t, 4> bytes = {};
  uint8_t length = 0;
};

Encoded encode(char32_t c) {
  const auto low = [&](int shift) { return static_cast<uint8_t>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) return {{static_cast<uint8_t>(c)}, 1};
  if (c < 0x800) return {{static_cast<uint8_t>(0xC0 | (c >> 6)), low(0)}, 2};
  if (c < 0x10000) return {{static_cast<uint8_t>(0xE0 | (c >> 12)), low(6), low(0)}, 3};
  return {{static_cast<uint8_t>(0xF0 | (c >> 18)), low(12), low(6), low(0)}, 4};
}

// Cuts `range` once where it must be; false when it need not.
bool cut(Range& range, Range& rest) {
  for (const char32_t last : {char32_t{0x7F}, char32_t{0x7FF}, char32_t{0xFFFF}}) {
    if (range.first <= last && range.last > last) {
      rest = {last + 1, range.last};
      range.last = last;
      return true;
    }
  }
  if (range.last < 0x80) return false;
  for (const char32_t low : {char32_t{0x3F}, char32_t{0xFFF}, char32_t{0x3FFFF}}) {
    if ((range.first | low) == (range.last | low)) return false;
    if ((range.first & low) != 0) {
      rest = {(range.first | low) + 1, range.last};
      range.last = range.first | low;
      return true;
    }
    if ((range.last & low) != low) {
      rest = {range.last & ~low, range.last};
      range.last = rest.first - 1;
      return true;
    }
  }
  return false;
}

}  // namespace

void append_utf8_sequences(Range whole, std::vector<ByteSequence>& out) {
  std::vector<Range> work = {whole};
  while (!work.empty()) {
    Range range = work.back(), rest;
    work.pop_back();
    while (cut(range, rest)) work.push_back(rest);
    const Encoded first = encode(range.first), last = encode(range.last);
    ByteSequence sequence;
    sequence.length = first.length;
    for (uint8_t i = 0; i < first.length; ++i) sequence.bytes[i] = {first.bytes[i], last.bytes[i]};
    out.push_back(sequence);
  }
}

}  // namespace vigil::sample
