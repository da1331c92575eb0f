// Rows that the step names: pictures in place of ids, and the rows whose scores are wanted. One block a row.
#include "engine/compute/cuda/launch.hpp"
#include "engine/compute/cuda/op_kernels.hpp"

namespace vigil::compute::cuda {
namespace {

constexpr int block_threads = 256;

__device__ __forceinline__ void copy_row(const float* from, float* to, int64_t cols) {
  for (int64_t c = threadIdx.x; c < cols; c += block_threads) to[c] = from[c];
}

__global__ void place_pictures_kernel(const int32_t* sources, const float* pictures, float* into, int64_t cols) {
  const int64_t source = sources[blockIdx.x];
  if (source == 0) return;
  copy_row(pictures + (source - 1) * cols, into + blockIdx.x * cols, cols);
}

__global__ void select_outputs_kernel(const int32_t* outputs, const float* in, float* out, int64_t cols) {
  copy_row(in + outputs[blockIdx.x] * cols, out + blockIdx.x * cols, cols);
}

}  // namespace

void place_pictures(cudaStream_t stream, const StepView& step, const float* pictures, float* into, int64_t cols, int64_t rows) {
  launch(place_pictures_kernel, dim3(static_cast<unsigned>(rows)), dim3(block_threads), 0, stream, step.sources, pictures, into, cols);
}

void select_outputs(cudaStream_t stream, const StepView& step, const float* in, float* out, int64_t cols, int64_t outputs) {
  launch(select_outputs_kernel, dim3(static_cast<unsigned>(outputs)), dim3(block_threads), 0, stream, step.outputs, in, out, cols);
}

}  // namespace vigil::compute::cuda
