// From a pair of neighbours to the merge that joins them: a hash table over a vocabulary's merges. Not here: carrying merges out.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/gguf/vocabulary.hpp"

namespace vigil::gguf {

class MergeTable {
 public:
  struct Entry {
    uint64_t pair = free_slot;
    uint32_t rank = 0;
    TokenId joined = -1;
  };

  // A pair that comes twice keeps its first rank. Merges into tokens that typed text must not become are left out.
  explicit MergeTable(const Vocabulary& vocabulary);

  // nullptr where the two do not join; ids may be -1.
  const Entry* find(TokenId left, TokenId right) const {
    const Entry& entry = slots_[slot_of(pair_of(left, right))];
    return entry.pair == free_slot ? nullptr : &entry;
  }

 private:
  static constexpr uint64_t free_slot = ~uint64_t{0};  // no pair: ids are not negative there

  static uint64_t pair_of(TokenId left, TokenId right) { return (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right); }
  size_t slot_of(uint64_t pair) const {
    size_t slot = hash_(pair) & mask_;
    while (slots_[slot].pair != pair && slots_[slot].pair != free_slot) slot = (slot + 1) & mask_;
    return slot;
  }

  SeededHash hash_;
  std::vector<Entry> slots_;
  size_t mask_ = 0;
};

}  // namespace vigil::gguf
