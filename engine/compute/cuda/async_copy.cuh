// Copies from the device's memory to shared memory that go on beside the arithmetic. Compute capability 7.5 has none: there they are plain copies, done
// when the call returns. A thread waits for its own copies; a barrier makes them known to the others.
#pragma once

#include <cuda_runtime.h>

namespace vigil::compute::cuda {

// `bytes` is 8 or 16; both addresses are multiples of it.
template <int bytes>
__device__ __forceinline__ void copy_async(void* to_shared, const void* from) {
  static_assert(bytes == 8 || bytes == 16);
#if !defined(__CUDACC__)
  if (::cuda_on_cpu::options.compute_capability >= 80) {
    ::cuda_on_cpu::copy_async(to_shared, from, bytes);
    return;
  }
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to_shared))), "l"(from), "n"(bytes) : "memory");
  return;
#endif
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 800
  if constexpr (bytes == 16) *static_cast<uint4*>(to_shared) = *static_cast<const uint4*>(from);
  else *static_cast<uint2*>(to_shared) = *static_cast<const uint2*>(from);
#endif
}

// Waits until every copy that this thread asked for is done.
__device__ __forceinline__ void wait_for_copies() {
#if !defined(__CUDACC__)
  ::cuda_on_cpu::commit_copies();
  ::cuda_on_cpu::wait_copies(0);
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

}  // namespace vigil::compute::cuda
