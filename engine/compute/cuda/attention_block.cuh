// What one KV block gives to a few query heads that share its KV head: for each the maximum of its scores, the sum of exp(score - maximum), and
// the sum of the values so weighted. Both forms of attention are made of it and of `merge`, so they give the same bits: a score is summed over
// the head's values in order, a sum over positions in order, and blocks are merged in ascending order (Milakov and Gimelshein 2018).
// K and V pass through shared memory as floats, a tile of positions at a time. All loops of a block of threads are uniform.
#pragma once

#include "engine/compute/cuda/kv_values.cuh"

namespace vigil::compute::cuda {

constexpr int attention_threads = 128;
constexpr int block_positions = static_cast<int>(kv_block_positions);
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

// Positions that a query sees: [oldest, end).
struct Sight {
  int oldest, end;
};

__device__ __forceinline__ Sight sight_of(const int32_t* positions, const int32_t* ahead, int64_t row, int64_t window) {
  const int position = positions[row];
  const int64_t left = static_cast<int64_t>(position) + 1 - window;
  return {window > 0 && left > 0 ? static_cast<int>(left) : 0, position + 1 + ahead[row]};
}

// Positions [low, high) of the block, which start at tile_start, into the tile; others become 0, since nothing may ever have been written there.
template <KvType type>
__device__ __forceinline__ void load_tile(const KvArea& area, const AttentionTiling& tiling, int tile_start, int low, int high, float* tile) {
  const int eights = tiling.width / 8;
  for (int i = threadIdx.x; i < tiling.positions * eights; i += attention_threads) {
    const int p = i / eights, start = i % eights * 8, position = tile_start + p;
    float values[8] = {};
    if (position >= low && position < high) load_eight<type>(area, position, start, values);
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
template <KvType type, typename Give>
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
    load_tile<type>(keys, tiling, start, low, high, shared.tile);
    __syncthreads();
    score_tile(shared, tiling, sights, first, end, block_start, start, scale);
    __syncthreads();
  }
  weigh(shared, first, end, maxima, sums);
  const int quads = (end - first + quad - 1) / quad, items = quads * tiling.width;
  float parts[most_items][quad] = {};
  for (int start = 0; start < block_positions; start += tiling.positions) {
    if (start > 0) __syncthreads();  // the last tile is used up
    load_tile<type>(values, tiling, start, low, high, shared.tile);
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

// How the next block's sums join those of all before it.
struct Joining {
  float maximum, keep, add;
};

__device__ __forceinline__ Joining joining(float maximum, float next_maximum) {
  const float both = fmaxf(maximum, next_maximum);
  return {both, maximum == -INFINITY ? 0.0f : expf(maximum - both), next_maximum == -INFINITY ? 0.0f : expf(next_maximum - both)};
}

__device__ __forceinline__ float joined(float total, const Joining& by, float next) { return fmaf(total, by.keep, __fmul_rn(next, by.add)); }

// What sums are multiplied by at the end; a sink is one more score, without a value.
__device__ __forceinline__ float final_scale(float maximum, float sum, const float* sinks, int head) {
  if (sinks == nullptr) return 1.0f / sum;
  const float both = fmaxf(maximum, sinks[head]), shrink = expf(maximum - both);
  return shrink / (sum * shrink + expf(sinks[head] - both));
}

}  // namespace vigil::compute::cuda
