// Products with the codebook types where a register of bytes can be looked up in a table of any size (AVX-512 VBMI, GFNI). A point
// is not fetched from memory: tables are cut into planes, plane k holding value k of every point, so that one lookup serves 64 points, and
// inputs are spread over as many planes. A register holds one block of rows l and l + 8, or of one row where points have four values. Sums are
// whole numbers, so the results are those of codebook_kernels.hpp to the bit. Block layouts: dequantise_iq.cpp. Included by the kernel files alone.
#pragma once

#include <algorithm>

#include "engine/compute/cpu/codebook_points.hpp"
#include "engine/compute/cpu/fast_kernels.hpp"
#include "engine/compute/cpu/simd.hpp"

namespace vigil::compute::cpu::avx512 {
int64_t many_from(gguf::TensorType type);  // kernels_avx512.cpp
}

namespace vigil::compute::cpu::VIGIL_ISA {

// ---- inputs

// 256 inputs as planes. Points of eight values: plane k has inputs 8 i + k, i below 32, twice; with two scales in 32 columns there are eight
// planes for the first sixteen columns of each 32 and eight for the others, zeros in between. Points of four: plane k has inputs 4 i + k.
template <TensorType type>
inline constexpr int planes = is_iq3(type) ? 4 : has_half_scales(type) ? 16 : 8;

VIGIL_INLINE __m512i every(int64_t step) {
  alignas(64) uint8_t places[64];
  for (int64_t i = 0; i < 64; ++i) places[i] = static_cast<uint8_t>(i * step);
  return _mm512_load_si512(places);
}

template <TensorType type>
VIGIL_INLINE void spread(const int8_t* inputs, __m512i* to) {
  const __m512i a = _mm512_loadu_si512(inputs), b = _mm512_loadu_si512(inputs + 64), c = _mm512_loadu_si512(inputs + 128), d = _mm512_loadu_si512(inputs + 192);
  constexpr int values = is_iq3(type) ? 4 : 8;
  const __m512i from = every(values);
  for (int k = 0; k < values; ++k) {
    const __m512i places = _mm512_add_epi8(from, _mm512_set1_epi8(static_cast<char>(k)));
    const __m512i first = _mm512_permutex2var_epi8(a, places, b), second = _mm512_permutex2var_epi8(c, places, d);
    if constexpr (is_iq3(type)) {
      to[k] = join(_mm512_castsi512_si256(first), _mm512_castsi512_si256(second));
    } else {
      const __m512i all_of_them = _mm512_permutex2var_epi64(first, _mm512_setr_epi64(0, 1, 8, 9, 0, 1, 8, 9), second);
      if constexpr (has_half_scales(type)) {
        to[k] = _mm512_maskz_mov_epi8(0x3333333333333333u, all_of_them);
        to[8 + k] = _mm512_maskz_mov_epi8(0xccccccccccccccccu, all_of_them);
      } else {
        to[k] = all_of_them;
      }
    }
  }
}

// ---- products

VIGIL_INLINE __m512i minus_where(__mmask64 negative, __m512i values) {
  return _mm512_mask_sub_epi8(values, negative, _mm512_setzero_si512(), values);
}

// Calls take(k, magnitudes, negative) for each plane k (a constant) of a block. An IQ1 value is eight times its point's and one up or down: plus
// `iq1_offset` it is a byte without a sign.
inline constexpr int iq1_offset = 9;

template <TensorType type, typename Take>
VIGIL_INLINE void each_plane(const EightValues& block, Take&& take) {
  const auto& tables = planes_of<type>();
  constexpr int levels = levels_of<sizeof tables.bytes[0]>();
  __m512i numbers[2];
  for (int i = 0; i < 2; ++i) numbers[i] = look_up_places<levels>(tables.bytes[i], block.low, block.bits);
  const __m512i values = is_iq1(type) ? _mm512_set1_epi32(17 << 16 | 9 << 8 | 1) : _mm512_set1_epi32(43 << 16 | 25 << 8 | 8);
  const __m512i shift = is_iq1(type) ? _mm512_mask_blend_epi8(block.down, _mm512_set1_epi8(1), _mm512_set1_epi8(-1)) : _mm512_setzero_si512();
  const auto plane = [&](auto k) {
    const __m512i number = _mm512_and_si512(_mm512_srli_epi16(numbers[k.value / 4], 2 * (k.value % 4)), _mm512_set1_epi8(3));
    const __m512i magnitudes = _mm512_shuffle_epi8(values, number);
    if constexpr (is_iq1(type)) take(k, _mm512_add_epi8(magnitudes, shift), __mmask64{0});
    else take(k, magnitudes, _mm512_test_epi8_mask(block.signs, _mm512_set1_epi8(static_cast<char>(1 << k.value))));
  };
  plane(std::integral_constant<int, 0>{});
  plane(std::integral_constant<int, 1>{});
  plane(std::integral_constant<int, 2>{});
  plane(std::integral_constant<int, 3>{});
  plane(std::integral_constant<int, 4>{});
  plane(std::integral_constant<int, 5>{});
  plane(std::integral_constant<int, 6>{});
  plane(std::integral_constant<int, 7>{});
}
template <TensorType type, typename Take>
VIGIL_INLINE void each_plane(const FourValues& block, Take&& take) {
  const auto& tables = planes_of<type>();
  constexpr int levels = levels_of<sizeof tables.bytes[0]>();
  alignas(64) static constexpr auto twice = [] {
    std::array<uint8_t, 64> places{};
    for (size_t i = 0; i < 64; ++i) places[i] = static_cast<uint8_t>(i / 2);
    return places;
  }();
  const __m512i signs = _mm512_permutexvar_epi8(_mm512_load_si512(twice.data()), _mm512_castsi256_si512(block.signs));  // a byte of them a point
  const auto plane = [&](auto k) {  // points take a byte's halves in turn
    const __mmask64 negative = _mm512_test_epi8_mask(signs, _mm512_set1_epi16(static_cast<int16_t>(0x1001 << k.value)));
    take(k, look_up_places<levels>(tables.bytes[k.value], block.low, block.bits), negative);
  };
  plane(std::integral_constant<int, 0>{});
  plane(std::integral_constant<int, 1>{});
  plane(std::integral_constant<int, 2>{});
  plane(std::integral_constant<int, 3>{});
}

// dots[h][n] = 32-bit sums of each 32 columns (or of half h of them) of a row, [8] of the one and [8] of the other.
template <TensorType type, int count>
VIGIL_INLINE void dot_eights(const EightValues& block, const __m512i (*inputs)[planes<type>], __m512i (*dots)[count]) {
  constexpr int halves = has_half_scales(type) ? 2 : 1;
  for (int h = 0; h < halves; ++h) {
    for (int n = 0; n < count; ++n) dots[h][n] = _mm512_setzero_si512();
  }
  each_plane<type>(block, [&](auto k, __m512i magnitudes, __mmask64 negative) {
    for (int n = 0; n < count; ++n) {
      for (int h = 0; h < halves; ++h) {
        const __m512i input = inputs[n][8 * h + k.value];
        dots[h][n] = _mm512_dpbusd_epi32(dots[h][n], magnitudes, is_iq1(type) ? input : minus_where(negative, input));
      }
    }
  });
}

// dots[n] = sums of each 16 columns of one row, [16].
template <TensorType type, int count>
VIGIL_INLINE void dot_fours(const FourValues& block, const __m512i (*inputs)[planes<type>], __m512i* dots) {
  for (int n = 0; n < count; ++n) dots[n] = _mm512_setzero_si512();
  each_plane<type>(block, [&](auto k, __m512i magnitudes, __mmask64 negative) {
    for (int n = 0; n < count; ++n) dots[n] = _mm512_dpbusd_epi32(dots[n], magnitudes, minus_where(negative, inputs[n][k.value]));
  });
}

// Eight registers of [8] of a row and [8] of another become eight of a value of all sixteen rows.
VIGIL_INLINE void turn(__m512i* r) {
  const __m512i even = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), odd = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
  __m512i fours[2][4];  // of rows 0 to 3 and of rows 4 to 7: values c and c + 4
  for (int i = 0; i < 2; ++i) {
    const __m512i* of = r + 4 * i;
    const __m512i a = _mm512_unpacklo_epi32(of[0], of[1]), b = _mm512_unpackhi_epi32(of[0], of[1]);
    const __m512i c = _mm512_unpacklo_epi32(of[2], of[3]), d = _mm512_unpackhi_epi32(of[2], of[3]);
    fours[i][0] = _mm512_unpacklo_epi64(a, c);
    fours[i][1] = _mm512_unpackhi_epi64(a, c);
    fours[i][2] = _mm512_unpacklo_epi64(b, d);
    fours[i][3] = _mm512_unpackhi_epi64(b, d);
  }
  for (int c = 0; c < 4; ++c) {
    r[c] = _mm512_permutex2var_epi64(fours[0][c], even, fours[1][c]);
    r[c + 4] = _mm512_permutex2var_epi64(fours[0][c], odd, fours[1][c]);
  }
}

template <TensorType type, int count>
void plane_rows(const uint8_t* matrix, int64_t row_bytes, int64_t cols, const ProductRow* rows, int64_t first, int64_t lanes) {
  constexpr int halves = has_half_scales(type) ? 2 : 1;
  constexpr int64_t block_bytes = codebook_block_bytes(type);
  Floats sums[count];
  for (int n = 0; n < count; ++n) sums[n] = zero_floats();
  const uint8_t* next = matrix + lanes * row_bytes;  // the group of rows after this, asked for in as many pieces
  for (int64_t s = 0; s < cols / 256; ++s) {
    __m512i inputs[count][planes<type>];
    for (int n = 0; n < count; ++n) spread<type>(rows[n].quantised.codes + 256 * s, inputs[n]);
    __m512i dots[halves][count][8], scales[halves][8];
    for (int64_t p = 0; p < 8; ++p) {
      const uint8_t* a = matrix + std::min(p, lanes - 1) * row_bytes + s * block_bytes;
      const uint8_t* b = matrix + std::min(p + 8, lanes - 1) * row_bytes + s * block_bytes;
      for (int64_t i = 0; i < 2 * block_bytes; i += 64) __builtin_prefetch(next + i, 0, 2);
      next += 2 * block_bytes;
      const __m512 scale = block_scales<type>(a, b);
      if constexpr (is_iq3(type)) {
        __m512i of_a[count], of_b[count];
        dot_fours<type, count>(read_fours<type>(a), inputs, of_a);
        dot_fours<type, count>(read_fours<type>(b), inputs, of_b);
        const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
        const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
        for (int n = 0; n < count; ++n) {
          dots[0][n][p] = _mm512_add_epi32(_mm512_permutex2var_epi32(of_a[n], even, of_b[n]), _mm512_permutex2var_epi32(of_a[n], odd, of_b[n]));
        }
        scales[0][p] = _mm512_castps_si512(scales_of<type>(scale, codes_of_fours<type>(a, b)));
      } else {
        const EightValues block = read_eights<type>(a, b);
        __m512i found[halves][count];
        dot_eights<type, count>(block, inputs, found);
        for (int h = 0; h < halves; ++h) {
          for (int n = 0; n < count; ++n) dots[h][n][p] = found[h][n];
          scales[h][p] = _mm512_castps_si512(scales_of<type>(scale, block.codes[h]));
        }
      }
    }
    for (int h = 0; h < halves; ++h) {
      turn(scales[h]);
      for (int n = 0; n < count; ++n) turn(dots[h][n]);
    }
    for (int64_t b = 8 * s; b < 8 * s + 8; ++b) {
      for (int n = 0; n < count; ++n) {
        const QuantisedRow& row = rows[n].quantised;
        for (int h = 0; h < halves; ++h) {
          Ints dot{dots[h][n][b % 8]};
          if constexpr (is_iq1(type)) dot = add(dot, all(iq1_offset * (halves == 2 ? row.negative_halves[2 * b + h] : row.negative_sums[b])));
          sums[n] = fma(to_floats(dot), multiply(Floats{_mm512_castsi512_ps(scales[h][b % 8])}, all(row.scales[b])), sums[n]);
        }
      }
    }
  }
  for (int n = 0; n < count; ++n) store_some(rows[n].out + first, sums[n], lanes);
}

template <TensorType type>
void plane_any(const std::byte* matrix, int64_t row_bytes, int64_t cols, const ProductRow* rows, int64_t count, int64_t first, int64_t lanes) {
  in_tiles<4>(count, [&](auto size, int64_t row) {
    plane_rows<type, size.value>(reinterpret_cast<const uint8_t*>(matrix), row_bytes, cols, rows + row, first, lanes);
  });
}

bool few_from_file(TensorType type, const std::byte* matrix, int64_t row_bytes, int64_t cols, const ProductRow* rows, int64_t count, int64_t first,
                   int64_t lanes) {
  switch (type) {
    case TensorType::iq1_s: plane_any<TensorType::iq1_s>(matrix, row_bytes, cols, rows, count, first, lanes); return true;
    case TensorType::iq1_m: plane_any<TensorType::iq1_m>(matrix, row_bytes, cols, rows, count, first, lanes); return true;
    case TensorType::iq2_xxs: plane_any<TensorType::iq2_xxs>(matrix, row_bytes, cols, rows, count, first, lanes); return true;
    case TensorType::iq2_xs: plane_any<TensorType::iq2_xs>(matrix, row_bytes, cols, rows, count, first, lanes); return true;
    case TensorType::iq2_s: plane_any<TensorType::iq2_s>(matrix, row_bytes, cols, rows, count, first, lanes); return true;
    case TensorType::iq3_xxs: plane_any<TensorType::iq3_xxs>(matrix, row_bytes, cols, rows, count, first, lanes); return true;
    case TensorType::iq3_s: plane_any<TensorType::iq3_s>(matrix, row_bytes, cols, rows, count, first, lanes); return true;
    default: return false;
  }
}

// ---- many rows

// Sixteen rows of sixteen 32-bit values become sixteen values of all rows.
VIGIL_INLINE void turn_sixteen(const __m512i* rows, __m512i* values) {
  __m512i fours[16];  // [4 g + c]: values c, c + 4, c + 8, c + 12 of rows 4 g to 4 g + 3
  for (int g = 0; g < 16; g += 4) {
    const __m512i a = _mm512_unpacklo_epi32(rows[g], rows[g + 1]), b = _mm512_unpackhi_epi32(rows[g], rows[g + 1]);
    const __m512i c = _mm512_unpacklo_epi32(rows[g + 2], rows[g + 3]), d = _mm512_unpackhi_epi32(rows[g + 2], rows[g + 3]);
    fours[g] = _mm512_unpacklo_epi64(a, c);
    fours[g + 1] = _mm512_unpackhi_epi64(a, c);
    fours[g + 2] = _mm512_unpacklo_epi64(b, d);
    fours[g + 3] = _mm512_unpackhi_epi64(b, d);
  }
  for (int c = 0; c < 4; ++c) {
    const __m512i a = _mm512_shuffle_i32x4(fours[c], fours[c + 4], 0x88), b = _mm512_shuffle_i32x4(fours[c], fours[c + 4], 0xdd);
    const __m512i d = _mm512_shuffle_i32x4(fours[c + 8], fours[c + 12], 0x88), e = _mm512_shuffle_i32x4(fours[c + 8], fours[c + 12], 0xdd);
    values[c] = _mm512_shuffle_i32x4(a, d, 0x88);
    values[c + 4] = _mm512_shuffle_i32x4(b, e, 0x88);
    values[c + 8] = _mm512_shuffle_i32x4(a, d, 0xdd);
    values[c + 12] = _mm512_shuffle_i32x4(b, e, 0xdd);
  }
}

// Four planes become points of four bytes: to[m] has points 16 i + 4 m to 16 i + 4 m + 3 in quarter i.
VIGIL_INLINE void interleave(const __m512i* plane, __m512i* to) {
  const __m512i a = _mm512_unpacklo_epi8(plane[0], plane[1]), b = _mm512_unpackhi_epi8(plane[0], plane[1]);
  const __m512i c = _mm512_unpacklo_epi8(plane[2], plane[3]), d = _mm512_unpackhi_epi8(plane[2], plane[3]);
  to[0] = _mm512_unpacklo_epi16(a, c);
  to[1] = _mm512_unpackhi_epi16(a, c);
  to[2] = _mm512_unpacklo_epi16(b, d);
  to[3] = _mm512_unpackhi_epi16(b, d);
}

// Codes are signed bytes plus 128.
template <TensorType type>
void unpack_planes(const uint8_t* matrix, int64_t row_bytes, int64_t cols, int64_t lanes, const Panel& panel) {
  constexpr int halves = has_half_scales(type) ? 2 : 1;
  constexpr int64_t block_bytes = codebook_block_bytes(type);
  const auto code = [](__m512i magnitudes, __mmask64 negative) {
    if constexpr (is_iq1(type)) return _mm512_add_epi8(magnitudes, _mm512_set1_epi8(static_cast<char>(128 - iq1_offset)));
    else return _mm512_xor_si512(minus_where(negative, magnitudes), _mm512_set1_epi8(static_cast<char>(0x80)));
  };
  for (int64_t s = 0; s < cols / 256; ++s) {
    __m512i points[4][16], scales[halves][8];  // [m][row]
    for (int64_t p = 0; p < 8; ++p) {
      const uint8_t* a = matrix + std::min(p, lanes - 1) * row_bytes + s * block_bytes;
      const uint8_t* b = matrix + std::min(p + 8, lanes - 1) * row_bytes + s * block_bytes;
      const __m512 scale = block_scales<type>(a, b);
      if constexpr (is_iq3(type)) {
        for (int64_t i = 0; i < 2; ++i) {
          __m512i found[4], turned[4];
          each_plane<type>(read_fours<type>(i == 0 ? a : b), [&](auto k, __m512i magnitudes, __mmask64 negative) { found[k.value] = code(magnitudes, negative); });
          interleave(found, turned);
          for (int m = 0; m < 4; ++m) points[m][p + 8 * i] = turned[m];
        }
        scales[0][p] = _mm512_castps_si512(scales_of<type>(scale, codes_of_fours<type>(a, b)));
      } else {
        const EightValues block = read_eights<type>(a, b);
        __m512i found[8], first[4], second[4];  // four values of each point, then the other four
        each_plane<type>(block, [&](auto k, __m512i magnitudes, __mmask64 negative) { found[k.value] = code(magnitudes, negative); });
        interleave(found, first);
        interleave(found + 4, second);
        for (int m = 0; m < 4; ++m) {
          points[m][p] = _mm512_shuffle_i32x4(first[m], second[m], 0x44);
          points[m][p + 8] = _mm512_shuffle_i32x4(first[m], second[m], 0xee);
        }
        for (int h = 0; h < halves; ++h) scales[h][p] = _mm512_castps_si512(scales_of<type>(scale, block.codes[h]));
      }
    }
    for (int64_t m = 0; m < 4; ++m) {
      __m512i values[16];
      turn_sixteen(points[m], values);
      for (int64_t i = 0; i < 16; ++i) {
        const int64_t point = is_iq3(type) ? i / 4 * 16 + 4 * m + i % 4 : (i / 4 % 2 * 16 + 4 * m + i % 4) * 2 + i / 8;  // in fours of columns
        _mm512_storeu_si512(panel.room + (s * 64 + point) * 64, values[i]);
      }
    }
    for (int64_t h = 0; h < halves; ++h) {
      turn(scales[h]);
      for (int64_t b = 0; b < 8; ++b) _mm512_storeu_ps(panel.scales + ((8 * s + b) * halves + h) * 16, _mm512_castsi512_ps(scales[h][b]));
    }
  }
}

bool unpack_from_file(TensorType type, const std::byte* matrix, int64_t row_bytes, int64_t cols, int64_t lanes, const Panel& panel) {
  const uint8_t* from = reinterpret_cast<const uint8_t*>(matrix);
  switch (type) {
    case TensorType::iq1_s: unpack_planes<TensorType::iq1_s>(from, row_bytes, cols, lanes, panel); return true;
    case TensorType::iq1_m: unpack_planes<TensorType::iq1_m>(from, row_bytes, cols, lanes, panel); return true;
    case TensorType::iq2_xxs: unpack_planes<TensorType::iq2_xxs>(from, row_bytes, cols, lanes, panel); return true;
    case TensorType::iq2_xs: unpack_planes<TensorType::iq2_xs>(from, row_bytes, cols, lanes, panel); return true;
    case TensorType::iq2_s: unpack_planes<TensorType::iq2_s>(from, row_bytes, cols, lanes, panel); return true;
    case TensorType::iq3_xxs: unpack_planes<TensorType::iq3_xxs>(from, row_bytes, cols, lanes, panel); return true;
    case TensorType::iq3_s: unpack_planes<TensorType::iq3_s>(from, row_bytes, cols, lanes, panel); return true;
    default: return false;
  }
}

int64_t many_from(TensorType type) {
  switch (type) {
    case TensorType::iq1_s: case TensorType::iq1_m: case TensorType::iq2_xxs: case TensorType::iq2_xs: case TensorType::iq2_s:
    case TensorType::iq3_xxs: case TensorType::iq3_s:
      return 9;
    default: return avx512::many_from(type);
  }
}

}  // namespace vigil::compute::cpu::VIGIL_ISA
