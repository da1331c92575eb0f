// The words of CUDA C++ that plain C++ lacks: function and memory spaces, built-in variables, vector types.
#pragma once

#include <cstdint>

#include "tests/cuda_on_cpu/thread.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__ thread_local  // in a function that means static too: one for all fibers of the host thread, as for all threads of a block
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

#define threadIdx (::cuda_on_cpu::current->index)
#define blockIdx (::cuda_on_cpu::current->block)
#define blockDim (::cuda_on_cpu::shape.block)
#define gridDim (::cuda_on_cpu::shape.grid)
inline constexpr int warpSize = 32;

#define CUDA_ON_CPU_VECTORS(Value, name)                                                            \
  struct __align__(2 * sizeof(Value)) name##2 { Value x, y; };                                      \
  struct name##3 { Value x, y, z; };                                                                \
  struct __align__(sizeof(Value) > 4 ? 16 : 4 * sizeof(Value)) name##4 { Value x, y, z, w; };       \
  inline name##2 make_##name##2(Value x, Value y) { return {x, y}; }                                \
  inline name##3 make_##name##3(Value x, Value y, Value z) { return {x, y, z}; }                    \
  inline name##4 make_##name##4(Value x, Value y, Value z, Value w) { return {x, y, z, w}; }
CUDA_ON_CPU_VECTORS(float, float)
CUDA_ON_CPU_VECTORS(double, double)
CUDA_ON_CPU_VECTORS(int, int)
CUDA_ON_CPU_VECTORS(signed char, char)
CUDA_ON_CPU_VECTORS(unsigned char, uchar)
CUDA_ON_CPU_VECTORS(short, short)
CUDA_ON_CPU_VECTORS(unsigned short, ushort)
#undef CUDA_ON_CPU_VECTORS
struct __align__(8) uint2 {
  unsigned x, y;
};
struct __align__(16) uint4 {
  unsigned x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
