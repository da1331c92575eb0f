// The tensor-core instructions of PTX that kernels use through inline assembly on the device: mma.sync for one warp, operands spread over the
// lanes as "PTX ISA: Matrix Fragments for mma" draws them. Lane l has group g = l / 4 and place t = l % 4. Every lane of the warp takes part.
#pragma once

#include <cstdint>

namespace cuda_on_cpu {

// sum[16 x 8] += a[16 x 16] b[16 x 8], halves, float sum. a[0]: row g, columns 2t and 2t + 1; a[1]: row g + 8; a[2], a[3]: the same, columns + 8.
// b[0]: rows 2t and 2t + 1 of column g; b[1]: rows + 8. sum[0], sum[1]: row g, columns 2t and 2t + 1; sum[2], sum[3]: row g + 8.
void mma_f16_16x8x16(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]);
// The half of it that compute capability 7.5 has: 8 columns of a.
void mma_f16_16x8x8(float (&sum)[4], const unsigned (&a)[2], unsigned b);

// sum[16 x 8] += a[16 x 32] b[32 x 8], signed bytes, integer sum. a[0]: row g, columns 4t to 4t + 3; a[1]: row g + 8; a[2], a[3]: columns + 16.
// b[0]: rows 4t to 4t + 3 of column g; b[1]: rows + 16.
void mma_s8_16x8x32(int (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]);
// a[16 x 16]: the first two words of a and the first of b.
void mma_s8_16x8x16(int (&sum)[4], const unsigned (&a)[2], unsigned b);
// What compute capability 7.5 has: sum[8 x 8] += a[8 x 16] b[16 x 8]; sum: row g, columns 2t and 2t + 1.
void mma_s8_8x8x16(int (&sum)[2], unsigned a, unsigned b);

}  // namespace cuda_on_cpu
