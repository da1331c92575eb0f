// Attention in two forms with the same bits (attention_block.cuh). Few rows: blocks of threads share the KV blocks of each row, and a second
// kernel merges what they found. Many rows: a block of threads takes a tile of query heads that share a KV head through all KV blocks.
#include <algorithm>

#include "engine/compute/cuda/attention_block.cuh"
#include "engine/compute/cuda/launch.hpp"
#include "engine/compute/cuda/op_kernels.hpp"

namespace vigil::compute::cuda {
namespace {

constexpr int64_t few_rows = 8;       // up to here KV blocks are shared out
constexpr int64_t most_splits = 64;   // blocks of threads that share a row's KV blocks
constexpr int64_t statistics = 2;     // a block's maximum and sum, before its values
constexpr int blocks_of_a_processor = 4;  // that its registers must do for: 128 a thread, so that nothing is spilled
constexpr int row_blocks_of_a_processor = 3;  // in the form for many rows, which takes up to 146 where it may

struct AttentionCall {
  StepView step;
  KvPlace place;
  AttentionTiling tiling;
  const float* q;
  const float* sinks;
  float* partials;  // [rows, heads, blocks_per_sequence, statistics + width]
  float* out;
  int64_t window;
  float scale;
  int heads, group;  // query heads, and those of a KV head
  int first_row, rows;
};

__device__ __forceinline__ int64_t block_id(const StepView& step, int64_t row, int block) {
  return step.blocks[static_cast<int64_t>(step.sequences[row]) * step.blocks_per_sequence + block];
}

__device__ __forceinline__ void load_query(const AttentionCall& call, int64_t row, int head, float* to) {
  const float* from = call.q + (row * call.heads + head) * call.place.head_dim;
  for (int c = threadIdx.x; c < call.tiling.width; c += attention_threads) to[c] = c < call.place.head_dim ? from[c] : 0.0f;
}

__device__ __forceinline__ float* partial_at(const AttentionCall& call, int64_t row, int head, int block) {
  return call.partials + (((row - call.first_row) * call.heads + head) * call.step.blocks_per_sequence + block) * (statistics + call.tiling.width);
}

// Block (split, tile of a KV head's query heads, row).
template <KvType type>
__global__ void __launch_bounds__(attention_threads, blocks_of_a_processor) attend_split_kernel(AttentionCall call) {
  __shared__ Sight sights[most_queries];
  __shared__ float maxima[most_queries], sums[most_queries];
  const AttentionShared shared = attention_shared(dynamic_shared<float>(), call.tiling);
  const int tiles = (call.group + call.tiling.queries - 1) / call.tiling.queries;
  const int kv_head = blockIdx.y / tiles, first_query = blockIdx.y % tiles * call.tiling.queries;
  const int64_t row = call.first_row + blockIdx.z;
  const Sight sight = sight_of(call.step.positions, call.step.ahead, row, call.window);
  const int count = min(call.tiling.queries, call.group - first_query), first_head = kv_head * call.group + first_query;
  const int first_block = sight.oldest / block_positions, last_block = (sight.end - 1) / block_positions;
  if (first_block + static_cast<int>(blockIdx.x) > last_block) return;
  for (int q = 0; q < count; ++q) load_query(call, row, first_head + q, shared.q + q * call.tiling.width);
  if (static_cast<int>(threadIdx.x) < count) sights[threadIdx.x] = sight;
  for (int block = first_block + blockIdx.x; block <= last_block; block += gridDim.x) {
    __syncthreads();  // queries and sights are there; the tile is free
    attend_block<type>(call.place, block_id(call.step, row, block), kv_head, shared, call.tiling, sights, 0, count, block * block_positions, call.scale, maxima,
                       sums, [&](int q, int c, float part) { partial_at(call, row, first_head + q, block)[statistics + c] = part; });
    if (static_cast<int>(threadIdx.x) < count) {
      float* partial = partial_at(call, row, first_head + threadIdx.x, block);
      partial[0] = maxima[threadIdx.x];
      partial[1] = sums[threadIdx.x];
    }
  }
}

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

// Block (tile of queries, KV head). Query i of a KV head is head i % group of row i / group.
template <KvType type>
__global__ void __launch_bounds__(attention_threads, row_blocks_of_a_processor) attend_rows_kernel(AttentionCall call) {
  __shared__ Sight sights[most_queries];
  __shared__ float maxima[most_queries], sums[most_queries], total_maxima[most_queries], total_sums[most_queries];
  const AttentionShared shared = attention_shared(dynamic_shared<float>(), call.tiling);
  const int width = call.tiling.width, kv_head = blockIdx.y, first_query = blockIdx.x * call.tiling.queries;
  const int count = min(call.tiling.queries, call.rows * call.group - first_query);
  const auto row_of = [&](int q) { return call.first_row + (first_query + q) / call.group; };
  const auto head_of = [&](int q) { return kv_head * call.group + (first_query + q) % call.group; };
  for (int q = 0; q < count; ++q) load_query(call, row_of(q), head_of(q), shared.q + q * width);
  for (int i = threadIdx.x; i < count * width; i += attention_threads) shared.totals[i] = 0;
  if (static_cast<int>(threadIdx.x) < count) {
    sights[threadIdx.x] = sight_of(call.step.positions, call.step.ahead, row_of(threadIdx.x), call.window);
    total_maxima[threadIdx.x] = -INFINITY;
    total_sums[threadIdx.x] = 0;
  }
  __syncthreads();
  for (int first = 0, end; first < count; first = end) {  // queries of one sequence: their KV blocks are the same
    const int sequence = call.step.sequences[row_of(first)];
    for (end = first + 1; end < count && call.step.sequences[row_of(end)] == sequence;) ++end;
    int oldest = sights[first].oldest, newest = sights[first].end;
    for (int q = first + 1; q < end; ++q) {
      oldest = min(oldest, sights[q].oldest);
      newest = max(newest, sights[q].end);
    }
    for (int block = oldest / block_positions; block <= (newest - 1) / block_positions; ++block) {
      const int block_start = block * block_positions;
      const auto sees = [&](int q) { return sights[q].oldest < block_start + block_positions && sights[q].end > block_start; };
      attend_block<type>(call.place, block_id(call.step, row_of(first), block), kv_head, shared, call.tiling, sights, first, end, block_start, call.scale,
                         maxima, sums, [&](int q, int c, float part) {
                           const Joining by = joining(total_maxima[q], maxima[q]);
                           if (sees(q)) shared.totals[q * width + c] = joined(shared.totals[q * width + c], by, part);
                         });
      __syncthreads();  // every total has been joined by the old maxima
      const int q = first + static_cast<int>(threadIdx.x);
      if (q < end && sees(q)) {
        const Joining by = joining(total_maxima[q], maxima[q]);
        total_maxima[q] = by.maximum;
        total_sums[q] = joined(total_sums[q], by, sums[q]);
      }
      __syncthreads();
    }
  }
  for (int i = threadIdx.x; i < count * width; i += attention_threads) {
    const int q = i / width, c = i % width;
    if (c >= call.place.head_dim) continue;
    call.out[(static_cast<int64_t>(row_of(q)) * call.heads + head_of(q)) * call.place.head_dim + c] =
        shared.totals[i] * final_scale(total_maxima[q], total_sums[q], call.sinks, head_of(q));
  }
}

template <KvType type>
void attend(cudaStream_t stream, AttentionCall call, int64_t rows_at_once) {
  const int all_rows = call.rows, kv_heads = call.place.kv_heads;
  const AttentionTiling& tiling = call.tiling;
  if (all_rows > few_rows || rows_at_once == 0) {
    const int tiles = (all_rows * call.group + tiling.queries - 1) / tiling.queries;
    launch(attend_rows_kernel<type>, dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(kv_heads)), dim3(attention_threads),
           tiling.shared_floats(true) * sizeof(float), stream, call);
    return;
  }
  const int tiles = (call.group + tiling.queries - 1) / tiling.queries;
  const int64_t splits = std::min<int64_t>(call.step.blocks_per_sequence, most_splits);
  for (int first = 0; first < all_rows; first += static_cast<int>(rows_at_once)) {
    call.first_row = first;
    call.rows = static_cast<int>(std::min<int64_t>(rows_at_once, all_rows - first));
    launch(attend_split_kernel<type>, dim3(static_cast<unsigned>(splits), static_cast<unsigned>(kv_heads * tiles), static_cast<unsigned>(call.rows)),
           dim3(attention_threads), tiling.shared_floats(false) * sizeof(float), stream, call);
    launch(merge_splits_kernel, dim3(static_cast<unsigned>(call.heads), static_cast<unsigned>(call.rows)), dim3(attention_threads), 0, stream, call);
  }
}

}  // namespace

int64_t attention_partial_floats(int64_t rows, int64_t heads, int64_t head_dim, int64_t blocks_per_sequence) {
  return std::min(rows, few_rows) * heads * blocks_per_sequence * (statistics + (head_dim + 15) / 16 * 16);
}

void attention(cudaStream_t stream, const StepView& step, const float* q, const KvCache& cache, int64_t layer, int64_t heads, float score_scale,
               int64_t window, const float* sinks, float* partials, int64_t partial_floats, float* out, int64_t rows) {
  const KvShape& shape = cache.shape;
  const AttentionCall call{step, place_of(cache, layer), attention_tiling(shape.head_width()), q, sinks, partials, out, window, score_scale,
                           static_cast<int>(heads), static_cast<int>(heads / shape.kv_heads), 0, static_cast<int>(rows)};
  const int64_t rows_at_once = partial_floats / attention_partial_floats(1, heads, shape.head_dim, step.blocks_per_sequence);
  switch (shape.type) {
    case KvType::f16: return attend<KvType::f16>(stream, call, rows_at_once);
    case KvType::f32: return attend<KvType::f32>(stream, call, rows_at_once);
    case KvType::q8_0: return attend<KvType::q8_0>(stream, call, rows_at_once);
    case KvType::q4_0: return attend<KvType::q4_0>(stream, call, rows_at_once);
  }
}

}  // namespace vigil::compute::cuda
