// Attention over a KV cache of halves, or of levels that become halves, by tensor cores (m16n8k16, float sums). Queries and the weights of the softmax are
// rounded to halves too: eleven bits each, as those of the cache. 16 query heads that share a KV head are the rows of a tile. Every sum is one chain of the
// same instructions in both forms (a score's over the head's values, a value's over the block's positions, both ascending), so both give the same bits:
// a form decides only how many warps share a tile. Products with a weight of 0 are exact, so which positions are passed over makes no difference either.
#include "engine/compute/cuda/attention_parts.cuh"
#include "engine/compute/cuda/launch.hpp"
#include "engine/compute/cuda/matrix_units.cuh"
#include "engine/compute/cuda/row_power.cuh"

namespace vigil::compute::cuda {
namespace {

constexpr int warps = attention_threads / warp_threads;
constexpr int tile_rows = 16;                         // query heads
constexpr int position_groups = block_positions / 8;  // 8 positions are the columns of a product
constexpr int position_steps = block_positions / 16;  // 16 are the depth of one
constexpr int part_columns = 32;                      // values of a head that a lane group has as 16-byte pieces
constexpr int slice_columns = 128;                    // of K or V in shared memory at once
constexpr int slice_parts = slice_columns / part_columns;
constexpr int score_stride = block_positions + 8;     // floats; halves of warps read and write different banks
constexpr int row_blocks_of_a_processor = 3;          // that registers must do for, of the form for many rows

// Where things lie in shared memory; the same for kernels and the launching side. Neighbouring rows' 16-byte pieces lie in different banks.
struct HalfTiling {
  int width;         // values of a head, with zeros up to whole parts
  int query_stride;  // halves
  int key_stride;    // halves of a position, in a slice
  int value_stride;  // words of two positions' halves, in a slice
  int tile_bytes() const { return max(block_positions * key_stride * 2, block_positions / 2 * value_stride * 4); }
  size_t shared_bytes(int tiles, int sharers) const {
    return static_cast<size_t>(tile_bytes()) + static_cast<size_t>(tiles * tile_rows) * static_cast<size_t>(query_stride * 2 + (sharers > 1 ? score_stride * 4 : 0));
  }
};

HalfTiling half_tiling(int head_dim) {
  const auto stride = [](int halves) { return halves % 64 == 32 ? halves : halves + 32; };
  const int width = (head_dim + part_columns - 1) / part_columns * part_columns, slice = width < slice_columns ? width : slice_columns;
  return {width, stride(width), stride(slice), slice + 8};
}

struct HalfShared {
  unsigned char* tile;  // keys [block_positions, key_stride] halves, or values [block_positions / 2, value_stride] words
  __half* queries;      // [tiles * tile_rows, query_stride]
  float* scores;        // [tiles * tile_rows, score_stride], where several warps share a tile
};

__device__ __forceinline__ HalfShared half_shared(const HalfTiling& tiling, int tiles) {
  unsigned char* memory = dynamic_shared<unsigned char>();
  unsigned char* queries = memory + max(block_positions * tiling.key_stride * 2, block_positions / 2 * tiling.value_stride * 4);
  return {memory, reinterpret_cast<__half*>(queries), reinterpret_cast<float*>(queries + tiles * tile_rows * tiling.query_stride * 2)};
}

// What a lane knows of its place: it has rows g and g + 8 of its warp's tile.
template <int sharers>
struct Place {
  int g = threadIdx.x % warp_threads / 4, t = threadIdx.x % 4;
  int tile = static_cast<int>(threadIdx.x) / warp_threads / sharers, share = static_cast<int>(threadIdx.x) / warp_threads % sharers;
};

// A tile's rows as one of its lanes needs them.
struct TileRows {
  Sight sight[2];
  float scale[2];   // of scores: the op's and the query's power of two
  int oldest, end;  // what any row of the tile sees
};

constexpr Sight sees_nothing{0x7fffffff, 0};

template <int sharers>
__device__ __forceinline__ TileRows tile_rows_of(const Place<sharers>& at, const Sight* sights, const float* scales) {
  const int first = at.tile * tile_rows;
  TileRows rows{{sights[first + at.g], sights[first + at.g + 8]}, {scales[first + at.g], scales[first + at.g + 8]}, sees_nothing.oldest, sees_nothing.end};
  for (int i = 0; i < tile_rows; ++i) {
    rows.oldest = min(rows.oldest, sights[first + i].oldest);
    rows.end = max(rows.end, sights[first + i].end);
  }
  return rows;
}

// Whether a tile's rows see any of `count` positions from `start` on.
__device__ __forceinline__ bool any_seen(const TileRows& rows, int start, int count) { return rows.oldest < start + count && rows.end > start; }

// A query head, by one warp; nothing at all where `from` is null. `scale` becomes what its scores are multiplied by.
__device__ __forceinline__ void load_query(const float* from, int head_dim, int width, float score_scale, __half* to, float* scale) {
  const int lane = threadIdx.x % warp_threads, count = from == nullptr ? 0 : head_dim;
  float largest = 0;
  for (int c = lane; c < count; c += warp_threads) largest = fmaxf(largest, magnitude(from[c]));
  const RowPower by = row_power(warp_max(largest));
  for (int c = lane; c < width; c += warp_threads) to[c] = __float2half_rn(c < count && by.finite ? from[c] * by.inverse : 0.0f);
  if (lane == 0) *scale = score_scale * by.factor;
}

// Positions [low, high) of the block, a slice of their values; others become 0, since nothing may ever have been written there.
template <KvType type>
__device__ __forceinline__ void load_keys(const KvArea& area, const HalfTiling& tiling, int start, int columns, int low, int high, unsigned char* tile) {
  const int eights = columns / 8;
#pragma unroll 4
  for (int i = threadIdx.x; i < block_positions * eights; i += attention_threads) {
    const int p = i / eights, c = i % eights * 8;
    const uint4 eight = p >= low && p < high ? load_eight_halves<type>(area, p, start + c) : make_uint4(0, 0, 0, 0);
    *reinterpret_cast<uint4*>(tile + (p * tiling.key_stride + c) * 2) = eight;
  }
}

// The same for values, two positions' halves in a word, as the depth of a product wants them.
template <KvType type>
__device__ __forceinline__ void load_values(const KvArea& area, const HalfTiling& tiling, int start, int columns, int low, int high, unsigned char* tile) {
  const int eights = columns / 8;
#pragma unroll 2
  for (int i = threadIdx.x; i < block_positions / 2 * eights; i += attention_threads) {
    const int p = i / eights * 2, c = i % eights * 8;
    const uint4 zero = make_uint4(0, 0, 0, 0);
    const uint4 a = p >= low && p < high ? load_eight_halves<type>(area, p, start + c) : zero;
    const uint4 b = p + 1 >= low && p + 1 < high ? load_eight_halves<type>(area, p + 1, start + c) : zero;
    uint4* to = reinterpret_cast<uint4*>(tile + (p / 2 * tiling.value_stride + c) * 4);
    to[0] = make_uint4(__byte_perm(a.x, b.x, 0x5410), __byte_perm(a.x, b.x, 0x7632), __byte_perm(a.y, b.y, 0x5410), __byte_perm(a.y, b.y, 0x7632));
    to[1] = make_uint4(__byte_perm(a.z, b.z, 0x5410), __byte_perm(a.z, b.z, 0x7632), __byte_perm(a.w, b.w, 0x5410), __byte_perm(a.w, b.w, 0x7632));
  }
}

// Products of the tile's queries with the block's keys: group n's column c is position 8 n + c. Begins and ends with the tile free for all.
template <KvType type, int sharers>
__device__ __forceinline__ void multiply_keys(const KvArea& keys, const HalfTiling& tiling, const HalfShared& shared, const Place<sharers>& at, const TileRows& rows,
                                              int block_start, int low, int high, float (&score)[position_groups][4]) {
  constexpr int own = position_groups / sharers;
  float sum[own][4] = {};
  for (int start = 0; start < tiling.width; start += slice_columns) {
    const int columns = min(slice_columns, tiling.width - start);
    load_keys<type>(keys, tiling, start, columns, low, high, shared.tile);
    __syncthreads();
    const __half* query = shared.queries + (at.tile * tile_rows + at.g) * tiling.query_stride + start + 8 * at.t;
    const __half* key = reinterpret_cast<const __half*>(shared.tile) + (at.share * own * 8 + at.g) * tiling.key_stride + 8 * at.t;
    for (int c = 0; c < columns; c += part_columns) {
      const uint4 upper = *reinterpret_cast<const uint4*>(query + c), lower = *reinterpret_cast<const uint4*>(query + 8 * tiling.query_stride + c);
      const unsigned a0[4] = {upper.x, lower.x, upper.y, lower.y}, a1[4] = {upper.z, lower.z, upper.w, lower.w};
#pragma unroll
      for (int n = 0; n < own; ++n) {
        if (!any_seen(rows, block_start + (at.share * own + n) * 8, 8)) continue;  // the same for the whole warp
        const uint4 eight = *reinterpret_cast<const uint4*>(key + n * 8 * tiling.key_stride + c);
        const unsigned b0[2] = {eight.x, eight.y}, b1[2] = {eight.z, eight.w};
        multiply_halves(sum[n], a0, b0);
        multiply_halves(sum[n], a1, b1);
      }
    }
    __syncthreads();  // the tile is used up
  }
  if constexpr (sharers == 1) {
#pragma unroll
    for (int n = 0; n < own; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) score[n][i] = sum[n][i];
    }
  } else {  // every warp of the tile gets all scores, as if it had made them
    float* upper = shared.scores + (at.tile * tile_rows + at.g) * score_stride + 2 * at.t;
    float* lower = upper + 8 * score_stride;
#pragma unroll
    for (int n = 0; n < own; ++n) {
      *reinterpret_cast<float2*>(upper + (at.share * own + n) * 8) = make_float2(sum[n][0], sum[n][1]);
      *reinterpret_cast<float2*>(lower + (at.share * own + n) * 8) = make_float2(sum[n][2], sum[n][3]);
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < position_groups; ++n) {
      const float2 first = *reinterpret_cast<const float2*>(upper + n * 8), second = *reinterpret_cast<const float2*>(lower + n * 8);
      score[n][0] = first.x, score[n][1] = first.y, score[n][2] = second.x, score[n][3] = second.y;
    }
  }
}

// Of rows g and g + 8.
struct BlockStatistics {
  float maximum[2], sum[2];
};

// Products become the softmax's weights, as the left operands of the products with values. What a row does not see weighs nothing.
__device__ __forceinline__ BlockStatistics weigh(float (&score)[position_groups][4], const TileRows& rows, int t, int block_start, unsigned (&weights)[position_steps][4]) {
  BlockStatistics all{{-INFINITY, -INFINITY}, {0, 0}};
#pragma unroll
  for (int n = 0; n < position_groups; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int position = block_start + 8 * n + 2 * t + i % 2;
      const bool seen = position >= rows.sight[i / 2].oldest && position < rows.sight[i / 2].end;
      score[n][i] = seen ? __fmul_rn(score[n][i], rows.scale[i / 2]) : -INFINITY;  // not fused with the difference below
      all.maximum[i / 2] = fmaxf(all.maximum[i / 2], score[n][i]);
    }
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    all.maximum[r] = fmaxf(all.maximum[r], __shfl_xor_sync(whole_warp, all.maximum[r], 1));
    all.maximum[r] = fmaxf(all.maximum[r], __shfl_xor_sync(whole_warp, all.maximum[r], 2));
  }
#pragma unroll
  for (int n = 0; n < position_groups; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      score[n][i] = score[n][i] == -INFINITY ? 0.0f : expf(score[n][i] - all.maximum[i / 2]);
      all.sum[i / 2] += score[n][i];
    }
    weights[n / 2][n % 2 * 2] = two_halves(score[n][0], score[n][1]);
    weights[n / 2][n % 2 * 2 + 1] = two_halves(score[n][2], score[n][3]);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    all.sum[r] += __shfl_xor_sync(whole_warp, all.sum[r], 1);
    all.sum[r] += __shfl_xor_sync(whole_warp, all.sum[r], 2);
  }
  return all;
}

// Calls give(slot, column, part) for each part of 32 values that is the warp's: part[n][i] is row g + 8 (i / 2), value column + 4 (2 t + i % 2) + n; the slot, one
// of four, is known when the kernel is compiled. `column` is the part's first value of the head. Begins and ends with the tile free for all.
template <KvType type, int sharers, typename Give>
__device__ __forceinline__ void multiply_values(const KvArea& values, const HalfTiling& tiling, const HalfShared& shared, const Place<sharers>& at, const TileRows& rows,
                                                int block_start, int low, int high, const unsigned (&weights)[position_steps][4], Give&& give) {
  constexpr int own = slice_parts / sharers;
#pragma unroll
  for (int slice = 0; slice < sharers; ++slice) {  // a head of more slices has more sharers
    const int start = slice * slice_columns, columns = min(slice_columns, tiling.width - start);
    if (columns <= 0) break;
    load_values<type>(values, tiling, start, columns, low, high, shared.tile);
    __syncthreads();
#pragma unroll
    for (int o = 0; o < own; ++o) {
      const int column = (at.share + o * sharers) * part_columns;
      if (column >= columns || !any_seen(rows, block_start, block_positions)) continue;  // the same for the whole warp
      float part[4][4] = {};
#pragma unroll
      for (int k = 0; k < position_steps; ++k) {
        if (!any_seen(rows, block_start + 16 * k, 16)) continue;
        const unsigned* pairs = reinterpret_cast<const unsigned*>(shared.tile) + (8 * k + at.t) * tiling.value_stride + column + 4 * at.g;
        const uint4 first = *reinterpret_cast<const uint4*>(pairs), second = *reinterpret_cast<const uint4*>(pairs + 4 * tiling.value_stride);
        const unsigned b[4][2] = {{first.x, second.x}, {first.y, second.y}, {first.z, second.z}, {first.w, second.w}};
#pragma unroll
        for (int n = 0; n < 4; ++n) multiply_halves(part[n], weights[k], b[n]);
      }
      give(slice * own + o, start + column, part);
    }
    __syncthreads();  // the tile is used up
  }
}

// Block (split, tile of a KV head's query heads, row): all warps share the tile.
template <KvType type>
__global__ void __launch_bounds__(attention_threads) split_halves(AttentionCall call, HalfTiling tiling) {
  __shared__ Sight sights[tile_rows];
  __shared__ float scales[tile_rows];
  const Place<warps> at;
  const HalfShared shared = half_shared(tiling, 1);
  const int tiles = (call.group + tile_rows - 1) / tile_rows, kv_head = blockIdx.y / tiles, first_query = blockIdx.y % tiles * tile_rows;
  const int count = min(tile_rows, call.group - first_query), first_head = kv_head * call.group + first_query;
  const int64_t row = call.first_row + blockIdx.z;
  const Sight sight = sight_of(call.step.positions, call.step.ahead, row, call.window);
  const int first_block = sight.oldest / block_positions, last_block = (sight.end - 1) / block_positions;
  if (first_block + static_cast<int>(blockIdx.x) > last_block) return;
  for (int q = threadIdx.x / warp_threads; q < tile_rows; q += warps) {
    const float* from = q < count ? call.q + (row * call.heads + first_head + q) * call.place.head_dim : nullptr;
    load_query(from, call.place.head_dim, tiling.width, call.scale, shared.queries + q * tiling.query_stride, &scales[q]);
  }
  if (threadIdx.x < tile_rows) sights[threadIdx.x] = static_cast<int>(threadIdx.x) < count ? sight : sees_nothing;
  __syncthreads();
  const TileRows rows = tile_rows_of(at, sights, scales);
  for (int block = first_block + blockIdx.x; block <= last_block; block += gridDim.x) {
    const int block_start = block * block_positions;
    const int low = max(sight.oldest - block_start, 0), high = min(sight.end - block_start, block_positions);
    const int64_t id = block_id(call.step, row, block);
    float score[position_groups][4];
    unsigned weights[position_steps][4];
    multiply_keys<type, warps>(area_of(call.place, id, kv_head, KvHalf::keys), tiling, shared, at, rows, block_start, low, high, score);
    const BlockStatistics found = weigh(score, rows, at.t, block_start, weights);
    multiply_values<type, warps>(area_of(call.place, id, kv_head, KvHalf::values), tiling, shared, at, rows, block_start, low, high, weights,
                                 [&](int, int first_column, const float (&part)[4][4]) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int q = at.g + i / 2 * 8, column = first_column + 4 * (2 * at.t + i % 2);
        if (q >= count) continue;
        float* to = partial_at(call, row, first_head + q, block) + statistics;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
          if (column + n < call.place.head_dim) to[column + n] = part[n][i];
        }
      }
    });
    if (at.share != 0 || at.t != 0) continue;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (at.g + 8 * r >= count) continue;
      float* partial = partial_at(call, row, first_head + at.g + 8 * r, block);
      partial[0] = found.maximum[r];
      partial[1] = found.sum[r];
    }
  }
}

// Rows [first, end) of the step that are the n-th to belong to one sequence, among at most 64 rows; none: first = end.
struct Run {
  int first, end;
};

__device__ __forceinline__ int lowest_bit(unsigned long long bits) {
  const unsigned low = static_cast<unsigned>(bits);
  return low != 0 ? __ffs(static_cast<int>(low)) - 1 : 31 + __ffs(static_cast<int>(bits >> 32));
}

__device__ __forceinline__ Run find_run(const int32_t* sequences, int first_row, int end_row, int number) {
  unsigned long long starts = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + half * warp_threads + static_cast<int>(threadIdx.x) % warp_threads;
    const bool start = row < end_row && (row == first_row || sequences[row] != sequences[row - 1]);
    starts |= static_cast<unsigned long long>(__ballot_sync(whole_warp, start)) << (half * warp_threads);
  }
  for (int n = 0; n < number; ++n) starts &= starts - 1;
  if (starts == 0) return {0, 0};
  const unsigned long long later = starts & (starts - 1);
  return {first_row + lowest_bit(starts), later == 0 ? end_row : first_row + lowest_bit(later)};
}

// Block (tile group, KV head, run): query i of a KV head is head i % group of row i / group. A block takes those of its queries that belong to one sequence, since
// their KV blocks are the same; 4 / sharers tiles of them.
template <KvType type, int sharers>
__global__ void __launch_bounds__(attention_threads, row_blocks_of_a_processor) rows_halves(AttentionCall call, HalfTiling tiling) {
  constexpr int tiles = warps / sharers, most_queries = tiles * tile_rows;
  __shared__ Sight sights[most_queries];
  __shared__ float scales[most_queries];
  const Place<sharers> at;
  const HalfShared shared = half_shared(tiling, tiles);
  const int kv_head = blockIdx.y, tile_first = blockIdx.x * most_queries, tile_end = min(tile_first + most_queries, call.rows * call.group);
  const Run run = find_run(call.step.sequences, call.first_row + tile_first / call.group, call.first_row + (tile_end - 1) / call.group + 1, blockIdx.z);
  if (run.first == run.end) return;
  const int first_query = max(tile_first, (run.first - call.first_row) * call.group), count = min(tile_end, (run.end - call.first_row) * call.group) - first_query;
  const auto row_of = [&](int q) { return call.first_row + (first_query + q) / call.group; };
  const auto head_of = [&](int q) { return kv_head * call.group + (first_query + q) % call.group; };
  for (int q = threadIdx.x / warp_threads; q < most_queries; q += warps) {
    const float* from = q < count ? call.q + (static_cast<int64_t>(row_of(q)) * call.heads + head_of(q)) * call.place.head_dim : nullptr;
    load_query(from, call.place.head_dim, tiling.width, call.scale, shared.queries + q * tiling.query_stride, &scales[q]);
  }
  const int mine = threadIdx.x;
  if (mine < most_queries) sights[mine] = mine < count ? sight_of(call.step.positions, call.step.ahead, row_of(mine), call.window) : sees_nothing;
  __syncthreads();
  const TileRows rows = tile_rows_of(at, sights, scales);
  int oldest = sights[0].oldest, newest = sights[0].end;
  for (int q = 1; q < count; ++q) {
    oldest = min(oldest, sights[q].oldest);
    newest = max(newest, sights[q].end);
  }

  float totals[slice_parts][4][4] = {}, maxima[2] = {-INFINITY, -INFINITY}, sums[2] = {};
  for (int block = oldest / block_positions; block <= (newest - 1) / block_positions; ++block) {
    const int block_start = block * block_positions;
    const int low = max(oldest - block_start, 0), high = min(newest - block_start, block_positions);
    const int64_t id = block_id(call.step, run.first, block);
    float score[position_groups][4];
    unsigned weights[position_steps][4];
    multiply_keys<type, sharers>(area_of(call.place, id, kv_head, KvHalf::keys), tiling, shared, at, rows, block_start, low, high, score);
    const BlockStatistics found = weigh(score, rows, at.t, block_start, weights);
    bool sees[2];
    Joining by[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sees[r] = rows.sight[r].oldest < block_start + block_positions && rows.sight[r].end > block_start;
      by[r] = joining(maxima[r], found.maximum[r]);
      if (!sees[r]) continue;
      maxima[r] = by[r].maximum;
      sums[r] = joined(sums[r], by[r], found.sum[r]);
    }
    multiply_values<type, sharers>(area_of(call.place, id, kv_head, KvHalf::values), tiling, shared, at, rows, block_start, low, high, weights,
                                   [&](int slot, int, const float (&part)[4][4]) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          if (sees[i / 2]) totals[slot][n][i] = joined(totals[slot][n][i], by[i / 2], part[n][i]);
        }
      }
    });
  }

#pragma unroll
  for (int slot = 0; slot < slice_parts; ++slot) {
    constexpr int own = slice_parts / sharers;
    const int first_column = slot / own * slice_columns + (at.share + slot % own * sharers) * part_columns;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int q = at.tile * tile_rows + at.g + i / 2 * 8, column = first_column + 4 * (2 * at.t + i % 2);
      if (q >= count) continue;
      const float scale = final_scale(maxima[i / 2], sums[i / 2], call.sinks, head_of(q));
      float* to = call.out + (static_cast<int64_t>(row_of(q)) * call.heads + head_of(q)) * call.place.head_dim;
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        if (column + n < call.place.head_dim) to[column + n] = totals[slot][n][i] * scale;
      }
    }
  }
}

template <KvType type>
void launch_split(cudaStream_t stream, const AttentionCall& call, unsigned splits) {
  const HalfTiling tiling = half_tiling(call.place.head_dim);
  const int tiles = (call.group + tile_rows - 1) / tile_rows;
  launch(split_halves<type>, dim3(splits, static_cast<unsigned>(call.place.kv_heads * tiles), static_cast<unsigned>(call.rows)), dim3(attention_threads),
         tiling.shared_bytes(1, warps), stream, call, tiling);
}

template <KvType type, int sharers>
void launch_rows(cudaStream_t stream, const AttentionCall& call, const HalfTiling& tiling) {
  constexpr int tiles = warps / sharers, most_queries = tiles * tile_rows;
  const dim3 grid(static_cast<unsigned>((call.rows * call.group + most_queries - 1) / most_queries), static_cast<unsigned>(call.place.kv_heads),
                  static_cast<unsigned>(call.step.sequence_count));
  launch(rows_halves<type, sharers>, grid, dim3(attention_threads), tiling.shared_bytes(tiles, sharers), stream, call, tiling);
}

template <KvType type>
void launch_rows(cudaStream_t stream, const AttentionCall& call) {
  const HalfTiling tiling = half_tiling(call.place.head_dim);
  if (tiling.width <= slice_columns) launch_rows<type, 1>(stream, call, tiling);
  else if (tiling.width <= 2 * slice_columns) launch_rows<type, 2>(stream, call, tiling);
  else launch_rows<type, 4>(stream, call, tiling);
}

}  // namespace

void attend_split_halves(cudaStream_t stream, const AttentionCall& call, KvType type, unsigned splits) {
  if (type == KvType::f16) launch_split<KvType::f16>(stream, call, splits);
  else if (type == KvType::q8_0) launch_split<KvType::q8_0>(stream, call, splits);
  else launch_split<KvType::q4_0>(stream, call, splits);
}

void attend_rows_halves(cudaStream_t stream, const AttentionCall& call, KvType type) {
  if (type == KvType::f16) launch_rows<KvType::f16>(stream, call);
  else if (type == KvType::q8_0) launch_rows<KvType::q8_0>(stream, call);
  else launch_rows<KvType::q4_0>(stream, call);
}

}  // namespace vigil::compute::cuda
