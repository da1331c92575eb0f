// Device functions of CUDA C++: barriers, shuffles, votes, atomics, integer and float intrinsics, with the meaning that the CUDA C++ programming
// guide and the CUDA math API give them. Approximate functions are exact here.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "tests/cuda_on_cpu/language.hpp"
#include "tests/cuda_on_cpu/scheduler.hpp"

using std::max;
using std::min;

inline void __syncthreads() { cuda_on_cpu::sync_block(); }
inline void __syncwarp(unsigned mask = ~0u) { cuda_on_cpu::sync_warp(mask); }
inline void __threadfence_block() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence() { __threadfence_block(); }
inline void __threadfence_system() { __threadfence_block(); }

namespace cuda_on_cpu {

template <typename Value>
Value shuffle(unsigned mask, Value value, unsigned from) {
  static_assert(std::is_trivially_copyable_v<Value> && (sizeof(Value) == 2 || sizeof(Value) == 4 || sizeof(Value) == 8), "what the device can shuffle");
  Value out;
  exchange(mask, &value, sizeof value, from, &out);
  return out;
}

// The first lane of this lane's segment of `width` lanes.
inline unsigned segment(int width) { return current->lane & ~(static_cast<unsigned>(width) - 1); }
inline unsigned segment_end(int width) { return segment(width) + static_cast<unsigned>(width); }

template <typename Value, typename Change>
Value atomic_change(Value* at, Change&& change) {
  std::atomic_ref<Value> place(*at);
  Value old = place.load();
  while (!place.compare_exchange_weak(old, change(old))) {
  }
  return old;
}

}  // namespace cuda_on_cpu

template <typename Value>
Value __shfl_sync(unsigned mask, Value value, int from, int width = 32) {
  return cuda_on_cpu::shuffle(mask, value, cuda_on_cpu::segment(width) | (static_cast<unsigned>(from) & (static_cast<unsigned>(width) - 1)));
}
template <typename Value>
Value __shfl_xor_sync(unsigned mask, Value value, int lanes, int width = 32) {
  const unsigned lane = cuda_on_cpu::current->lane, from = lane ^ static_cast<unsigned>(lanes);
  return cuda_on_cpu::shuffle(mask, value, from < cuda_on_cpu::segment_end(width) ? from : lane);
}
template <typename Value>
Value __shfl_down_sync(unsigned mask, Value value, unsigned lanes, int width = 32) {
  const unsigned lane = cuda_on_cpu::current->lane, from = lane + lanes;
  return cuda_on_cpu::shuffle(mask, value, from < cuda_on_cpu::segment_end(width) ? from : lane);
}
template <typename Value>
Value __shfl_up_sync(unsigned mask, Value value, unsigned lanes, int width = 32) {
  const unsigned lane = cuda_on_cpu::current->lane;
  return cuda_on_cpu::shuffle(mask, value, lane >= cuda_on_cpu::segment(width) + lanes ? lane - lanes : lane);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const std::byte* all = cuda_on_cpu::gather(mask, &predicate, sizeof predicate);
  unsigned votes = 0;
  for (unsigned i = 0; i < cuda_on_cpu::warp_lanes; ++i) {
    if ((mask >> i & 1u) == 0) continue;
    for (size_t b = 0; b < sizeof predicate; ++b) votes |= (all[i * cuda_on_cpu::exchange_bytes + b] != std::byte{0} ? 1u : 0u) << i;
  }
  return votes;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }

template <typename Value>
Value atomicAdd(Value* at, std::type_identity_t<Value> value) {
  return std::atomic_ref<Value>(*at).fetch_add(value);
}
template <typename Value>
Value atomicExch(Value* at, std::type_identity_t<Value> value) {
  return std::atomic_ref<Value>(*at).exchange(value);
}
template <typename Value>
Value atomicMax(Value* at, std::type_identity_t<Value> value) {
  return cuda_on_cpu::atomic_change(at, [=](Value old) { return std::max(old, value); });
}
template <typename Value>
Value atomicMin(Value* at, std::type_identity_t<Value> value) {
  return cuda_on_cpu::atomic_change(at, [=](Value old) { return std::min(old, value); });
}
template <typename Value>
Value atomicOr(Value* at, std::type_identity_t<Value> value) {
  return std::atomic_ref<Value>(*at).fetch_or(value);
}
template <typename Value>
Value atomicCAS(Value* at, std::type_identity_t<Value> expected, std::type_identity_t<Value> value) {
  std::atomic_ref<Value>(*at).compare_exchange_strong(expected, value);
  return expected;
}

inline int __dp4a(int a, int b, int sum) {
  for (int i = 0; i < 32; i += 8) sum += static_cast<int8_t>(a >> i) * static_cast<int8_t>(b >> i);
  return sum;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned sum) {
  for (int i = 0; i < 32; i += 8) sum += (a >> i & 255u) * (b >> i & 255u);
  return sum;
}
// Byte i of the result is the byte of low (0 to 3) and high (4 to 7) that nibble i names; with the nibble's top bit set, its sign eight times.
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
  const uint64_t both = low | static_cast<uint64_t>(high) << 32;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned name = selector >> (4 * i);
    unsigned byte = static_cast<unsigned>(both >> (8 * (name & 7u))) & 255u;
    if ((name & 8u) != 0) byte = (byte & 128u) != 0 ? 255u : 0u;
    out |= byte << (8 * i);
  }
  return out;
}
inline int __popc(unsigned value) { return std::popcount(value); }
inline int __clz(int value) { return std::countl_zero(static_cast<unsigned>(value)); }
inline int __ffs(int value) { return value == 0 ? 0 : std::countr_zero(static_cast<unsigned>(value)) + 1; }
inline unsigned __brev(unsigned value) {
  unsigned out = 0;
  for (int i = 0; i < 32; ++i) out |= (value >> i & 1u) << (31 - i);
  return out;
}
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32); }

template <typename Value>
Value __ldg(const Value* from) {
  return *from;
}
template <typename Value>
Value __ldcg(const Value* from) {
  return *from;
}
template <typename Value>
Value __ldcs(const Value* from) {
  return *from;
}

inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline float __fdividef(float a, float b) { return a / b; }
// Rounded on their own, never contracted: the emulation is compiled with -ffp-contract=off.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline float __int2float_rn(int value) { return static_cast<float>(value); }
inline int __float2int_rn(float value) { return static_cast<int>(std::nearbyint(value)); }
inline int __float2int_rz(float value) { return static_cast<int>(value); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
