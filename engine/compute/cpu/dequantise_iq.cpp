// The codebook types: superblocks of 256 weights in eight parts of 32; a part is a scale and some indexes into a table of points.
// Layouts: ggml project, ggml-common.h. The order of the multiplications is part of the format: rows agree to the bit.
#include "engine/compute/cpu/blocks.hpp"
#include "engine/compute/cpu/codebooks.hpp"

namespace vigil::compute::cpu {
namespace {

// to = scale * value, negative where the value's bit in `signs` is set.
template <size_t count>
void put_signed(const std::array<uint8_t, count>& values, uint32_t signs, float scale, float* to) {
  for (size_t i = 0; i < count; ++i) {
    const float value = scale * static_cast<float>(values[i]);
    to[i] = (signs >> i & 1u) != 0 ? -value : value;
  }
}

void put_shifted(const std::array<int8_t, 8>& values, float shift, float scale, float* to) {
  for (size_t i = 0; i < 8; ++i) to[i] = scale * (static_cast<float>(values[i]) + shift);
}

constexpr float iq1_shift = 0.125f;

float iq2_scale(float scale, uint32_t code) { return scale * (0.5f + static_cast<float>(code)) * 0.25f; }

}  // namespace

// Half scale, then eight words: low byte pairs are four indexes, the high word four 7-bit signs and a 4-bit scale on top.
void iq2_xxs_row(const std::byte* row, int64_t cols, float* out) {
  each_block<256, 66>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block);
    for (int64_t part = 0; part < 8; ++part) {
      const std::byte* at = block + 2 + part * 8;
      const uint32_t word = load_u32(at + 4);
      const float part_scale = iq2_scale(scale, word >> 28);
      for (int64_t i = 0; i < 4; ++i) {
        put_signed(codebook_iq2_xxs[load_u8(at + i)], eight_signs(word >> (7 * i) & 127u), part_scale, to + part * 32 + i * 8);
      }
    }
  });
}

// Half scale, 32 half-words (9-bit index, 7-bit signs), 8 bytes of two scales: one for each half of a part.
void iq2_xs_row(const std::byte* row, int64_t cols, float* out) {
  each_block<256, 74>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block);
    for (int64_t group = 0; group < 32; ++group) {  // eight columns each
      const uint32_t word = load_u16(block + 2 + group * 2);
      const uint32_t code = load_u8(block + 66 + group / 4) >> (group % 4 / 2 * 4) & 15u;
      put_signed(codebook_iq2_xs[word & 511u], eight_signs(word >> 9), iq2_scale(scale, code), to + group * 8);
    }
  });
}

// Half scale, 32 low index bytes, 32 sign bytes, 8 bytes of upper index bits (two for each group), 8 bytes of two scales.
void iq2_s_row(const std::byte* row, int64_t cols, float* out) {
  each_block<256, 82>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block);
    for (int64_t group = 0; group < 32; ++group) {
      const uint32_t high = load_u8(block + 66 + group / 4) >> (group % 4 * 2) & 3u;
      const uint32_t index = load_u8(block + 2 + group) | high << 8;
      const uint32_t code = load_u8(block + 74 + group / 4) >> (group % 4 / 2 * 4) & 15u;
      put_signed(codebook_iq2_s[index], load_u8(block + 34 + group), iq2_scale(scale, code), to + group * 8);
    }
  });
}

// Half scale, 64 index bytes, eight words of four 7-bit signs with a 4-bit scale on top.
void iq3_xxs_row(const std::byte* row, int64_t cols, float* out) {
  each_block<256, 98>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block);
    for (int64_t group = 0; group < 32; ++group) {
      const uint32_t word = load_u32(block + 66 + group / 4 * 4);
      const float part_scale = scale * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
      const uint32_t signs = eight_signs(word >> (7 * (group % 4)) & 127u);
      put_signed(codebook_iq3_xxs[load_u8(block + 2 + group * 2)], signs, part_scale, to + group * 8);
      put_signed(codebook_iq3_xxs[load_u8(block + 3 + group * 2)], signs >> 4, part_scale, to + group * 8 + 4);
    }
  });
}

// Half scale, 64 low index bytes, 8 bytes of ninth index bits, 32 sign bytes, 4 bytes of two scales.
void iq3_s_row(const std::byte* row, int64_t cols, float* out) {
  each_block<256, 110>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block);
    for (int64_t group = 0; group < 32; ++group) {
      const int64_t part = group / 4;
      const uint32_t code = load_u8(block + 106 + part / 2) >> (part % 2 * 4) & 15u;
      const float part_scale = scale * static_cast<float>(1 + 2 * code);
      const uint32_t high = load_u8(block + 66 + part) >> (group % 4 * 2);
      const uint32_t signs = load_u8(block + 74 + group);
      put_signed(codebook_iq3_s[load_u8(block + 2 + group * 2) | (high & 1u) << 8], signs, part_scale, to + group * 8);
      put_signed(codebook_iq3_s[load_u8(block + 3 + group * 2) | (high >> 1 & 1u) << 8], signs >> 4, part_scale, to + group * 8 + 4);
    }
  });
}

// Half scale, 32 low index bytes, eight half-words: four 3-bit upper index parts, a 3-bit scale, and the shift's sign on top.
void iq1_s_row(const std::byte* row, int64_t cols, float* out) {
  each_block<256, 50>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block);
    for (int64_t group = 0; group < 32; ++group) {
      const uint32_t word = load_u16(block + 34 + group / 4 * 2);
      const float part_scale = scale * static_cast<float>(2 * (word >> 12 & 7u) + 1);
      const uint32_t index = load_u8(block + 2 + group) | (word >> (3 * (group % 4)) & 7u) << 8;
      put_shifted(codebook_iq1_s[index], (word & 0x8000u) != 0 ? -iq1_shift : iq1_shift, part_scale, to + group * 8);
    }
  });
}

// 32 low index bytes, 16 bytes of nibbles (3-bit upper index part, the shift's sign on top), four half-words: four 3-bit scales of 16 columns
// each, and on top a quarter of the half-precision scale.
void iq1_m_row(const std::byte* row, int64_t cols, float* out) {
  each_block<256, 56>(row, cols, out, [](const std::byte* block, float* to) {
    uint32_t scale_bits = 0;
    for (int64_t i = 0; i < 4; ++i) scale_bits |= static_cast<uint32_t>(load_u16(block + 48 + i * 2) >> 12) << (4 * i);
    const float scale = half_to_float(static_cast<uint16_t>(scale_bits));
    for (int64_t group = 0; group < 32; ++group) {
      const uint32_t nibble = load_u8(block + 32 + group / 2) >> (group % 2 * 4) & 15u;
      const uint32_t code = static_cast<uint32_t>(load_u16(block + 48 + group / 8 * 2)) >> (group % 8 / 2 * 3) & 7u;
      const uint32_t index = load_u8(block + group) | (nibble & 7u) << 8;
      put_shifted(codebook_iq1_s[index], (nibble & 8u) != 0 ? -iq1_shift : iq1_shift, scale * static_cast<float>(2 * code + 1), to + group * 8);
    }
  });
}

}  // namespace vigil::compute::cpu
