// Mixture of experts, products aside: the choice of experts, their biases, and the sum of what they give.
#include "engine/compute/cuda/launch.hpp"
#include "engine/compute/cuda/op_kernels.hpp"
#include "engine/compute/cuda/warp.cuh"

namespace vigil::compute::cuda {
namespace {

constexpr int block_threads = 256;
constexpr int no_place = 0x7fffffff;

// A higher score is better, and the lower place where two are equal.
__device__ __forceinline__ bool better(float score, int place, float than_score, int than_place) {
  return score > than_score || (score == than_score && place < than_place);
}

// A warp chooses for a row: in each round the best of what comes behind the last choice. Not-a-number counts as the lowest score.
__global__ void __launch_bounds__(warp_threads) route_kernel(const float* logits, int experts, int used, float* choice) {
  const int row = blockIdx.x, lane = threadIdx.x;
  const float* scores = logits + static_cast<size_t>(row) * experts;
  float* mine = choice + static_cast<size_t>(row) * used * 2;
  float last_score = INFINITY, top = 0, sum = 0;
  int last_place = -1;
  for (int i = 0; i < used; ++i) {
    float best_score = -INFINITY;
    int best_place = no_place;
    for (int e = lane; e < experts; e += warp_threads) {
      const float score = scores[e] == scores[e] ? scores[e] : -INFINITY;
      if (better(last_score, last_place, score, e) && better(score, e, best_score, best_place)) best_score = score, best_place = e;
    }
#pragma unroll
    for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
      const float score = __shfl_xor_sync(whole_warp, best_score, distance);
      const int place = __shfl_xor_sync(whole_warp, best_place, distance);
      if (better(score, place, best_score, best_place)) best_score = score, best_place = place;
    }
    if (i == 0) top = best_score;
    const float share = expf(best_score - top);
    sum += share;
    if (lane == 0) {
      mine[2 * i] = static_cast<float>(best_place);
      mine[2 * i + 1] = share;
    }
    last_score = best_score;
    last_place = best_place;
  }
  if (lane != 0) return;
  for (int i = 0; i < used; ++i) mine[2 * i + 1] /= sum;
}

__global__ void find_slots_kernel(float* choice, const float* slots, int count) {
  const int i = blockIdx.x * block_threads + threadIdx.x;
  if (i >= count) return;
  const int expert = static_cast<int>(choice[2 * i]);
  const float slot = slots[expert];
  choice[2 * i] = slot < 0 ? static_cast<float>(-1 - expert) : slot;
}

__global__ void add_expert_bias_kernel(float* into, const float* bias, int64_t cols, const float* choice, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i >= count) return;
  const int64_t expert = static_cast<int64_t>(choice[2 * (i / cols)]);
  if (expert < 0) return;
  into[i] += bias[expert * cols + i % cols];
}

__global__ void sum_experts_kernel(const float* in, const float* choice, int used, float* out, int64_t cols, int64_t count) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * block_threads + threadIdx.x;
  if (i >= count) return;
  const int64_t row = i / cols, c = i % cols;
  float sum = 0;
  for (int u = 0; u < used; ++u) sum = fmaf(in[(row * used + u) * cols + c], choice[2 * (row * used + u) + 1], sum);
  out[i] = sum;
}

dim3 blocks_for(int64_t count) { return dim3(static_cast<unsigned>((count + block_threads - 1) / block_threads)); }

}  // namespace

void route(cudaStream_t stream, const float* logits, int64_t experts, int64_t used, float* choice, int64_t rows) {
  launch(route_kernel, dim3(static_cast<unsigned>(rows)), dim3(warp_threads), 0, stream, logits, static_cast<int>(experts), static_cast<int>(used), choice);
}

void find_slots(cudaStream_t stream, float* choice, const float* slots, int64_t used, int64_t rows) {
  launch(find_slots_kernel, blocks_for(rows * used), dim3(block_threads), 0, stream, choice, slots, static_cast<int>(rows * used));
}

void add_expert_bias(cudaStream_t stream, float* into, const float* bias, int64_t cols, const float* choice, int64_t used, int64_t rows) {
  const int64_t count = rows * used * cols;
  launch(add_expert_bias_kernel, blocks_for(count), dim3(block_threads), 0, stream, into, bias, cols, choice, count);
}

void sum_experts(cudaStream_t stream, const float* in, const float* choice, int64_t used, float* out, int64_t cols, int64_t rows) {
  launch(sum_experts_kernel, blocks_for(rows * cols), dim3(block_threads), 0, stream, in, choice, static_cast<int>(used), out, cols, rows * cols);
}

}  // namespace vigil::compute::cuda
