// The codebook types' points as tables that a register of bytes can be looked up in (AVX-512 VBMI, GFNI), cut into planes: plane k has value k of
// every point. And the fields of their blocks, read for as many points as a register holds. Block layouts: dequantise_iq.cpp. Included by the
// kernel files alone.
#pragma once

#include "engine/compute/cpu/codebook_fields.hpp"
#include "engine/compute/cpu/codebooks.hpp"
#include "engine/compute/cpu/simd.hpp"

namespace vigil::compute::cpu::VIGIL_ISA {

using gguf::TensorType;

constexpr bool is_iq1(TensorType type) { return type == TensorType::iq1_s || type == TensorType::iq1_m; }
constexpr bool is_iq3(TensorType type) { return type == TensorType::iq3_xxs || type == TensorType::iq3_s; }

// ---- tables

// Points of eight values have only three different ones: their numbers (0, 1, 2) are kept four in a byte.
template <size_t points>
struct NumberPlanes {
  alignas(64) uint8_t bytes[2][points];
  template <typename Value>
  explicit NumberPlanes(const Codebook<Value, 8, points>& book) : bytes{} {
    for (size_t point = 0; point < points; ++point) {
      for (size_t k = 0; k < 8; ++k) {
        const int value = book[point][k];
        const int number = value == 8 || value == -1 ? 0 : value == 25 || value == 0 ? 1 : 2;  // of 8, 25, 43 or of -1, 0, 1
        bytes[k / 4][point] |= static_cast<uint8_t>(number << (2 * (k % 4)));
      }
    }
  }
};
template <size_t points>
struct ValuePlanes {
  alignas(64) uint8_t bytes[4][points];
  explicit ValuePlanes(const Codebook<uint8_t, 4, points>& book) : bytes{} {
    for (size_t point = 0; point < points; ++point) {
      for (size_t k = 0; k < 4; ++k) bytes[k][point] = book[point][k];
    }
  }
};

template <TensorType type>
const auto& planes_of() {
  if constexpr (type == TensorType::iq2_xxs) {
    static const NumberPlanes planes(codebook_iq2_xxs);
    return planes;
  } else if constexpr (type == TensorType::iq2_xs) {
    static const NumberPlanes planes(codebook_iq2_xs);
    return planes;
  } else if constexpr (type == TensorType::iq2_s) {
    static const NumberPlanes planes(codebook_iq2_s);
    return planes;
  } else if constexpr (type == TensorType::iq3_xxs) {
    static const ValuePlanes planes(codebook_iq3_xxs);
    return planes;
  } else if constexpr (type == TensorType::iq3_s) {
    static const ValuePlanes planes(codebook_iq3_s);
    return planes;
  } else {
    static const NumberPlanes planes(codebook_iq1_s);
    return planes;
  }
}

// The lowest seven bits of a place are those of `low`; bits[i] is bit 7 + i of all places. `table` has 128 << levels bytes.
template <int levels>
VIGIL_INLINE __m512i look_up_places(const uint8_t* table, __m512i low, const __mmask64* bits) {
  if constexpr (levels == 0) {
    return _mm512_permutex2var_epi8(_mm512_load_si512(table), low, _mm512_load_si512(table + 64));
  } else {
    const __m512i lower = look_up_places<levels - 1>(table, low, bits);
    const __m512i upper = look_up_places<levels - 1>(table + (size_t{64} << levels), low, bits);
    return _mm512_mask_blend_epi8(bits[levels - 1], lower, upper);
  }
}

template <size_t points>
constexpr int levels_of() { return points == 256 ? 1 : points == 512 ? 2 : points == 1024 ? 3 : 4; }

// ---- reading blocks

VIGIL_INLINE __m256i load_256(const uint8_t* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); }
VIGIL_INLINE __m128i load_8_bytes(const uint8_t* from) { return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)); }
VIGIL_INLINE __m512i join(__m256i a, __m256i b) { return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1); }
VIGIL_INLINE __mmask64 join_bits(uint64_t a, uint64_t b) { return a | b << 32; }

// Each byte's lowest seven bits and an eighth that makes the number of ones even: one product with a matrix of bits.
VIGIL_INLINE __m512i even_signs(__m512i sevens) { return _mm512_gf2p8affine_epi64_epi8(sevens, _mm512_set1_epi64(0x010204081020407f), 0); }
VIGIL_INLINE __m256i even_signs(__m256i sevens) { return _mm256_gf2p8affine_epi64_epi8(sevens, _mm256_set1_epi64x(0x010204081020407f), 0); }

// One block of two rows whose points have eight values.
struct EightValues {
  __m512i low;           // bits 0 to 7 of each point's place
  __mmask64 bits[4];     // bits 7 to 10
  __m512i signs;         // IQ2: a byte a point, a bit a column
  __mmask64 down;        // IQ1: which points are moved down
  __m512i codes[2];      // scales as the file has them, [8] of a row, for the first and second half of 32 columns
};

// ... and of one row whose points have four.
struct FourValues {
  __m512i low;
  __mmask64 bits[2];
  __m256i signs;         // a bit a column
};

template <TensorType type>
VIGIL_INLINE EightValues read_eights(const uint8_t* a, const uint8_t* b) {
  EightValues found;
  const auto codes_of_nibbles = [&](const uint8_t* of_a, const uint8_t* of_b) {
    const __m512i bytes = join(_mm256_cvtepu8_epi32(load_8_bytes(of_a)), _mm256_cvtepu8_epi32(load_8_bytes(of_b)));
    found.codes[0] = _mm512_and_si512(bytes, _mm512_set1_epi32(15));
    found.codes[1] = _mm512_srli_epi32(bytes, 4);
  };
  if constexpr (type == TensorType::iq2_xxs) {
    const __m512i of_a = _mm512_loadu_si512(a + 2), of_b = _mm512_loadu_si512(b + 2);  // [8] of four places and a word of signs
    found.low = join(_mm512_cvtepi64_epi32(of_a), _mm512_cvtepi64_epi32(of_b));
    const __m512i offsets = _mm512_set1_epi64(0x352e2720);                              // bits 32, 39, 46, 53
    found.signs = even_signs(join(_mm512_cvtepi64_epi32(_mm512_multishift_epi64_epi8(offsets, of_a)),
                                  _mm512_cvtepi64_epi32(_mm512_multishift_epi64_epi8(offsets, of_b))));
    found.codes[0] = join(_mm512_cvtepi64_epi32(_mm512_srli_epi64(of_a, 60)), _mm512_cvtepi64_epi32(_mm512_srli_epi64(of_b, 60)));
  } else if constexpr (type == TensorType::iq2_xs) {
    const __m512i of_a = _mm512_loadu_si512(a + 2), of_b = _mm512_loadu_si512(b + 2);  // [32] of nine bits of place, seven of signs
    const __m512i ninth = _mm512_set1_epi16(256);
    found.low = join(_mm512_cvtepi16_epi8(of_a), _mm512_cvtepi16_epi8(of_b));
    found.bits[1] = join_bits(_mm512_test_epi16_mask(of_a, ninth), _mm512_test_epi16_mask(of_b, ninth));
    found.signs = even_signs(join(_mm512_cvtepi16_epi8(_mm512_srli_epi16(of_a, 9)), _mm512_cvtepi16_epi8(_mm512_srli_epi16(of_b, 9))));
    codes_of_nibbles(a + 66, b + 66);
  } else if constexpr (type == TensorType::iq2_s) {
    constexpr uint64_t every_second = 0x5555555555555555u;
    const uint64_t of_a = load_64(a + 66), of_b = load_64(b + 66);
    found.low = join(load_256(a + 2), load_256(b + 2));
    found.bits[1] = join_bits(_pext_u64(of_a, every_second), _pext_u64(of_b, every_second));
    found.bits[2] = join_bits(_pext_u64(of_a, every_second << 1), _pext_u64(of_b, every_second << 1));
    found.signs = join(load_256(a + 34), load_256(b + 34));
    codes_of_nibbles(a + 74, b + 74);
  } else if constexpr (type == TensorType::iq1_s) {
    constexpr uint64_t lowest = 0x0249024902490249u;  // of four three-bit numbers in each half-word
    const auto bits = [](const uint8_t* block, uint64_t mask) { return _pext_u64(load_64(block + 34), mask) | _pext_u64(load_64(block + 42), mask) << 16; };
    const auto down = [](const uint8_t* block) {
      const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 34));
      return _pdep_u64(_mm_movepi16_mask(words), 0x11111111u) * 15;
    };
    found.low = join(load_256(a + 2), load_256(b + 2));
    for (int i = 0; i < 3; ++i) found.bits[1 + i] = join_bits(bits(a, lowest << i), bits(b, lowest << i));
    found.down = join_bits(down(a), down(b));
    const auto words = [](const uint8_t* block) { return _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block + 34))); };
    found.codes[0] = _mm512_and_si512(_mm512_srli_epi32(join(words(a), words(b)), 12), _mm512_set1_epi32(7));
  } else {
    static_assert(type == TensorType::iq1_m);
    constexpr uint64_t lowest = 0x1111111111111111u;  // of the nibbles, one a point
    const auto bits = [](const uint8_t* block, uint64_t mask) { return _pext_u64(load_64(block + 32), mask) | _pext_u64(load_64(block + 40), mask) << 16; };
    found.low = join(load_256(a), load_256(b));
    for (int i = 0; i < 3; ++i) found.bits[1 + i] = join_bits(bits(a, lowest << i), bits(b, lowest << i));
    found.down = join_bits(bits(a, lowest << 3), bits(b, lowest << 3));
    const auto words = [](const uint8_t* block) {  // each half-word has the codes of two parts
      const __m256i four = _mm256_cvtepu16_epi32(load_8_bytes(block + 48));
      return _mm256_permutevar8x32_epi32(four, _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
    };
    const __m512i codes = _mm512_srlv_epi32(join(words(a), words(b)), _mm512_setr_epi32(0, 6, 0, 6, 0, 6, 0, 6, 0, 6, 0, 6, 0, 6, 0, 6));
    found.codes[0] = _mm512_and_si512(codes, _mm512_set1_epi32(7));
    found.codes[1] = _mm512_and_si512(_mm512_srli_epi32(codes, 3), _mm512_set1_epi32(7));
  }
  found.bits[0] = _mm512_movepi8_mask(found.low);
  return found;
}

template <TensorType type>
VIGIL_INLINE FourValues read_fours(const uint8_t* block) {
  FourValues found;
  found.low = _mm512_loadu_si512(block + 2);
  found.bits[0] = _mm512_movepi8_mask(found.low);
  if constexpr (type == TensorType::iq3_xxs) {
    const __m256i offsets = _mm256_set1_epi64x(0x352e2720150e0700);  // of seven bits each, in two words
    found.signs = even_signs(_mm256_multishift_epi64_epi8(offsets, load_256(block + 66)));
  } else {
    found.bits[1] = load_64(block + 66);
    found.signs = load_256(block + 74);
  }
  return found;
}

template <TensorType type>
VIGIL_INLINE __m512i codes_of_fours(const uint8_t* a, const uint8_t* b) {
  if constexpr (type == TensorType::iq3_xxs) {
    return _mm512_srli_epi32(join(load_256(a + 66), load_256(b + 66)), 28);
  } else {
    const auto words = [](const uint8_t* block) { return _mm256_set1_epi32(static_cast<int>(word_at(block + 106))); };
    const __m512i places = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    return _mm512_and_si512(_mm512_srlv_epi32(join(words(a), words(b)), places), _mm512_set1_epi32(15));
  }
}

// Scales from their codes, with the operations of the other kernels in their order.
template <TensorType type>
VIGIL_INLINE __m512 scales_of(__m512 scale, __m512i codes) {
  const __m512 values = _mm512_cvtepi32_ps(codes), half = _mm512_set1_ps(0.5f);
  if constexpr (type == TensorType::iq3_xxs) return _mm512_mul_ps(_mm512_mul_ps(scale, _mm512_add_ps(half, values)), half);
  const __m512 odd = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_add_epi32(codes, codes), _mm512_set1_epi32(1)));
  if constexpr (type == TensorType::iq3_s) return _mm512_mul_ps(scale, odd);
  if constexpr (is_iq1(type)) return _mm512_mul_ps(_mm512_mul_ps(scale, odd), _mm512_set1_ps(0.125f));
  return _mm512_mul_ps(_mm512_mul_ps(scale, _mm512_add_ps(half, values)), _mm512_set1_ps(0.25f));
}
template <TensorType type>
VIGIL_INLINE __m512 block_scales(const uint8_t* a, const uint8_t* b) {
  const auto scale = [](const uint8_t* block) { return type == TensorType::iq1_m ? iq1_m_scale(block + 48) : half_at(block); };
  return _mm512_mask_blend_ps(0xff00, _mm512_set1_ps(scale(a)), _mm512_set1_ps(scale(b)));
}

}  // namespace vigil::compute::cpu::VIGIL_ISA
