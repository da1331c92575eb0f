// What the ways to compute attention share: who sees what, where what a KV block gives lies until it is joined, and how it is joined: in ascending order
// of the blocks (Milakov and Gimelshein 2018). A block gives a query head the maximum of its scores, the sum of exp(score - maximum), and the sum of the
// values so weighted. Private to attention*.cu.
#pragma once

#include "engine/compute/cuda/kv_values.cuh"
#include "engine/compute/cuda/step_view.hpp"

namespace vigil::compute::cuda {

constexpr int attention_threads = 128;
constexpr int block_positions = static_cast<int>(kv_block_positions);
constexpr int statistics = 2;  // a block's maximum and sum, before its values

struct AttentionCall {
  StepView step;
  KvPlace place;
  const float* q;
  const float* sinks;
  float* partials;  // [rows, heads, blocks_per_sequence, statistics + head_width]
  float* out;
  int64_t window;
  float scale;
  int heads, group;  // query heads, and those of a KV head
  int first_row, rows;
};

// Attention for few rows in its first half: blocks of threads share out the KV blocks of each row, and write partials.
void attend_split_floats(cudaStream_t stream, const AttentionCall& call, unsigned splits);                // attention_floats.cu: a cache of floats
void attend_split_halves(cudaStream_t stream, const AttentionCall& call, KvType type, unsigned splits);   // attention_halves.cu: every other
// For many rows: a block of threads takes a tile of query heads through all KV blocks.
void attend_rows_floats(cudaStream_t stream, const AttentionCall& call);
void attend_rows_halves(cudaStream_t stream, const AttentionCall& call, KvType type);

__device__ __forceinline__ int64_t block_id(const StepView& step, int64_t row, int block) {
  return step.blocks[static_cast<int64_t>(step.sequences[row]) * step.blocks_per_sequence + block];
}

__device__ __forceinline__ float* partial_at(const AttentionCall& call, int64_t row, int head, int block) {
  return call.partials + (((row - call.first_row) * call.heads + head) * call.step.blocks_per_sequence + block) * (statistics + call.place.head_width);
}

// Positions that a query sees: [oldest, end).
struct Sight {
  int oldest, end;
};

__device__ __forceinline__ Sight sight_of(const int32_t* positions, const int32_t* ahead, int64_t row, int64_t window) {
  const int position = positions[row];
  const int64_t left = static_cast<int64_t>(position) + 1 - window;
  return {window > 0 && left > 0 ? static_cast<int>(left) : 0, position + 1 + ahead[row]};
}

// How the next block's sums join those of all before it.
struct Joining {
  float maximum, keep, add;
};

__device__ __forceinline__ Joining joining(float maximum, float next_maximum) {
  const float both = fmaxf(maximum, next_maximum);
  return {both, maximum == -INFINITY ? 0.0f : expf(maximum - both), next_maximum == -INFINITY ? 0.0f : expf(next_maximum - both)};
}

__device__ __forceinline__ float joined(float total, const Joining& by, float next) { return fmaf(total, by.keep, __fmul_rn(next, by.add)); }

// What sums are multiplied by at the end; a sink is one more score, without a value. Several kernels ask, and all must round alike: nothing here is the compiler's to fuse.
__device__ __forceinline__ float final_scale(float maximum, float sum, const float* sinks, int head) {
  if (sinks == nullptr) return 1.0f / sum;
  const float both = fmaxf(maximum, sinks[head]), shrink = expf(maximum - both);
  return shrink / fmaf(sum, shrink, expf(sinks[head] - both));
}

}  // namespace vigil::compute::cuda
