// The K types and IQ4_XS: superblocks of 256 weights whose sub-blocks have small integer scales under one or two half-precision ones.
// Layouts: ggml project, ggml-common.h. The order of the multiplications is part of the format: rows agree to the bit.
#include "engine/compute/cpu/blocks.hpp"
#include "engine/compute/cpu/codebooks.hpp"

namespace vigil::compute::cpu {
namespace {

struct ScaleAndOffset {
  uint32_t scale, offset;
};

// Q4_K and Q5_K keep eight pairs of 6-bit numbers in 12 bytes: bytes 0-3 and 4-7 hold scales and offsets 0-3 in their low six bits, bytes
// 8-11 the low four bits of pairs 4-7, whose upper two bits are the top bits of bytes 0-7.
ScaleAndOffset six_bit_pair(const std::byte* packed, int64_t index) {
  const auto byte = [&](int64_t i) -> uint32_t { return load_u8(packed + i); };
  if (index < 4) return {byte(index) & 63u, byte(index + 4) & 63u};
  const uint32_t low = byte(index + 4);
  return {(low & 15u) | (byte(index - 4) >> 6 << 4), (low >> 4) | (byte(index) >> 6 << 4)};
}

// Q3_K keeps sixteen 6-bit scales in 12 bytes: low nibbles in bytes 0-7 (scales 0-7 low, 8-15 high half), top bit pairs in bytes 8-11.
int32_t q3_k_scale(const std::byte* packed, int64_t index) {
  const uint32_t low = load_u8(packed + index % 8) >> (index < 8 ? 0 : 4) & 15u;
  const uint32_t high = load_u8(packed + 8 + index % 4) >> (2 * (index / 4)) & 3u;
  return static_cast<int32_t>(low | high << 4) - 32;
}

}  // namespace

// 16 bytes scale | offset << 4, 64 bytes of two-bit codes, half scale, half offset. Columns 128 h + 32 s + j: bit pair s of byte 32 h + j.
void q2_k_row(const std::byte* row, int64_t cols, float* out) {
  each_block<256, 84>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block + 80), offset = load_half(block + 82);
    for (int64_t part = 0; part < 16; ++part) {  // 16 columns each
      const uint32_t both = load_u8(block + part);
      const float part_scale = scale * static_cast<float>(both & 15u), part_offset = offset * static_cast<float>(both >> 4);
      const std::byte* codes = block + 16 + part / 8 * 32 + part % 2 * 16;
      const int64_t shift = part % 8 / 2 * 2;
      for (int64_t j = 0; j < 16; ++j) {
        to[part * 16 + j] = part_scale * static_cast<float>(load_u8(codes + j) >> shift & 3) - part_offset;
      }
    }
  });
}

// 32 bytes of third bits, 64 bytes of two-bit codes, 12 bytes of scales, half scale. The third bit of column 128 h + 32 s + j is bit 4 h + s
// of byte j; where it is 0, four is taken away.
void q3_k_row(const std::byte* row, int64_t cols, float* out) {
  each_block<256, 110>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block + 108);
    for (int64_t part = 0; part < 16; ++part) {
      const float part_scale = scale * static_cast<float>(q3_k_scale(block + 96, part));
      const int64_t first = part % 2 * 16;
      const std::byte* codes = block + 32 + part / 8 * 32 + first;
      for (int64_t j = 0; j < 16; ++j) {
        const int32_t low = load_u8(codes + j) >> (part % 8 / 2 * 2) & 3;
        const int32_t high = load_u8(block + first + j) >> (part / 2) & 1;
        to[part * 16 + j] = part_scale * static_cast<float>(low - (high == 0 ? 4 : 0));
      }
    }
  });
}

// Half scale, half offset, 12 bytes of pairs, 128 bytes of nibbles: 32 bytes hold 64 columns, low nibbles first.
void q4_k_row(const std::byte* row, int64_t cols, float* out) {
  each_block<256, 144>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block), offset = load_half(block + 2);
    for (int64_t part = 0; part < 8; ++part) {  // 32 columns each
      const ScaleAndOffset pair = six_bit_pair(block + 4, part);
      const float part_scale = scale * static_cast<float>(pair.scale), part_offset = offset * static_cast<float>(pair.offset);
      const std::byte* codes = block + 16 + part / 2 * 32;
      for (int64_t j = 0; j < 32; ++j) {
        const uint32_t code = load_u8(codes + j) >> (part % 2 * 4) & 15u;
        to[part * 32 + j] = part_scale * static_cast<float>(code) - part_offset;
      }
    }
  });
}

// As Q4_K, with 32 bytes of fifth bits before the nibbles: bit p of byte j for column 32 p + j.
void q5_k_row(const std::byte* row, int64_t cols, float* out) {
  each_block<256, 176>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block), offset = load_half(block + 2);
    for (int64_t part = 0; part < 8; ++part) {
      const ScaleAndOffset pair = six_bit_pair(block + 4, part);
      const float part_scale = scale * static_cast<float>(pair.scale), part_offset = offset * static_cast<float>(pair.offset);
      const std::byte* codes = block + 48 + part / 2 * 32;
      for (int64_t j = 0; j < 32; ++j) {
        const uint32_t low = load_u8(codes + j) >> (part % 2 * 4) & 15u;
        const uint32_t high = load_u8(block + 16 + j) >> part & 1u;
        to[part * 32 + j] = part_scale * static_cast<float>(low | high << 4) - part_offset;
      }
    }
  });
}

// 128 bytes of nibbles, 64 bytes of upper bit pairs, 16 signed scales, half scale. Half a block is 128 columns from 64 + 32 bytes: quarter q
// of it takes nibble q / 2 of byte 32 (q % 2) + j and bit pair q of byte j.
void q6_k_row(const std::byte* row, int64_t cols, float* out) {
  each_block<256, 210>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block + 208);
    for (int64_t part = 0; part < 16; ++part) {
      const float part_scale = scale * static_cast<float>(static_cast<int8_t>(load_u8(block + 192 + part)));
      const int64_t half = part / 8, quarter = part % 8 / 2, first = part % 2 * 16;
      const std::byte* low_codes = block + half * 64 + quarter % 2 * 32 + first;
      const std::byte* high_codes = block + 128 + half * 32 + first;
      for (int64_t j = 0; j < 16; ++j) {
        const uint32_t low = load_u8(low_codes + j) >> (quarter / 2 * 4) & 15u;
        const uint32_t high = load_u8(high_codes + j) >> (2 * quarter) & 3u;
        to[part * 16 + j] = part_scale * static_cast<float>(static_cast<int32_t>(low | high << 4) - 32);
      }
    }
  });
}

// Half scale, a word of upper scale bits, 4 bytes of lower ones, 128 bytes of nibbles that name IQ4_NL's levels: 16 bytes hold 32 columns.
void iq4_xs_row(const std::byte* row, int64_t cols, float* out) {
  each_block<256, 136>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block);
    for (int64_t part = 0; part < 8; ++part) {
      const uint32_t low = load_u8(block + 4 + part / 2) >> (part % 2 * 4) & 15u;
      const uint32_t high = static_cast<uint32_t>(load_u16(block + 2)) >> (2 * part) & 3u;
      const float part_scale = scale * static_cast<float>(static_cast<int32_t>(low | high << 4) - 32);
      const std::byte* codes = block + 8 + part * 16;
      for (int64_t j = 0; j < 16; ++j) {
        const uint32_t both = load_u8(codes + j);
        to[part * 32 + j] = part_scale * static_cast<float>(codebook_iq4_nl[both & 15u]);
        to[part * 32 + j + 16] = part_scale * static_cast<float>(codebook_iq4_nl[both >> 4]);
      }
    }
  });
}

}  // namespace vigil::compute::cpu
