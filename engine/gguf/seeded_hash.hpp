// A hash that nobody can aim at: its seed is drawn when it is made, so that typed text and model files cannot choose what collides.
// Not here: tables; what they hold differs too much.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>

namespace vigil::gguf {

class SeededHash {
 public:
  using is_transparent = void;  // lets a string_view be looked up among strings without a copy

  SeededHash() {
    std::random_device random;
    const auto draw = [&random] { return (uint64_t{random()} << 32) | random(); };
    start_ = draw();
    factor_ = draw() | 1;
  }

  size_t operator()(std::string_view text) const {
    uint64_t state = start_ ^ text.size();
    while (text.size() >= 8) {
      state = mix(state ^ load(text, 8));
      text.remove_prefix(8);
    }
    return static_cast<size_t>(mix(mix(state ^ load(text, text.size()))));
  }
  size_t operator()(uint64_t number) const { return static_cast<size_t>(mix(start_ ^ number)); }

 private:
  static uint64_t load(std::string_view text, size_t bytes) {
    uint64_t word = 0;
    if (bytes > 0) std::memcpy(&word, text.data(), bytes);
    return word;
  }
  uint64_t mix(uint64_t word) const {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(word) * factor_;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }

  uint64_t start_ = 0, factor_ = 1;
};

}  // namespace vigil::gguf
