// Sixteen lanes of floats or of 32-bit integers, the same on every instruction set: one register of AVX-512 or two of AVX2. Included by
// the kernel files alone, each compiled for one instruction set inside its own namespace VIGIL_ISA. Every operation rounds as IEEE 754
// says and nothing is contracted, so that all instruction sets give the same bits.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#define VIGIL_INLINE inline __attribute__((always_inline))

namespace vigil::compute::cpu::VIGIL_ISA {

#if defined(__AVX512VNNI__)

inline constexpr int registers = 32;  // of 16 lanes

struct Floats {
  __m512 v;
};
struct Ints {  // 16 x 32 bits, or 64 bytes
  __m512i v;
};

VIGIL_INLINE Floats zero_floats() { return {_mm512_setzero_ps()}; }
VIGIL_INLINE Floats all(float value) { return {_mm512_set1_ps(value)}; }
VIGIL_INLINE Floats load(const float* from) { return {_mm512_loadu_ps(from)}; }
VIGIL_INLINE void store(float* to, Floats a) { _mm512_storeu_ps(to, a.v); }
VIGIL_INLINE Floats add(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
VIGIL_INLINE Floats subtract(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
VIGIL_INLINE Floats multiply(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
VIGIL_INLINE Floats divide(Floats a, Floats b) { return {_mm512_div_ps(a.v, b.v)}; }
VIGIL_INLINE Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }  // a * b + c
VIGIL_INLINE Floats negative_fma(Floats a, Floats b, Floats c) { return {_mm512_fnmadd_ps(a.v, b.v, c.v)}; }  // c - a * b
VIGIL_INLINE Floats larger(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
VIGIL_INLINE Floats smaller(Floats a, Floats b) { return {_mm512_min_ps(a.v, b.v)}; }
VIGIL_INLINE Floats absolute(Floats a) { return {_mm512_abs_ps(a.v)}; }
VIGIL_INLINE Floats where_below(Floats a, Floats b, Floats yes, Floats no) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), no.v, yes.v)};
}
VIGIL_INLINE Floats load_halves(const uint16_t* from) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)))};
}
VIGIL_INLINE void store_halves(uint16_t* to, Floats a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
VIGIL_INLINE Floats load_bfloats(const uint16_t* from) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(wide, 16))};
}

VIGIL_INLINE Ints zero_ints() { return {_mm512_setzero_si512()}; }
VIGIL_INLINE Ints all(int32_t value) { return {_mm512_set1_epi32(value)}; }
VIGIL_INLINE Ints load_ints(const void* from) { return {_mm512_loadu_si512(from)}; }
VIGIL_INLINE void store_ints(void* to, Ints a) { _mm512_storeu_si512(to, a.v); }
VIGIL_INLINE Ints load_bytes_unsigned(const uint8_t* from) {  // 16 bytes, one a lane
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
}
VIGIL_INLINE Ints load_bytes_signed(const uint8_t* from) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
}
VIGIL_INLINE Ints add(Ints a, Ints b) { return {_mm512_add_epi32(a.v, b.v)}; }
VIGIL_INLINE Ints subtract(Ints a, Ints b) { return {_mm512_sub_epi32(a.v, b.v)}; }
VIGIL_INLINE Ints bit_and(Ints a, Ints b) { return {_mm512_and_si512(a.v, b.v)}; }
VIGIL_INLINE Ints bit_or(Ints a, Ints b) { return {_mm512_or_si512(a.v, b.v)}; }
template <int bits>
VIGIL_INLINE Ints shift_left(Ints a) { return {_mm512_slli_epi32(a.v, bits)}; }
template <int bits>
VIGIL_INLINE Ints shift_right(Ints a) { return {_mm512_srli_epi32(a.v, bits)}; }
VIGIL_INLINE Floats as_bits_of_floats(Ints a) { return {_mm512_castsi512_ps(a.v)}; }
VIGIL_INLINE Floats to_floats(Ints a) { return {_mm512_cvtepi32_ps(a.v)}; }
VIGIL_INLINE Ints to_nearest(Floats a) { return {_mm512_cvtps_epi32(a.v)}; }  // ties to even
VIGIL_INLINE void store_low_bytes(int8_t* to, Ints a) {  // saturated
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtsepi32_epi8(a.v));
}

// The 16 bytes of a table, ready for lookups.
struct Table {
  __m512i v;
};
VIGIL_INLINE Table load_table(const uint8_t* from) {
  return {_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)))};
}
VIGIL_INLINE Ints look_up(Table table, Ints places) { return {_mm512_shuffle_epi8(table.v, places.v)}; }  // each byte below 16

// Products of unsigned bytes (weights) and signed bytes (activations), four a lane, added to the lane. `offset` codes: the byte
// stands for itself minus that power of two; begin() takes its part away beforehand, from the negated sum of the activations.
VIGIL_INLINE Ints dot_bytes(Ints sum, Ints weights, Ints activations) { return {_mm512_dpbusd_epi32(sum.v, weights.v, activations.v)}; }
template <int offset_bits>
VIGIL_INLINE Ints begin_dot(const int32_t* negative_sum) { return shift_left<offset_bits>(all(*negative_sum)); }
template <int offset_bits>
VIGIL_INLINE Ints dot_offset_bytes(Ints sum, Ints weights, Ints activations) { return dot_bytes(sum, weights, activations); }

#else  // AVX2, FMA, F16C

inline constexpr int registers = 8;

struct Floats {
  __m256 a, b;
};
struct Ints {
  __m256i a, b;
};

VIGIL_INLINE Floats zero_floats() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
VIGIL_INLINE Floats all(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
VIGIL_INLINE Floats load(const float* from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }
VIGIL_INLINE void store(float* to, Floats x) {
  _mm256_storeu_ps(to, x.a);
  _mm256_storeu_ps(to + 8, x.b);
}
VIGIL_INLINE Floats add(Floats x, Floats y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
VIGIL_INLINE Floats subtract(Floats x, Floats y) { return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
VIGIL_INLINE Floats multiply(Floats x, Floats y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
VIGIL_INLINE Floats divide(Floats x, Floats y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
VIGIL_INLINE Floats fma(Floats x, Floats y, Floats z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
VIGIL_INLINE Floats negative_fma(Floats x, Floats y, Floats z) {
  return {_mm256_fnmadd_ps(x.a, y.a, z.a), _mm256_fnmadd_ps(x.b, y.b, z.b)};
}
VIGIL_INLINE Floats larger(Floats x, Floats y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
VIGIL_INLINE Floats smaller(Floats x, Floats y) { return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
VIGIL_INLINE Floats absolute(Floats x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
VIGIL_INLINE Floats where_below(Floats x, Floats y, Floats yes, Floats no) {
  return {_mm256_blendv_ps(no.a, yes.a, _mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)), _mm256_blendv_ps(no.b, yes.b, _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))};
}
VIGIL_INLINE __m128i load_128(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }
VIGIL_INLINE Floats load_halves(const uint16_t* from) { return {_mm256_cvtph_ps(load_128(from)), _mm256_cvtph_ps(load_128(from + 8))}; }
VIGIL_INLINE void store_halves(uint16_t* to, Floats x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 8), _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
VIGIL_INLINE Floats load_bfloats(const uint16_t* from) {
  const auto wide = [](const uint16_t* half) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_128(half)), 16)); };
  return {wide(from), wide(from + 8)};
}

VIGIL_INLINE Ints zero_ints() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
VIGIL_INLINE Ints all(int32_t value) { return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)}; }
VIGIL_INLINE Ints load_ints(const void* from) {
  const __m256i* at = static_cast<const __m256i*>(from);
  return {_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)};
}
VIGIL_INLINE void store_ints(void* to, Ints x) {
  __m256i* at = static_cast<__m256i*>(to);
  _mm256_storeu_si256(at, x.a);
  _mm256_storeu_si256(at + 1, x.b);
}
VIGIL_INLINE Ints load_bytes_unsigned(const uint8_t* from) {
  const __m128i bytes = load_128(from);
  return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}
VIGIL_INLINE Ints load_bytes_signed(const uint8_t* from) {
  const __m128i bytes = load_128(from);
  return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}
VIGIL_INLINE Ints add(Ints x, Ints y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
VIGIL_INLINE Ints subtract(Ints x, Ints y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
VIGIL_INLINE Ints bit_and(Ints x, Ints y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
VIGIL_INLINE Ints bit_or(Ints x, Ints y) { return {_mm256_or_si256(x.a, y.a), _mm256_or_si256(x.b, y.b)}; }
template <int bits>
VIGIL_INLINE Ints shift_left(Ints x) { return {_mm256_slli_epi32(x.a, bits), _mm256_slli_epi32(x.b, bits)}; }
template <int bits>
VIGIL_INLINE Ints shift_right(Ints x) { return {_mm256_srli_epi32(x.a, bits), _mm256_srli_epi32(x.b, bits)}; }
VIGIL_INLINE Floats as_bits_of_floats(Ints x) { return {_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
VIGIL_INLINE Floats to_floats(Ints x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
VIGIL_INLINE Ints to_nearest(Floats x) { return {_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b)}; }
VIGIL_INLINE void store_low_bytes(int8_t* to, Ints x) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xd8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}

struct Table {
  __m256i v;
};
VIGIL_INLINE Table load_table(const uint8_t* from) { return {_mm256_broadcastsi128_si256(load_128(from))}; }
VIGIL_INLINE Ints look_up(Table table, Ints places) { return {_mm256_shuffle_epi8(table.v, places.a), _mm256_shuffle_epi8(table.v, places.b)}; }

// Pairs of products are added in 16 bits that saturate: codes below 128 cannot reach that, wider ones go the way of dot_offset_bytes.
VIGIL_INLINE __m256i dot_pairs(__m256i sum, __m256i unsigned_bytes, __m256i signed_bytes) {
  const __m256i pairs = _mm256_maddubs_epi16(unsigned_bytes, signed_bytes);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
VIGIL_INLINE Ints dot_bytes(Ints sum, Ints weights, Ints activations) {
  return {dot_pairs(sum.a, weights.a, activations.a), dot_pairs(sum.b, weights.b, activations.b)};
}
// Bytes around 128 are taken as signed ones at once: |w| times a with w's sign. Their offset needs no correction.
template <int offset_bits>
VIGIL_INLINE Ints begin_dot(const int32_t* negative_sum) {
  if constexpr (offset_bits == 7) return zero_ints();
  return shift_left<offset_bits>(all(*negative_sum));
}
template <int offset_bits>
VIGIL_INLINE Ints dot_offset_bytes(Ints sum, Ints weights, Ints activations) {
  if constexpr (offset_bits != 7) return dot_bytes(sum, weights, activations);
  const __m256i middle = _mm256_set1_epi8(-128);
  const auto one = [&](__m256i part_sum, __m256i codes, __m256i values) {
    const __m256i as_signed = _mm256_xor_si256(codes, middle);
    return dot_pairs(part_sum, _mm256_abs_epi8(as_signed), _mm256_sign_epi8(values, as_signed));
  };
  return {one(sum.a, weights.a, activations.a), one(sum.b, weights.b, activations.b)};
}

#endif

// Up to 16 values; lanes behind them are zero.
VIGIL_INLINE Floats load_some(const float* from, int64_t count) {
  if (count >= 16) return load(from);
  float values[16] = {};
  std::memcpy(values, from, static_cast<size_t>(count) * sizeof(float));
  return load(values);
}
VIGIL_INLINE void store_some(float* to, Floats a, int64_t count) {
  if (count >= 16) return store(to, a);
  if (count <= 0) return;
  float values[16];
  store(values, a);
  std::memcpy(to, values, static_cast<size_t>(count) * sizeof(float));
}

// Lanes are joined in halves: 8 and 8, 4 and 4, ... `join` takes two values, the lower lane's first.
#if defined(__AVX512VNNI__)
VIGIL_INLINE __m256 low_half(Floats a) { return _mm512_castps512_ps256(a.v); }
VIGIL_INLINE __m256 high_half(Floats a) { return _mm512_extractf32x8_ps(a.v, 1); }
#else
VIGIL_INLINE __m256 low_half(Floats x) { return x.a; }
VIGIL_INLINE __m256 high_half(Floats x) { return x.b; }
#endif
template <typename Join>
VIGIL_INLINE float join_lanes(__m256 eight, Join&& join) {
  const __m128 four = join(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = join(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(join(two, _mm_shuffle_ps(two, two, 1)));
}
VIGIL_INLINE float sum_of(Floats a) {
  return join_lanes(_mm256_add_ps(low_half(a), high_half(a)), [](__m128 x, __m128 y) { return _mm_add_ps(x, y); });
}
VIGIL_INLINE float largest_of(Floats a) {
  return join_lanes(_mm256_max_ps(low_half(a), high_half(a)), [](__m128 x, __m128 y) { return _mm_max_ps(x, y); });
}

// e^x: x = n ln 2 + r, the Taylor series of e^r to r^7 (|r| <= 0.347: its rest is below 1e-8), times 2^n. Below -87 it is 0.
VIGIL_INLINE Floats exponential(Floats x) {
  const Floats bounded = larger(all(-87.0f), smaller(all(88.0f), x));  // in this order a NaN stays one
  const Ints n = to_nearest(multiply(bounded, all(1.44269504088896341f)));
  const Floats steps = to_floats(n);
  Floats r = negative_fma(steps, all(0.693145751953125f), bounded);  // ln 2 in two parts: the first has few bits, so its multiples are exact
  r = negative_fma(steps, all(1.42860682030941723e-6f), r);
  Floats sum = all(1.0f / 5040);
  sum = fma(sum, r, all(1.0f / 720));
  sum = fma(sum, r, all(1.0f / 120));
  sum = fma(sum, r, all(1.0f / 24));
  sum = fma(sum, r, all(1.0f / 6));
  sum = fma(sum, r, all(0.5f));
  sum = fma(sum, r, all(1.0f));
  sum = fma(sum, r, all(1.0f));
  const Floats power = as_bits_of_floats(shift_left<23>(add(n, all(int32_t{127}))));
  return where_below(x, all(-87.0f), zero_floats(), multiply(sum, power));
}

// Calls tile(constant) with the constants that add up to `count`.
template <int most, typename Tile>
VIGIL_INLINE void in_tiles(int64_t count, Tile&& tile) {
  int64_t done = 0;
  for (; done + most <= count; done += most) tile(std::integral_constant<int, most>{}, done);
  if constexpr (most > 1) {
    if (done < count) in_tiles<most - 1>(count - done, [&](auto size, int64_t more) { tile(size, done + more); });
  }
}

}  // namespace vigil::compute::cpu::VIGIL_ISA
