// RMS normalisation of rows. Short rows (heads) have a warp each, long ones a block; which of both depends on the row's length alone.
#include "engine/compute/cuda/launch.hpp"
#include "engine/compute/cuda/op_kernels.hpp"
#include "engine/compute/cuda/warp.cuh"

namespace vigil::compute::cuda {
namespace {

constexpr int long_row_warps = 8;
constexpr int short_rows_in_block = 4;
constexpr int64_t longest_short_row = 512;

__device__ __forceinline__ float square_sum(const float* row, int cols, int first, int step) {
  float sum = 0;
  for (int c = first; c < cols; c += step) sum = fmaf(row[c], row[c], sum);
  return sum;
}

__device__ __forceinline__ void write_row(const float* row, const float* gain, float* to, int cols, float scale, int first, int step) {
  for (int c = first; c < cols; c += step) to[c] = row[c] * scale * gain[c];
}

__global__ void __launch_bounds__(short_rows_in_block * warp_threads)
    rms_norm_short_kernel(const float* in, const float* gain, float epsilon, float* out, int cols, int rows) {
  const int row = blockIdx.x * short_rows_in_block + threadIdx.x / warp_threads, lane = threadIdx.x % warp_threads;
  if (row >= rows) return;  // the whole warp
  const size_t start = static_cast<size_t>(row) * cols;
  const float sum = warp_sum(square_sum(in + start, cols, lane, warp_threads));
  write_row(in + start, gain, out + start, cols, 1.0f / sqrtf(sum / static_cast<float>(cols) + epsilon), lane, warp_threads);
}

__global__ void __launch_bounds__(long_row_warps * warp_threads)
    rms_norm_long_kernel(const float* in, const float* gain, float epsilon, float* out, int cols) {
  __shared__ float warp_sums[long_row_warps];
  const int thread = threadIdx.x;
  const size_t start = static_cast<size_t>(blockIdx.x) * cols;
  const float mine = warp_sum(square_sum(in + start, cols, thread, long_row_warps * warp_threads));
  if (thread % warp_threads == 0) warp_sums[thread / warp_threads] = mine;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int w = 0; w < long_row_warps; ++w) sum += warp_sums[w];
  write_row(in + start, gain, out + start, cols, 1.0f / sqrtf(sum / static_cast<float>(cols) + epsilon), thread, long_row_warps * warp_threads);
}

}  // namespace

void rms_norm(cudaStream_t stream, const float* in, const float* gain, float epsilon, float* out, int64_t cols, int64_t rows) {
  const int width = static_cast<int>(cols), count = static_cast<int>(rows);
  if (cols <= longest_short_row) {
    launch(rms_norm_short_kernel, dim3((count + short_rows_in_block - 1) / short_rows_in_block), dim3(short_rows_in_block * warp_threads), 0, stream,
           in, gain, epsilon, out, width, count);
  } else {
    launch(rms_norm_long_kernel, dim3(count), dim3(long_row_warps * warp_threads), 0, stream, in, gain, epsilon, out, width);
  }
}

}  // namespace vigil::compute::cuda
