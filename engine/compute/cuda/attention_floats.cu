// Attention over a KV cache of floats, in float arithmetic: what the other number types are measured by. A score is summed over the head's values in
// order, a sum over positions in order. K and V pass through shared memory, a tile of positions at a time. All loops of a block of threads are uniform.
#include "engine/compute/cuda/attention_parts.cuh"
#include "engine/compute/cuda/launch.hpp"

namespace vigil::compute::cuda {
namespace {

constexpr int blocks_of_a_processor = 4;      // that the registers of the form for few rows must do for: 128 a thread, so that nothing is spilled
constexpr int row_blocks_of_a_processor = 3;  // of the other, which takes up to 146 where it may
constexpr int most_queries = 16;           // query heads that a block of threads takes at once
constexpr int most_query_floats = 2048;    // of those together
constexpr int tile_floats = 4608;          // of K or V in shared memory at once
constexpr int quad = 4;                    // query heads that a thread takes at once
constexpr int most_items = most_query_floats / quad / attention_threads;  // (value of the head, quad) pairs of a thread

// How a block of threads divides the work; the same for kernels and the launching side.
struct AttentionTiling {
  int width;      // values of a head, with zeros up to a multiple of 16
  int stride;     // of a tile's rows: one vector more, so that neighbours lie in different banks
  int queries;    // that a block of threads takes
  int positions;  // in a tile
  size_t shared_floats(bool with_totals) const {
    return static_cast<size_t>(positions * stride + queries * width * (with_totals ? 2 : 1) + queries * block_positions);
  }
};

inline AttentionTiling attention_tiling(int64_t head_width) {
  AttentionTiling tiling{static_cast<int>(head_width), static_cast<int>(head_width) + 4, 1, block_positions};
  while (tiling.queries < most_queries && 2 * tiling.queries * tiling.width <= most_query_floats) tiling.queries *= 2;
  while (tiling.positions * tiling.stride > tile_floats) tiling.positions /= 2;
  return tiling;
}

struct AttentionShared {
  float* tile;     // [positions, stride]
  float* q;        // [queries, width]
  float* scores;   // [queries, block_positions]; then the weights
  float* totals;   // [queries, width], in the form for many rows
};

__device__ __forceinline__ AttentionShared attention_shared(float* memory, const AttentionTiling& tiling) {
  AttentionShared shared;
  shared.tile = memory;
  shared.q = shared.tile + tiling.positions * tiling.stride;
  shared.scores = shared.q + tiling.queries * tiling.width;
  shared.totals = shared.scores + tiling.queries * block_positions;
  return shared;
}

// Positions [low, high) of the block, which start at tile_start, into the tile; others become 0, since nothing may ever have been written there.
__device__ __forceinline__ void load_tile(const KvArea& area, const AttentionTiling& tiling, int tile_start, int low, int high, float* tile) {
  const int eights = tiling.width / 8;
  for (int i = threadIdx.x; i < tiling.positions * eights; i += attention_threads) {
    const int p = i / eights, start = i % eights * 8, position = tile_start + p;
    float values[8] = {};
    if (position >= low && position < high) load_eight(area, position, start, values);
    float4* to = reinterpret_cast<float4*>(tile + p * tiling.stride + start);
    to[0] = make_float4(values[0], values[1], values[2], values[3]);
    to[1] = make_float4(values[4], values[5], values[6], values[7]);
  }
}

// Scores of queries [first, end) with the tile's positions. What a query does not see becomes -infinity.
__device__ __forceinline__ void score_tile(const AttentionShared& shared, const AttentionTiling& tiling, const Sight* sights, int first, int end,
                                           int block_start, int tile_start, float scale) {
  const int quads = (end - first + quad - 1) / quad;
  for (int i = threadIdx.x; i < tiling.positions * quads; i += attention_threads) {
    const int p = i % tiling.positions, q = first + i / tiling.positions * quad;
    const float4* key = reinterpret_cast<const float4*>(shared.tile + p * tiling.stride);
    const float4* queries[quad];
    float sums[quad] = {};
#pragma unroll
    for (int j = 0; j < quad; ++j) queries[j] = reinterpret_cast<const float4*>(shared.q + min(q + j, end - 1) * tiling.width);
    for (int c = 0; c < tiling.width / 4; ++c) {
      const float4 k = key[c];
#pragma unroll
      for (int j = 0; j < quad; ++j) {
        const float4 x = queries[j][c];
        sums[j] = fmaf(x.w, k.w, fmaf(x.z, k.z, fmaf(x.y, k.y, fmaf(x.x, k.x, sums[j]))));
      }
    }
    const int position = block_start + tile_start + p;
#pragma unroll
    for (int j = 0; j < quad; ++j) {
      if (q + j >= end) continue;
      const bool seen = position >= sights[q + j].oldest && position < sights[q + j].end;
      shared.scores[(q + j) * block_positions + tile_start + p] = seen ? sums[j] * scale : -INFINITY;
    }
  }
}

// Scores become weights; a warp has a query. `maxima` and `sums` get what the block gives.
__device__ __forceinline__ void weigh(const AttentionShared& shared, int first, int end, float* maxima, float* sums) {
  const int lane = threadIdx.x % warp_threads;
  for (int q = first + static_cast<int>(threadIdx.x) / warp_threads; q < end; q += attention_threads / warp_threads) {
    float* scores = shared.scores + q * block_positions;
    const float a = scores[lane], b = scores[lane + warp_threads];
    const float maximum = warp_max(fmaxf(a, b));
    const float weight_a = a == -INFINITY ? 0.0f : expf(a - maximum), weight_b = b == -INFINITY ? 0.0f : expf(b - maximum);
    scores[lane] = weight_a;
    scores[lane + warp_threads] = weight_b;
    const float sum = warp_sum(weight_a + weight_b);
    if (lane == 0) {
      maxima[q] = maximum;
      sums[q] = sum;
    }
  }
}

// Calls give(query, value's index, sum) for queries [first, end): what the block at `block_start` gives, see above. At its end the tile may still be in use:
// the caller meets a barrier before the next call. `maxima` and `sums` [queries] are shared memory, written before the first give.
template <typename Give>
__device__ __forceinline__ void attend_block(const KvPlace& place, int64_t block, int kv_head, const AttentionShared& shared, const AttentionTiling& tiling,
                                             const Sight* sights, int first, int end, int block_start, float scale, float* maxima, float* sums, Give&& give) {
  int oldest = block_start + block_positions, newest = block_start;  // of all queries, so that nothing else is read
  for (int q = first; q < end; ++q) {
    oldest = min(oldest, sights[q].oldest);
    newest = max(newest, sights[q].end);
  }
  const int low = max(oldest - block_start, 0), high = min(newest - block_start, block_positions);
  const KvArea keys = area_of(place, block, kv_head, KvHalf::keys), values = area_of(place, block, kv_head, KvHalf::values);
  for (int start = 0; start < block_positions; start += tiling.positions) {
    load_tile(keys, tiling, start, low, high, shared.tile);
    __syncthreads();
    score_tile(shared, tiling, sights, first, end, block_start, start, scale);
    __syncthreads();
  }
  weigh(shared, first, end, maxima, sums);
  const int quads = (end - first + quad - 1) / quad, items = quads * tiling.width;
  float parts[most_items][quad] = {};
  for (int start = 0; start < block_positions; start += tiling.positions) {
    if (start > 0) __syncthreads();  // the last tile is used up
    load_tile(values, tiling, start, low, high, shared.tile);
    __syncthreads();
#pragma unroll
    for (int n = 0; n < most_items; ++n) {
      const int item = static_cast<int>(threadIdx.x) + n * attention_threads;
      if (item >= items) continue;
      const int c = item % tiling.width, q = first + item / tiling.width * quad;
      for (int p = 0; p < tiling.positions; p += 4) {
        const float* column = shared.tile + p * tiling.stride + c;
        const float v0 = column[0], v1 = column[tiling.stride], v2 = column[2 * tiling.stride], v3 = column[3 * tiling.stride];
#pragma unroll
        for (int j = 0; j < quad; ++j) {
          const float4 w = *reinterpret_cast<const float4*>(shared.scores + min(q + j, end - 1) * block_positions + start + p);
          parts[n][j] = fmaf(w.w, v3, fmaf(w.z, v2, fmaf(w.y, v1, fmaf(w.x, v0, parts[n][j]))));
        }
      }
    }
  }
#pragma unroll
  for (int n = 0; n < most_items; ++n) {
    const int item = static_cast<int>(threadIdx.x) + n * attention_threads;
    if (item >= items) continue;
    const int c = item % tiling.width, q = first + item / tiling.width * quad;
#pragma unroll
    for (int j = 0; j < quad; ++j) {
      if (q + j < end) give(q + j, c, parts[n][j]);
    }
  }
}

__device__ __forceinline__ void load_query(const AttentionCall& call, const AttentionTiling& tiling, int64_t row, int head, float* to) {
  const float* from = call.q + (row * call.heads + head) * call.place.head_dim;
  for (int c = threadIdx.x; c < tiling.width; c += attention_threads) to[c] = c < call.place.head_dim ? from[c] : 0.0f;
}

// Block (split, tile of a KV head's query heads, row).
__global__ void __launch_bounds__(attention_threads, blocks_of_a_processor) split_floats(AttentionCall call, AttentionTiling tiling) {
  __shared__ Sight sights[most_queries];
  __shared__ float maxima[most_queries], sums[most_queries];
  const AttentionShared shared = attention_shared(dynamic_shared<float>(), tiling);
  const int tiles = (call.group + tiling.queries - 1) / tiling.queries;
  const int kv_head = blockIdx.y / tiles, first_query = blockIdx.y % tiles * tiling.queries;
  const int64_t row = call.first_row + blockIdx.z;
  const Sight sight = sight_of(call.step.positions, call.step.ahead, row, call.window);
  const int count = min(tiling.queries, call.group - first_query), first_head = kv_head * call.group + first_query;
  const int first_block = sight.oldest / block_positions, last_block = (sight.end - 1) / block_positions;
  if (first_block + static_cast<int>(blockIdx.x) > last_block) return;
  for (int q = 0; q < count; ++q) load_query(call, tiling, row, first_head + q, shared.q + q * tiling.width);
  if (static_cast<int>(threadIdx.x) < count) sights[threadIdx.x] = sight;
  for (int block = first_block + blockIdx.x; block <= last_block; block += gridDim.x) {
    __syncthreads();  // queries and sights are there; the tile is free
    attend_block(call.place, block_id(call.step, row, block), kv_head, shared, tiling, sights, 0, count, block * block_positions, call.scale, maxima,
                       sums, [&](int q, int c, float part) { partial_at(call, row, first_head + q, block)[statistics + c] = part; });
    if (static_cast<int>(threadIdx.x) < count) {
      float* partial = partial_at(call, row, first_head + threadIdx.x, block);
      partial[0] = maxima[threadIdx.x];
      partial[1] = sums[threadIdx.x];
    }
  }
}

// Block (tile of queries, KV head). Query i of a KV head is head i % group of row i / group.
__global__ void __launch_bounds__(attention_threads, row_blocks_of_a_processor) rows_floats(AttentionCall call, AttentionTiling tiling) {
  __shared__ Sight sights[most_queries];
  __shared__ float maxima[most_queries], sums[most_queries], total_maxima[most_queries], total_sums[most_queries];
  const AttentionShared shared = attention_shared(dynamic_shared<float>(), tiling);
  const int width = tiling.width, kv_head = blockIdx.y, first_query = blockIdx.x * tiling.queries;
  const int count = min(tiling.queries, call.rows * call.group - first_query);
  const auto row_of = [&](int q) { return call.first_row + (first_query + q) / call.group; };
  const auto head_of = [&](int q) { return kv_head * call.group + (first_query + q) % call.group; };
  for (int q = 0; q < count; ++q) load_query(call, tiling, row_of(q), head_of(q), shared.q + q * width);
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
      attend_block(call.place, block_id(call.step, row_of(first), block), kv_head, shared, tiling, sights, first, end, block_start, call.scale,
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

}  // namespace

void attend_split_floats(cudaStream_t stream, const AttentionCall& call, unsigned splits) {
  const AttentionTiling tiling = attention_tiling(call.place.head_width);
  const int tiles = (call.group + tiling.queries - 1) / tiling.queries;
  launch(split_floats, dim3(splits, static_cast<unsigned>(call.place.kv_heads * tiles), static_cast<unsigned>(call.rows)), dim3(attention_threads),
         tiling.shared_floats(false) * sizeof(float), stream, call, tiling);
}

void attend_rows_floats(cudaStream_t stream, const AttentionCall& call) {
  const AttentionTiling tiling = attention_tiling(call.place.head_width);
  const int tiles = (call.rows * call.group + tiling.queries - 1) / tiling.queries;
  launch(rows_floats, dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(call.place.kv_heads)), dim3(attention_threads),
         tiling.shared_floats(true) * sizeof(float), stream, call, tiling);
}

}  // namespace vigil::compute::cuda
