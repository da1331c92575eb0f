// Sums and maxima over the 32 threads of a warp; every thread gets the result. The order of a sum is fixed.
#pragma once

#include <cuda_runtime.h>

namespace vigil::compute::cuda {

constexpr unsigned whole_warp = 0xffffffffu;
constexpr int warp_threads = 32;

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(whole_warp, value, distance);
  return value;
}

__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
  for (int distance = warp_threads / 2; distance > 0; distance /= 2) value = fmaxf(value, __shfl_xor_sync(whole_warp, value, distance));
  return value;
}

}  // namespace vigil::compute::cuda
