// The attention op: its form for few rows (blocks of threads share the KV blocks of each row, and a second kernel joins what they found) or for many;
// both give the same bits. What a KV block gives is computed in attention_floats.cu or attention_halves.cu, by the cache's number type.
#include <algorithm>

#include "engine/compute/cuda/attention_parts.cuh"
#include "engine/compute/cuda/launch.hpp"
#include "engine/compute/cuda/op_kernels.hpp"

namespace vigil::compute::cuda {
namespace {

constexpr int64_t most_splits = 64;  // blocks of threads that share a row's KV blocks

// Block (head, row).
__global__ void __launch_bounds__(attention_threads) merge_splits_kernel(AttentionCall call) {
  const int head = blockIdx.x;
  const int64_t row = call.first_row + blockIdx.y;
  const Sight sight = sight_of(call.step.positions, call.step.ahead, row, call.window);
  const int first_block = sight.oldest / block_positions, last_block = (sight.end - 1) / block_positions;
  for (int c = threadIdx.x; c < call.place.head_dim; c += attention_threads) {
    float maximum = -INFINITY, sum = 0, total = 0;
    for (int block = first_block; block <= last_block; ++block) {
      const float* partial = partial_at(call, row, head, block);
      const Joining by = joining(maximum, partial[0]);
      maximum = by.maximum;
      sum = joined(sum, by, partial[1]);
      total = joined(total, by, partial[statistics + c]);
    }
    call.out[(row * call.heads + head) * call.place.head_dim + c] = total * final_scale(maximum, sum, call.sinks, head);
  }
}

}  // namespace

int64_t attention_partial_floats(int64_t rows, int64_t heads, int64_t head_dim, int64_t blocks_per_sequence) {
  return std::min(rows, attention_few_rows) * heads * blocks_per_sequence * (statistics + (head_dim + 15) / 16 * 16);
}

void attention(cudaStream_t stream, const StepView& step, const float* q, const KvCache& cache, int64_t layer, int64_t heads, float score_scale,
               int64_t window, const float* sinks, float* partials, int64_t partial_floats, float* out, int64_t rows) {
  const KvShape& shape = cache.shape;
  AttentionCall call{step, place_of(cache, layer), q, sinks, partials, out, window, score_scale, static_cast<int>(heads), static_cast<int>(heads / shape.kv_heads),
                     0, static_cast<int>(rows)};
  const bool floats = shape.type == KvType::f32;
  const int64_t rows_at_once = partial_floats / attention_partial_floats(1, heads, shape.head_dim, step.blocks_per_sequence);
  if (rows > attention_few_rows || rows_at_once == 0) {
    if (floats) attend_rows_floats(stream, call);
    else attend_rows_halves(stream, call, shape.type);
    return;
  }
  const unsigned splits = static_cast<unsigned>(std::min<int64_t>(step.blocks_per_sequence, most_splits));
  for (int64_t first = 0; first < rows; first += rows_at_once) {
    call.first_row = static_cast<int>(first);
    call.rows = static_cast<int>(std::min(rows_at_once, rows - first));
    if (floats) attend_split_floats(stream, call, splits);
    else attend_split_halves(stream, call, shape.type, splits);
    launch(merge_splits_kernel, dim3(static_cast<unsigned>(call.heads), static_cast<unsigned>(call.rows)), dim3(attention_threads), 0, stream, call);
  }
}

}  // namespace vigil::compute::cuda
