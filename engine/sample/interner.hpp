// Gives equal things equal numbers: an open-addressing table of indices into somebody else's array. Not here: the things.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vigil::sample {

class Interner {
 public:
  static constexpr uint32_t none = 0xFFFFFFFF;

  // The index of an equal thing, or `fresh`, which then belongs to it. `equals(index)` compares; `hash_of(index)` is asked when the table grows.
  template <typename Equals, typename HashOf>
  uint32_t find_or_add(uint64_t hash, uint32_t fresh, Equals&& equals, HashOf&& hash_of) {
    if ((used_ + 1) * 2 > slots_.size()) grow(hash_of);
    for (size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at] == none) {
        slots_[at] = fresh;
        ++used_;
        return fresh;
      }
      if (equals(slots_[at])) return slots_[at];
    }
  }
  void clear() {  // and gives its memory back
    slots_ = std::vector<uint32_t>();  // not "= {}", which keeps it
    used_ = 0;
  }
  size_t bytes() const { return slots_.capacity() * sizeof(uint32_t); }

 private:
  template <typename HashOf>
  void grow(HashOf&& hash_of) {
    std::vector<uint32_t> old(slots_.empty() ? 64 : slots_.size() * 2, none);
    old.swap(slots_);
    for (const uint32_t index : old) {
      if (index == none) continue;
      size_t at = hash_of(index) & (slots_.size() - 1);
      while (slots_[at] != none) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = index;
    }
  }
  std::vector<uint32_t> slots_;
  size_t used_ = 0;
};

inline uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace vigil::sample
