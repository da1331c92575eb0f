// From a piece's text to its id: a hash table of ids that reads the texts where they lie. Not here: owning the texts.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/seeded_hash.hpp"

namespace vigil::gguf {

class PieceIndex {
 public:
  // Of two equal pieces the last is found.
  void build(const std::vector<std::string>& pieces) {
    slots_.assign(std::bit_ceil(pieces.size() * 2 + 1), -1);
    for (size_t id = 0; id < pieces.size(); ++id) slots_[slot_of(pieces[id], pieces)] = static_cast<int32_t>(id);
  }

  // `pieces` as they were built from.
  std::optional<int32_t> find(std::string_view text, const std::vector<std::string>& pieces) const {
    if (slots_.empty()) return std::nullopt;
    const int32_t id = slots_[slot_of(text, pieces)];
    return id < 0 ? std::nullopt : std::optional(id);
  }

 private:
  // Where the text is, or where it would be put. Half of the slots are free, so the walk ends.
  size_t slot_of(std::string_view text, const std::vector<std::string>& pieces) const {
    const size_t mask = slots_.size() - 1;
    size_t slot = hash_(text) & mask;
    while (slots_[slot] >= 0 && pieces[static_cast<size_t>(slots_[slot])] != text) slot = (slot + 1) & mask;
    return slot;
  }

  SeededHash hash_;
  std::vector<int32_t> slots_;
};

}  // namespace vigil::gguf
