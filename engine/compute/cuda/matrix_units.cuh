// Tensor-core products of one warp, for every compute capability from 7.5 on, which has only the small shapes: there a large one is put together from
// them, its operands being the same. Lane l has group g = l / 4 and place t = l % 4; fragments: PTX ISA, "Matrix Fragments for mma".
#pragma once

#include <cuda_runtime.h>

namespace vigil::compute::cuda {

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 750
#error "compute capability 7.5 is the least that these kernels are written for"
#endif

// sum[16 x 8] += a[16 x 16] b[16 x 8] in halves, summed as float. a[0]: row g, columns 2t and 2t + 1; a[1]: row g + 8; a[2], a[3]: columns + 8.
// b[0]: rows 2t and 2t + 1 of column g; b[1]: rows + 8. sum[0], sum[1]: row g, columns 2t and 2t + 1; sum[2], sum[3]: row g + 8.
__device__ __forceinline__ void multiply_halves(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if !defined(__CUDACC__)
  if (::cuda_on_cpu::options.compute_capability >= 80) {
    ::cuda_on_cpu::mma_f16_16x8x16(sum, a, b);
  } else {
    const unsigned first[2] = {a[0], a[1]}, second[2] = {a[2], a[3]};
    ::cuda_on_cpu::mma_f16_16x8x8(sum, first, b[0]);
    ::cuda_on_cpu::mma_f16_16x8x8(sum, second, b[1]);
  }
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[2 * half]), "r"(a[2 * half + 1]), "r"(b[half]));
  }
#endif
}

// sum[16 x 8] += a[16 x 16] b[16 x 8] in signed bytes, summed as int. a[0]: row g, columns 4t to 4t + 3; a[1]: row g + 8; b: the same rows of column g.
__device__ __forceinline__ void multiply_bytes(int (&sum)[4], const unsigned (&a)[2], unsigned b) {
#if !defined(__CUDACC__)
  if (::cuda_on_cpu::options.compute_capability >= 80) {
    ::cuda_on_cpu::mma_s8_16x8x16(sum, a, b);
  } else {
    int upper[2] = {sum[0], sum[1]}, lower[2] = {sum[2], sum[3]};
    ::cuda_on_cpu::mma_s8_8x8x16(upper, a[0], b);
    ::cuda_on_cpu::mma_s8_8x8x16(lower, a[1], b);
    sum[0] = upper[0], sum[1] = upper[1], sum[2] = lower[0], sum[3] = lower[1];
  }
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(b));
#else
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};" : "+r"(sum[2 * half]), "+r"(sum[2 * half + 1]) : "r"(a[half]), "r"(b));
  }
#endif
}

// The same over 32 columns of a. a[2], a[3] and b[1]: columns (rows of b) + 16.
__device__ __forceinline__ void multiply_bytes(int (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#if !defined(__CUDACC__)
  if (::cuda_on_cpu::options.compute_capability >= 80) {
    ::cuda_on_cpu::mma_s8_16x8x32(sum, a, b);
    return;
  }
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  return;
#endif
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 800
  const unsigned first[2] = {a[0], a[1]}, second[2] = {a[2], a[3]};
  multiply_bytes(sum, first, b[0]);
  multiply_bytes(sum, second, b[1]);
#endif
}

}  // namespace vigil::compute::cuda
