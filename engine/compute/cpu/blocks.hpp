// Readers of the little-endian fields inside weight blocks, at any alignment, and the walk over a row's blocks. Private to dequantise*.cpp.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/compute/cpu/half.hpp"

namespace vigil::compute::cpu {

inline uint8_t load_u8(const std::byte* from) { return static_cast<uint8_t>(*from); }
inline uint16_t load_u16(const std::byte* from) {
  uint16_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline uint32_t load_u32(const std::byte* from) {
  uint32_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline float load_half(const std::byte* from) { return half_to_float(load_u16(from)); }

// An unsigned 8-bit float with 4 exponent bits (bias 7) and 3 mantissa bits, as NVFP4 scales its sub-blocks. The code of all ones is no
// number in that format; like a zero scale it gives zero weights.
inline float unsigned_e4m3(uint8_t code) {
  if ((code & 0x7f) == 0x7f) return 0.0f;
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  return exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9) : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
}

// Calls decode(block, out) for each block of a row.
template <int64_t elements, int64_t bytes, typename Decode>
void each_block(const std::byte* row, int64_t cols, float* out, Decode&& decode) {
  for (int64_t block = 0; block < cols / elements; ++block) decode(row + block * bytes, out + block * elements);
}

using RowDecoder = void (*)(const std::byte* row, int64_t cols, float* out);

// One per type; the files are grouped by how the types are built.
void q4_0_row(const std::byte* row, int64_t cols, float* out);  // dequantise_simple.cpp: one scale (and offset) per small block
void q4_1_row(const std::byte* row, int64_t cols, float* out);
void q5_0_row(const std::byte* row, int64_t cols, float* out);
void q5_1_row(const std::byte* row, int64_t cols, float* out);
void q8_0_row(const std::byte* row, int64_t cols, float* out);
void q1_0_row(const std::byte* row, int64_t cols, float* out);
void q2_0_row(const std::byte* row, int64_t cols, float* out);
void tq1_0_row(const std::byte* row, int64_t cols, float* out);
void tq2_0_row(const std::byte* row, int64_t cols, float* out);
void iq4_nl_row(const std::byte* row, int64_t cols, float* out);
void mxfp4_row(const std::byte* row, int64_t cols, float* out);
void nvfp4_row(const std::byte* row, int64_t cols, float* out);
void q2_k_row(const std::byte* row, int64_t cols, float* out);  // dequantise_k.cpp: superblocks of 256 with quantised scales
void q3_k_row(const std::byte* row, int64_t cols, float* out);
void q4_k_row(const std::byte* row, int64_t cols, float* out);
void q5_k_row(const std::byte* row, int64_t cols, float* out);
void q6_k_row(const std::byte* row, int64_t cols, float* out);
void iq4_xs_row(const std::byte* row, int64_t cols, float* out);
void iq1_s_row(const std::byte* row, int64_t cols, float* out);  // dequantise_iq.cpp: superblocks of codebook indexes
void iq1_m_row(const std::byte* row, int64_t cols, float* out);
void iq2_xxs_row(const std::byte* row, int64_t cols, float* out);
void iq2_xs_row(const std::byte* row, int64_t cols, float* out);
void iq2_s_row(const std::byte* row, int64_t cols, float* out);
void iq3_xxs_row(const std::byte* row, int64_t cols, float* out);
void iq3_s_row(const std::byte* row, int64_t cols, float* out);

}  // namespace vigil::compute::cpu
