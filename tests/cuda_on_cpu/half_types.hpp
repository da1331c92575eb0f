// The 16-bit float types of cuda_fp16.h and cuda_bf16.h, as far as kernels use them. Arithmetic rounds after every operation, as on the device.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "tests/cuda_on_cpu/language.hpp"

struct __half {
  _Float16 value;
  __half() = default;
  explicit __half(_Float16 from) : value(from) {}
  __half(float from) : value(static_cast<_Float16>(from)) {}
  operator float() const { return static_cast<float>(value); }
};
static_assert(sizeof(__half) == 2 && std::is_trivially_default_constructible_v<__half>);
struct __align__(4) __half2 {
  __half x, y;
};
using half = __half;
using half2 = __half2;

#define CUDA_ON_CPU_HALF(sign, name)                                                         \
  inline half operator sign(half a, half b) { return half(static_cast<_Float16>(a.value sign b.value)); } \
  inline half2 operator sign(half2 a, half2 b) { return {a.x sign b.x, a.y sign b.y}; }      \
  inline half name(half a, half b) { return a sign b; }                                      \
  inline half2 name##2(half2 a, half2 b) { return a sign b; }
CUDA_ON_CPU_HALF(+, __hadd)
CUDA_ON_CPU_HALF(-, __hsub)
CUDA_ON_CPU_HALF(*, __hmul)
#undef CUDA_ON_CPU_HALF
inline half __hfma(half a, half b, half c) { return half(std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c))); }
inline half2 __hfma2(half2 a, half2 b, half2 c) { return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)}; }
inline float __half2float(half from) { return from; }
inline half __float2half(float from) { return half(from); }
inline half __float2half_rn(float from) { return half(from); }
inline half __ushort_as_half(unsigned short bits) { return half(std::bit_cast<_Float16>(bits)); }
inline unsigned short __half_as_ushort(half from) { return std::bit_cast<unsigned short>(from.value); }
inline half2 __floats2half2_rn(float x, float y) { return {half(x), half(y)}; }
inline half2 __halves2half2(half x, half y) { return {x, y}; }
inline half2 __half2half2(half from) { return {from, from}; }
inline half2 __float2half2_rn(float from) { return {half(from), half(from)}; }
inline half2 __float22half2_rn(float2 from) { return {half(from.x), half(from.y)}; }
inline float2 __half22float2(half2 from) { return {from.x, from.y}; }
inline float __low2float(half2 from) { return from.x; }
inline float __high2float(half2 from) { return from.y; }

struct __nv_bfloat16 {
  uint16_t bits;
};
struct __align__(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;
inline float __bfloat162float(__nv_bfloat16 from) { return std::bit_cast<float>(static_cast<uint32_t>(from.bits) << 16); }
inline __nv_bfloat16 __float2bfloat16(float from) {
  const uint32_t bits = std::bit_cast<uint32_t>(from);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fff};  // NaN
  return {static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}
inline __nv_bfloat16 __float2bfloat16_rn(float from) { return __float2bfloat16(from); }
