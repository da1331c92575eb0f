// Products of few input rows with the codebook types, straight from the file's blocks: 32 columns of one row are one register, and the sums of
// sixteen rows are then turned so that lanes are rows. Sums of products are whole numbers, so the results are those of the unpacked way
// (panel_types.hpp) to the bit. Block layouts: dequantise_iq.cpp. Included by the kernel files alone.
#pragma once

#include "engine/compute/cpu/codebook_fields.hpp"
#include "engine/compute/cpu/codebooks.hpp"
#include "engine/compute/cpu/product_kernels.hpp"

namespace vigil::compute::cpu::VIGIL_ISA {

// 32 codes: magnitudes, and what makes the negative ones negative (bytes of 1 and -1).
struct SignedCodes {
  __m256i magnitudes, signs;
};

// Bytes of 1 and -1 for the seven stored signs and the eighth that makes them even.
struct SignTable {
  uint64_t words[128];
};
constexpr SignTable make_sign_table() {
  SignTable table{};
  for (uint32_t seven = 0; seven < 128; ++seven) {
    for (uint32_t i = 0; i < 8; ++i) table.words[seven] |= ((eight_signs(seven) >> i & 1u) != 0 ? uint64_t{0xff} : uint64_t{1}) << (8 * i);
  }
  return table;
}
constexpr SignTable sign_table = make_sign_table();

VIGIL_INLINE __m256i four_words(uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
  return _mm256_set_epi64x(static_cast<long long>(d), static_cast<long long>(c), static_cast<long long>(b), static_cast<long long>(a));
}

// 28 bits: four groups of seven signs.
VIGIL_INLINE __m256i signs_of_sevens(uint32_t word) {
  const uint64_t* table = sign_table.words;
  return four_words(table[word & 127], table[word >> 7 & 127], table[word >> 14 & 127], table[word >> 21 & 127]);
}
// 32 bits, one a column.
VIGIL_INLINE __m256i signs_of_bits(uint32_t word) {
  const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(word)),
                                             _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303));
  const __m256i bits = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201u));
  return _mm256_or_si256(_mm256_cmpeq_epi8(_mm256_and_si256(spread, bits), bits), _mm256_set1_epi8(1));
}

template <size_t points>
VIGIL_INLINE __m256i eight_points(const Codebook<uint8_t, 4, points>& book, __m256i places) {
  return _mm256_i32gather_epi32(reinterpret_cast<const int*>(book.data()), places, 4);
}
template <typename Book>
VIGIL_INLINE uint64_t point_at(const Book& book, uint32_t place) { return load_64(book[place].data()); }

VIGIL_INLINE float iq2_scale_of(float scale, uint32_t code) { return scale * (0.5f + static_cast<float>(code)) * 0.25f; }

// Points of -1, 0 and 1, moved by an eighth up or down, eight times as large; `down` holds bytes of 1 and -1.
VIGIL_INLINE SignedCodes iq1_codes(__m256i points, __m256i up_or_down) {
  const __m256i twice = _mm256_add_epi8(points, points), four = _mm256_add_epi8(twice, twice);
  const __m256i codes = _mm256_add_epi8(_mm256_add_epi8(four, four), up_or_down);
  return {_mm256_abs_epi8(codes), codes};
}

// Part `part` (32 columns) of a block; scales of its two halves.
template <TensorType type>
VIGIL_INLINE SignedCodes read_codes(const uint8_t* block, int64_t part, float* scales) {
  if constexpr (type == TensorType::iq2_xxs) {
    const uint8_t* at = block + 2 + part * 8;
    const uint32_t word = word_at(at + 4);
    scales[0] = scales[1] = iq2_scale_of(half_at(block), word >> 28);
    const auto& book = codebook_iq2_xxs;
    return {four_words(point_at(book, at[0]), point_at(book, at[1]), point_at(book, at[2]), point_at(book, at[3])), signs_of_sevens(word)};
  } else if constexpr (type == TensorType::iq2_xs) {
    const uint64_t words = load_64(block + 2 + part * 8);
    const uint32_t codes = block[66 + part];
    scales[0] = iq2_scale_of(half_at(block), codes & 15u);
    scales[1] = iq2_scale_of(half_at(block), codes >> 4);
    const auto& book = codebook_iq2_xs;
    const uint64_t* table = sign_table.words;
    return {four_words(point_at(book, words & 511), point_at(book, words >> 16 & 511), point_at(book, words >> 32 & 511), point_at(book, words >> 48 & 511)),
            four_words(table[words >> 9 & 127], table[words >> 25 & 127], table[words >> 41 & 127], table[words >> 57])};
  } else if constexpr (type == TensorType::iq2_s) {
    const uint32_t codes = block[74 + part], high = block[66 + part];
    scales[0] = iq2_scale_of(half_at(block), codes & 15u);
    scales[1] = iq2_scale_of(half_at(block), codes >> 4);
    const uint8_t* at = block + 2 + part * 4;
    const auto& book = codebook_iq2_s;
    return {four_words(point_at(book, at[0] | (high & 3u) << 8), point_at(book, at[1] | (high & 12u) << 6), point_at(book, at[2] | (high & 48u) << 4),
                       point_at(book, at[3] | (high & 192u) << 2)),
            signs_of_bits(word_at(block + 34 + part * 4))};
  } else if constexpr (type == TensorType::iq3_xxs) {
    const uint32_t word = word_at(block + 66 + part * 4);
    scales[0] = scales[1] = half_at(block) * (0.5f + static_cast<float>(word >> 28)) * 0.5f;
    const __m256i places = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(block + 2 + part * 8)));
    return {eight_points(codebook_iq3_xxs, places), signs_of_sevens(word)};
  } else if constexpr (type == TensorType::iq3_s) {
    const uint32_t code = block[106 + part / 2] >> (part % 2 * 4) & 15u;
    scales[0] = scales[1] = half_at(block) * static_cast<float>(1 + 2 * code);
    const __m256i low = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(block + 2 + part * 8)));
    const __m256i high = _mm256_sllv_epi32(_mm256_set1_epi32(block[66 + part]), _mm256_setr_epi32(8, 7, 6, 5, 4, 3, 2, 1));
    return {eight_points(codebook_iq3_s, _mm256_or_si256(low, _mm256_and_si256(high, _mm256_set1_epi32(256)))), signs_of_bits(word_at(block + 74 + part * 4))};
  } else if constexpr (type == TensorType::iq1_s) {
    const uint32_t word = half_word_at(block + 34 + part * 2);
    scales[0] = scales[1] = half_at(block) * static_cast<float>(2 * (word >> 12 & 7u) + 1) * 0.125f;
    const uint8_t* at = block + 2 + part * 4;
    const auto& book = codebook_iq1_s;
    const __m256i points = four_words(point_at(book, at[0] | (word & 7u) << 8), point_at(book, at[1] | (word >> 3 & 7u) << 8),
                                      point_at(book, at[2] | (word >> 6 & 7u) << 8), point_at(book, at[3] | (word >> 9 & 7u) << 8));
    return iq1_codes(points, _mm256_set1_epi8((word & 0x8000u) != 0 ? -1 : 1));
  } else {
    static_assert(type == TensorType::iq1_m);
    const uint8_t* tops = block + 48;
    const float scale = iq1_m_scale(tops);
    const uint32_t codes = half_word_at(tops + part / 2 * 2) >> (part % 2 * 6);
    scales[0] = scale * static_cast<float>(2 * (codes & 7u) + 1) * 0.125f;
    scales[1] = scale * static_cast<float>(2 * (codes >> 3 & 7u) + 1) * 0.125f;
    const uint8_t* at = block + part * 4;
    const uint32_t nibbles = half_word_at(block + 32 + part * 2);
    const auto& book = codebook_iq1_s;
    const __m256i points = four_words(point_at(book, at[0] | (nibbles & 7u) << 8), point_at(book, at[1] | (nibbles >> 4 & 7u) << 8),
                                      point_at(book, at[2] | (nibbles >> 8 & 7u) << 8), point_at(book, at[3] | (nibbles >> 12 & 7u) << 8));
    const auto direction = [&](uint32_t bit) { return (nibbles & bit) != 0 ? ~uint64_t{0} : uint64_t{0x0101010101010101u}; };
    return iq1_codes(points, four_words(direction(0x8), direction(0x80), direction(0x800), direction(0x8000)));
  }
}

// Eight sums of four products each.
VIGIL_INLINE __m256i dot_codes_256(const SignedCodes& codes, __m256i values) {
  const __m256i with_signs = _mm256_sign_epi8(values, codes.signs);
#if defined(__AVX512VNNI__)
  return _mm256_dpbusd_epi32(_mm256_setzero_si256(), codes.magnitudes, with_signs);
#else
  return dot_pairs(_mm256_setzero_si256(), codes.magnitudes, with_signs);
#endif
}

// Sixteen rows' eight sums each become one sum a row: of the first 16 columns and of the second.
VIGIL_INLINE void turn_sums(const __m256i* sums, Ints& first, Ints& second) {
  alignas(64) int32_t low[16], high[16];
  for (int i = 0; i < 4; ++i) {
    const __m256i joined = _mm256_hadd_epi32(_mm256_hadd_epi32(sums[4 * i], sums[4 * i + 1]), _mm256_hadd_epi32(sums[4 * i + 2], sums[4 * i + 3]));
    _mm_store_si128(reinterpret_cast<__m128i*>(low + 4 * i), _mm256_castsi256_si128(joined));
    _mm_store_si128(reinterpret_cast<__m128i*>(high + 4 * i), _mm256_extracti128_si256(joined, 1));
  }
  first = load_ints(low);
  second = load_ints(high);
}

template <TensorType type, int count>
void codebook_rows(const uint8_t* matrix, int64_t row_bytes, int64_t cols, const ProductRow* rows, int64_t first, int64_t lanes) {
  constexpr bool halves = has_half_scales(type);
  Floats sums[count];
  for (int n = 0; n < count; ++n) sums[n] = zero_floats();
  __m256i dots[count][16];
  for (int n = 0; n < count; ++n) {
    for (__m256i& dot : dots[n]) dot = _mm256_setzero_si256();
  }
  alignas(64) float scales[2][16] = {};
  for (int64_t b = 0; b < cols / 32; ++b) {
    __m256i values[count];
    for (int n = 0; n < count; ++n) values[n] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[n].quantised.codes + 32 * b));
    const uint8_t* block = matrix + b / 8 * codebook_block_bytes(type);
    for (int64_t lane = 0; lane < lanes; ++lane, block += row_bytes) {
      float both[2];
      const SignedCodes codes = read_codes<type>(block, b % 8, both);
      scales[0][lane] = both[0];
      if constexpr (halves) scales[1][lane] = both[1];
      for (int n = 0; n < count; ++n) dots[n][lane] = dot_codes_256(codes, values[n]);
    }
    for (int n = 0; n < count; ++n) {
      Ints low, high;
      turn_sums(dots[n], low, high);
      const Floats row_scale = all(rows[n].quantised.scales[b]);
      if constexpr (halves) {
        sums[n] = fma(to_floats(low), multiply(load(scales[0]), row_scale), sums[n]);
        sums[n] = fma(to_floats(high), multiply(load(scales[1]), row_scale), sums[n]);
      } else {
        sums[n] = fma(to_floats(add(low, high)), multiply(load(scales[0]), row_scale), sums[n]);
      }
    }
  }
  for (int n = 0; n < count; ++n) store_some(rows[n].out + first, sums[n], lanes);
}

template <TensorType type>
void codebook_any(const std::byte* matrix, int64_t row_bytes, int64_t cols, const ProductRow* rows, int64_t count, int64_t first, int64_t lanes) {
  in_tiles<4>(count, [&](auto size, int64_t row) {
    codebook_rows<type, size.value>(reinterpret_cast<const uint8_t*>(matrix), row_bytes, cols, rows + row, first, lanes);
  });
}

bool few_from_file(TensorType type, const std::byte* matrix, int64_t row_bytes, int64_t cols, const ProductRow* rows, int64_t count, int64_t first,
                   int64_t lanes) {
  switch (type) {
    case TensorType::iq1_s: codebook_any<TensorType::iq1_s>(matrix, row_bytes, cols, rows, count, first, lanes); return true;
    case TensorType::iq1_m: codebook_any<TensorType::iq1_m>(matrix, row_bytes, cols, rows, count, first, lanes); return true;
    case TensorType::iq2_xxs: codebook_any<TensorType::iq2_xxs>(matrix, row_bytes, cols, rows, count, first, lanes); return true;
    case TensorType::iq2_xs: codebook_any<TensorType::iq2_xs>(matrix, row_bytes, cols, rows, count, first, lanes); return true;
    case TensorType::iq2_s: codebook_any<TensorType::iq2_s>(matrix, row_bytes, cols, rows, count, first, lanes); return true;
    case TensorType::iq3_xxs: codebook_any<TensorType::iq3_xxs>(matrix, row_bytes, cols, rows, count, first, lanes); return true;
    case TensorType::iq3_s: codebook_any<TensorType::iq3_s>(matrix, row_bytes, cols, rows, count, first, lanes); return true;
    default: return false;
  }
}

}  // namespace vigil::compute::cpu::VIGIL_ISA
