// Weight types with one scale (and perhaps an offset) for each small block. Layouts: ggml project, ggml-common.h. Values come out in the
// order of the file's columns; nibbles hold column j (low) and column j + half a block (high).
#include <bit>
#include <cmath>

#include "engine/compute/cpu/blocks.hpp"
#include "engine/compute/cpu/codebooks.hpp"

namespace vigil::compute::cpu {
namespace {

// Calls place(j, low nibble, high nibble) for each of `count` bytes.
template <typename Place>
void each_nibble_pair(const std::byte* bytes, int64_t count, Place&& place) {
  for (int64_t j = 0; j < count; ++j) {
    const uint32_t both = load_u8(bytes + j);
    place(j, both & 15u, both >> 4);
  }
}

float times(float scale, int32_t code) { return scale * static_cast<float>(code); }

// The fifth bits of a 32-block stand in one word: bit j for column j.
uint32_t fifth_bit(uint32_t word, int64_t column) { return ((word >> column) & 1u) << 4; }

}  // namespace

// Half scale, 16 bytes of nibbles: scale * (code - 8).
void q4_0_row(const std::byte* row, int64_t cols, float* out) {
  each_block<32, 18>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block);
    each_nibble_pair(block + 2, 16, [&](int64_t j, uint32_t low, uint32_t high) {
      to[j] = times(scale, static_cast<int32_t>(low) - 8);
      to[j + 16] = times(scale, static_cast<int32_t>(high) - 8);
    });
  });
}

// Half scale, half offset, nibbles: scale * code + offset.
void q4_1_row(const std::byte* row, int64_t cols, float* out) {
  each_block<32, 20>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block), offset = load_half(block + 2);
    each_nibble_pair(block + 4, 16, [&](int64_t j, uint32_t low, uint32_t high) {
      to[j] = scale * static_cast<float>(low) + offset;
      to[j + 16] = scale * static_cast<float>(high) + offset;
    });
  });
}

// Half scale, a word of fifth bits, nibbles: scale * (code - 16).
void q5_0_row(const std::byte* row, int64_t cols, float* out) {
  each_block<32, 22>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block);
    const uint32_t word = load_u32(block + 2);
    each_nibble_pair(block + 6, 16, [&](int64_t j, uint32_t low, uint32_t high) {
      to[j] = times(scale, static_cast<int32_t>(low | fifth_bit(word, j)) - 16);
      to[j + 16] = times(scale, static_cast<int32_t>(high | fifth_bit(word, j + 16)) - 16);
    });
  });
}

// Half scale, half offset, a word of fifth bits, nibbles: scale * code + offset.
void q5_1_row(const std::byte* row, int64_t cols, float* out) {
  each_block<32, 24>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block), offset = load_half(block + 2);
    const uint32_t word = load_u32(block + 4);
    each_nibble_pair(block + 8, 16, [&](int64_t j, uint32_t low, uint32_t high) {
      to[j] = scale * static_cast<float>(low | fifth_bit(word, j)) + offset;
      to[j + 16] = scale * static_cast<float>(high | fifth_bit(word, j + 16)) + offset;
    });
  });
}

// Half scale, 32 signed bytes: scale * code.
void q8_0_row(const std::byte* row, int64_t cols, float* out) {
  each_block<32, 34>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block);
    for (int64_t j = 0; j < 32; ++j) to[j] = times(scale, static_cast<int8_t>(load_u8(block + 2 + j)));
  });
}

// Half scale, 128 bits: scale with the bit's sign, 1 = positive.
void q1_0_row(const std::byte* row, int64_t cols, float* out) {
  each_block<128, 18>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block);
    for (int64_t j = 0; j < 128; ++j) to[j] = (load_u8(block + 2 + j / 8) >> (j % 8) & 1) != 0 ? scale : -scale;
  });
}

// Half scale, 64 two-bit codes in order: scale * (code - 1).
void q2_0_row(const std::byte* row, int64_t cols, float* out) {
  each_block<64, 18>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block);
    for (int64_t j = 0; j < 64; ++j) to[j] = times(scale, (load_u8(block + 2 + j / 4) >> (2 * (j % 4)) & 3) - 1);
  });
}

// 48 bytes of five ternary digits, 4 bytes of four, half scale: scale * (digit - 1). A byte is a fraction in base 3, scaled to 256: the
// n-th digit is what stands before the point after multiplying by 3^n modulo 1 and by 3.
void tq1_0_row(const std::byte* row, int64_t cols, float* out) {
  each_block<256, 54>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block + 52);
    const auto digits = [&](const std::byte* bytes, int64_t count, int64_t digit_count) {
      uint32_t power = 1;
      for (int64_t n = 0; n < digit_count; ++n, power *= 3) {
        for (int64_t j = 0; j < count; ++j) {
          const uint32_t fraction = (load_u8(bytes + j) * power) & 255u;
          *to++ = times(scale, static_cast<int32_t>(fraction * 3 >> 8) - 1);
        }
      }
    };
    digits(block, 32, 5);
    digits(block + 32, 16, 5);
    digits(block + 48, 4, 4);
  });
}

// 64 bytes of two-bit codes, half scale: scale * (code - 1). Half a block is 32 bytes; bit pair l of byte j is its column 32 l + j.
void tq2_0_row(const std::byte* row, int64_t cols, float* out) {
  each_block<256, 66>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block + 64);
    for (int64_t column = 0; column < 256; ++column) {
      const int64_t half = column / 128, pair = column % 128 / 32, j = column % 32;
      to[column] = times(scale, (load_u8(block + half * 32 + j) >> (2 * pair) & 3) - 1);
    }
  });
}

// Half scale, nibbles that name one of 16 uneven levels.
void iq4_nl_row(const std::byte* row, int64_t cols, float* out) {
  each_block<32, 18>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = load_half(block);
    each_nibble_pair(block + 2, 16, [&](int64_t j, uint32_t low, uint32_t high) {
      to[j] = times(scale, codebook_iq4_nl[low]);
      to[j + 16] = times(scale, codebook_iq4_nl[high]);
    });
  });
}

// A power of two (8-bit exponent, bias 127), nibbles of four-bit floats: OCP microscaling formats 1.0. The table is doubled, the scale
// halved: with exponent 0 that half is a subnormal float, exact all the same.
void mxfp4_row(const std::byte* row, int64_t cols, float* out) {
  each_block<32, 17>(row, cols, out, [](const std::byte* block, float* to) {
    const float scale = std::ldexp(1.0f, static_cast<int>(load_u8(block)) - 128);
    each_nibble_pair(block + 1, 16, [&](int64_t j, uint32_t low, uint32_t high) {
      to[j] = times(scale, codebook_fp4_doubled[low]);
      to[j + 16] = times(scale, codebook_fp4_doubled[high]);
    });
  });
}

// Four sub-blocks of 16: four scales, then for each 8 bytes of nibbles of four-bit floats.
void nvfp4_row(const std::byte* row, int64_t cols, float* out) {
  each_block<64, 36>(row, cols, out, [](const std::byte* block, float* to) {
    for (int64_t part = 0; part < 4; ++part) {
      const float scale = unsigned_e4m3(load_u8(block + part)) * 0.5f;  // the table is doubled
      each_nibble_pair(block + 4 + part * 8, 8, [&](int64_t j, uint32_t low, uint32_t high) {
        to[part * 16 + j] = times(scale, codebook_fp4_doubled[low]);
        to[part * 16 + j + 8] = times(scale, codebook_fp4_doubled[high]);
      });
    }
  });
}

}  // namespace vigil::compute::cpu
