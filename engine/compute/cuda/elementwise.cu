// Ops that make each value from the values at its own place: biases, gates, sums, splits. One thread a value.
#include <cuda_fp16.h>

#include "engine/compute/cuda/launch.hpp"
#include "engine/compute/cuda/op_kernels.hpp"

namespace vigil::compute::cuda {
namespace {

constexpr int block_threads = 256;

__device__ __forceinline__ int64_t place() { return static_cast<int64_t>(blockIdx.x) * block_threads + threadIdx.x; }
__device__ __forceinline__ float logistic(float value) { return 1.0f / (1.0f + expf(-value)); }
__device__ __forceinline__ float as_half(float value) { return __half2float(__float2half_rn(value)); }

// The gates of ops.hpp; constants and the rounding of GELU are explained there.
__device__ __forceinline__ float gated(Gate kind, float g, float u) {
  if (kind == Gate::silu) return g / (1.0f + expf(-g)) * u;
  if (kind == Gate::clamped_silu) {
    const float limit = 7.0f, low = fminf(g, limit), middle = fminf(fmaxf(u, -limit), limit);
    return low * logistic(1.702f * low) * (middle + 1.0f);
  }
  const float root_of_two_over_pi = 0.797884560802865f, cubic = 0.044715f, h = as_half(g);
  const float bent = 0.5f * h * (1.0f + tanhf(root_of_two_over_pi * (h + cubic * h * h * h)));
  return (fabsf(g) < 10.0f ? as_half(bent) : fmaxf(g, 0.0f)) * u;
}

__global__ void add_bias_kernel(float* into, const float* bias, int64_t cols, int64_t count) {
  const int64_t i = place();
  if (i < count) into[i] += bias[i % cols];
}

__global__ void gate_kernel(Gate kind, float* gate, const float* up, int64_t count) {
  const int64_t i = place();
  if (i < count) gate[i] = gated(kind, gate[i], up[i]);
}

__global__ void sigmoid_gate_kernel(float* into, const float* gate, int64_t cols_per_gate, int64_t count) {
  const int64_t i = place();
  if (i < count) into[i] *= logistic(gate[i / cols_per_gate]);
}

__global__ void add_kernel(float* into, const float* from, int64_t count) {
  const int64_t i = place();
  if (i < count) into[i] += from[i];
}

__global__ void scale_kernel(float* into, float factor, int64_t count) {
  const int64_t i = place();
  if (i < count) into[i] *= factor;
}

__global__ void split_kernel(const float* joined, float* first, float* second, int64_t cols, int64_t count) {
  const int64_t i = place();
  if (i >= count) return;
  const int64_t from = i / cols * 2 * cols + i % cols;
  first[i] = joined[from];
  second[i] = joined[from + cols];
}

dim3 blocks_for(int64_t count) { return dim3(static_cast<unsigned>((count + block_threads - 1) / block_threads)); }

}  // namespace

void add_bias(cudaStream_t stream, float* into, const float* bias, int64_t cols, int64_t rows) {
  launch(add_bias_kernel, blocks_for(rows * cols), dim3(block_threads), 0, stream, into, bias, cols, rows * cols);
}

void gate(cudaStream_t stream, Gate kind, float* gate, const float* up, int64_t count) {
  launch(gate_kernel, blocks_for(count), dim3(block_threads), 0, stream, kind, gate, up, count);
}

void sigmoid_gate(cudaStream_t stream, float* into, const float* gate, int64_t gate_cols, int64_t cols, int64_t rows) {
  launch(sigmoid_gate_kernel, blocks_for(rows * cols), dim3(block_threads), 0, stream, into, gate, gate_cols == 1 ? cols : int64_t{1}, rows * cols);
}

void add(cudaStream_t stream, float* into, const float* from, int64_t count) {
  launch(add_kernel, blocks_for(count), dim3(block_threads), 0, stream, into, from, count);
}

void scale(cudaStream_t stream, float* into, float factor, int64_t count) {
  launch(scale_kernel, blocks_for(count), dim3(block_threads), 0, stream, into, factor, count);
}

void split(cudaStream_t stream, const float* joined, float* first, float* second, int64_t cols, int64_t count) {
  launch(split_kernel, blocks_for(count * cols), dim3(block_threads), 0, stream, joined, first, second, cols, count * cols);
}

}  // namespace vigil::compute::cuda
