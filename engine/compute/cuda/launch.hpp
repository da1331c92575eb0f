// How a kernel is started: the one place that knows the toolkit's launch syntax, so that everything else compiles with nvcc and, for the emulation
// in tests/cuda_on_cpu, with any C++ compiler.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace vigil::compute::cuda {

// Starts the kernel on the stream with so many bytes of dynamic shared memory; errors are the runtime's to report (cudaGetLastError).
template <typename... Parameters, typename... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream, Arguments... arguments) {
#ifdef __CUDACC__
  kernel<<<grid, block, shared_bytes, stream>>>(static_cast<Parameters>(arguments)...);
#else
  ::cuda_on_cpu::launch(stream, grid, block, shared_bytes, [=] { kernel(static_cast<Parameters>(arguments)...); });
#endif
}

// The block's dynamic shared memory, aligned for 16-byte loads.
template <typename Value>
__device__ inline Value* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<Value*>(dynamic_shared_bytes);
#else
  return reinterpret_cast<Value*>(::cuda_on_cpu::dynamic_shared());
#endif
}

}  // namespace vigil::compute::cuda
