// The best scores of a row, so that a token costs one small copy. Scores become keys that order by score and then by id, tiles of them are each reduced
// to their 64 highest, and those of all tiles again: a bitonic network sorts lists of 64, and two lists leave the highest of both (Shanbhag, Pirk and
// Madden 2018). No two keys are equal, so no order of threads changes anything.
#include "engine/compute/cuda/launch.hpp"
#include "engine/compute/cuda/op_kernels.hpp"

namespace vigil::compute::cuda {
namespace {

using Key = unsigned long long;

constexpr int pick_threads = 256;
constexpr int list_keys = static_cast<int>(most_picked);
constexpr int tile_lists = 64, tile_keys = tile_lists * list_keys;
static_assert((list_keys & (list_keys - 1)) == 0);

// The lower of two ids is the higher; undoes itself.
__device__ __forceinline__ unsigned turned_id(unsigned id) { return ~id; }

// 0 for what is never picked.
__device__ __forceinline__ Key key_of(float score, int id) {
  if (!(score > -INFINITY)) return 0;
  const unsigned bits = __float_as_uint(score + 0.0f);  // minus zero is zero
  const unsigned ordered = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return static_cast<Key>(ordered) << 32 | turned_id(static_cast<unsigned>(id));
}
__device__ __forceinline__ int id_of(Key key) { return static_cast<int>(turned_id(static_cast<unsigned>(key))); }

__device__ __forceinline__ int next_power_of_two(int count) {
  int power = 1;
  while (power < count) power *= 2;
  return power;
}

// One step of a bitonic network: pairs of keys `stride` apart in runs of `size`, which in turn are to descend and to ascend.
__device__ __forceinline__ void order_pairs(Key* keys, int count, int size, int stride) {
  for (int i = threadIdx.x; i < count / 2; i += pick_threads) {
    const int a = i / stride * 2 * stride + i % stride, b = a + stride;
    const Key first = keys[a], second = keys[b];
    if ((first < second) == ((a & size) == 0)) {
      keys[a] = second;
      keys[b] = first;
    }
  }
  __syncthreads();
}

// `lists` lists, a power of two, that in turn descend and ascend, to one that descends: two neighbours' higher keys, place by place, are the highest of both,
// and rise and fall but once.
__device__ __forceinline__ void join_lists(Key* keys, int lists) {
  constexpr int most = tile_keys / 2 / pick_threads;  // keys of a thread
  for (; lists > 1; lists /= 2) {
    const int left = lists / 2 * list_keys;
    Key higher[most];
#pragma unroll
    for (int n = 0; n < most; ++n) {
      const int i = static_cast<int>(threadIdx.x) + n * pick_threads;
      if (i >= left) continue;
      const Key* pair = keys + i / list_keys * 2 * list_keys + i % list_keys;
      higher[n] = max(pair[0], pair[list_keys]);
    }
    __syncthreads();  // all are read
#pragma unroll
    for (int n = 0; n < most; ++n) {
      const int i = static_cast<int>(threadIdx.x) + n * pick_threads;
      if (i < left) keys[i] = higher[n];
    }
    __syncthreads();
    for (int stride = list_keys / 2; stride > 0; stride /= 2) order_pairs(keys, left, list_keys, stride);
  }
}

// Block (tile, row): best[row, tile, list_keys], descending.
__global__ void __launch_bounds__(pick_threads) pick_of_tile(const float* scores, int cols, Key* best) {
  __shared__ Key keys[tile_keys];
  const int64_t row = blockIdx.y;
  const int start = blockIdx.x * tile_keys, count = min(tile_keys, cols - start);
  const int lists = next_power_of_two((count + list_keys - 1) / list_keys);
  for (int i = threadIdx.x; i < lists * list_keys; i += pick_threads) keys[i] = i < count ? key_of(scores[row * cols + start + i], start + i) : 0;
  __syncthreads();
  for (int size = 2; size <= list_keys; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) order_pairs(keys, lists * list_keys, size, stride);
  }
  join_lists(keys, lists);
  if (threadIdx.x < list_keys) best[(row * gridDim.x + blockIdx.x) * list_keys + threadIdx.x] = keys[threadIdx.x];
}

// Block (row): picked[row, count, 2].
__global__ void __launch_bounds__(pick_threads) pick_of_tiles(const float* scores, int cols, const Key* best, int tiles, int count, float* picked) {
  __shared__ Key keys[tile_keys];
  const int64_t row = blockIdx.x;
  best += row * tiles * list_keys;
  for (int first = 0; first < tiles;) {
    const int kept = first > 0 ? 1 : 0, taken = min(tile_lists - kept, tiles - first);  // the first list holds the best of the tiles before
    const int lists = next_power_of_two(kept + taken);
    for (int i = kept * list_keys + static_cast<int>(threadIdx.x); i < lists * list_keys; i += pick_threads) {
      const int list = i / list_keys, place = list % 2 == 0 ? i % list_keys : list_keys - 1 - i % list_keys;
      keys[i] = list < kept + taken ? best[(first + list - kept) * list_keys + place] : 0;
    }
    __syncthreads();
    join_lists(keys, lists);
    first += taken;
  }
  if (static_cast<int>(threadIdx.x) >= count) return;
  const Key key = keys[threadIdx.x];
  float* to = picked + (row * count + threadIdx.x) * 2;
  to[0] = key == 0 ? -1.0f : static_cast<float>(id_of(key));
  to[1] = key == 0 ? -INFINITY : scores[row * cols + id_of(key)];
}

int64_t tiles_of(int64_t cols) { return (cols + tile_keys - 1) / tile_keys; }

}  // namespace

size_t pick_scratch_bytes(int64_t cols, int64_t rows) { return static_cast<size_t>(rows * tiles_of(cols) * list_keys) * sizeof(Key); }

void pick_best(cudaStream_t stream, const float* scores, int64_t cols, int64_t count, std::byte* scratch, float* picked, int64_t rows) {
  if (rows == 0) return;
  Key* best = reinterpret_cast<Key*>(scratch);
  const int64_t tiles = tiles_of(cols);
  launch(pick_of_tile, dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(rows)), dim3(pick_threads), 0, stream, scores, static_cast<int>(cols), best);
  launch(pick_of_tiles, dim3(static_cast<unsigned>(rows)), dim3(pick_threads), 0, stream, scores, static_cast<int>(cols), best, static_cast<int>(tiles),
         static_cast<int>(count), picked);
}

}  // namespace vigil::compute::cuda
