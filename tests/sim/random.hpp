// The simulation's dice: SplitMix64 (Steele, Lea, Flood 2014), the same on every platform. One per world, seeded by the world's number.
#pragma once

#include <cstdint>

namespace vigil::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  // From low to high, both included.
  int64_t between(int64_t low, int64_t high) { return low + static_cast<int64_t>(next() % static_cast<uint64_t>(high - low + 1)); }
  bool chance(int percent) { return between(1, 100) <= percent; }

 private:
  uint64_t state_;
};

}  // namespace vigil::sim
