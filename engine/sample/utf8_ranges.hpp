// Ranges of code points as sequences of byte ranges, the form in which an automaton over bytes reads UTF-8. Not here: grammars.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "protocol/gbnf.hpp"

namespace vigil::sample {

struct ByteRange {
  uint8_t first = 0, last = 0;  // both included
  bool operator==(const ByteRange&) const = default;
};
struct ByteSequence {
  std::array<ByteRange, 4> bytes = {};
  uint8_t length = 0;  // 1 to 4
};

// Every UTF-8 form (RFC 3629) of the code points in `range` fits exactly one of the sequences appended, and nothing else does. The range holds
// no surrogates.
void append_utf8_sequences(protocol::gbnf::Range range, std::vector<ByteSequence>& out);

}  // namespace vigil::sample
