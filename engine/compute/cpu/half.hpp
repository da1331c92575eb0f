// Conversions between float and the two 16-bit formats, exact or rounded to nearest even. Branch-free so that loops vectorise.
#pragma once

#include <bit>
#include <cstdint>

namespace vigil::compute::cpu {

// IEEE 754 binary16.
inline float half_to_float(uint16_t half) {
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7fff) << 13;
  // Read as a float the exponent is 112 too small; the multiplication also makes subnormals right.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const uint32_t infinite = (half & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u;  // infinity and NaN keep their mantissa
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | infinite | sign);
}

inline uint16_t float_to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);   // NaN
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 0.5 leaves the value in units of 2^-24 in the low mantissa bits, rounded by the addition itself.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

inline float bfloat_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace vigil::compute::cpu
