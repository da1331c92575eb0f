// Small reads from the blocks of the codebook types (layouts: dequantise_iq.cpp). Included by the kernel files alone.
#pragma once

#include <cstdint>
#include <cstring>

#include "engine/compute/cpu/simd.hpp"
#include "engine/gguf/tensor_type.hpp"

namespace vigil::compute::cpu::VIGIL_ISA {

VIGIL_INLINE uint64_t load_64(const void* from) {
  uint64_t word;
  __builtin_memcpy(&word, from, sizeof word);
  return word;
}
VIGIL_INLINE uint32_t word_at(const uint8_t* from) {
  uint32_t word;
  __builtin_memcpy(&word, from, sizeof word);
  return word;
}
VIGIL_INLINE uint32_t half_word_at(const uint8_t* from) {
  uint16_t word;
  __builtin_memcpy(&word, from, sizeof word);
  return word;
}
VIGIL_INLINE float half_at(const uint8_t* from) { return _cvtsh_ss(static_cast<uint16_t>(half_word_at(from))); }

// The scale of an IQ1_M block: four bits on top of each of its four words of scales.
VIGIL_INLINE float iq1_m_scale(const uint8_t* tops) {
  const uint32_t bits = half_word_at(tops) >> 12 | (half_word_at(tops + 2) >> 12) << 4 | (half_word_at(tops + 4) >> 12) << 8 | (half_word_at(tops + 6) >> 12) << 12;
  return _cvtsh_ss(static_cast<uint16_t>(bits));
}

constexpr int64_t codebook_block_bytes(gguf::TensorType type) {
  switch (type) {
    case gguf::TensorType::iq1_s: return 50;
    case gguf::TensorType::iq1_m: return 56;
    case gguf::TensorType::iq2_xxs: return 66;
    case gguf::TensorType::iq2_xs: return 74;
    case gguf::TensorType::iq2_s: return 82;
    case gguf::TensorType::iq3_xxs: return 98;
    default: return 110;
  }
}

// Two scales in 32 columns instead of one.
constexpr bool has_half_scales(gguf::TensorType type) {
  return type == gguf::TensorType::iq2_xs || type == gguf::TensorType::iq2_s || type == gguf::TensorType::iq1_m;
}

}  // namespace vigil::compute::cpu::VIGIL_ISA
