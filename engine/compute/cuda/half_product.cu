// Products of F16 and BF16 weights: tensor cores multiply halves by both halves of an input, for few inputs (warps share out the chunks) as for many
// (a warp has 16 rows to itself). A chunk's sum is one chain of the same instructions in both, so they round alike.
#include <cuda_fp16.h>

#include "engine/compute/cuda/launch.hpp"
#include "engine/compute/cuda/matrix_units.cuh"
#include "engine/compute/cuda/product_parts.hpp"

namespace vigil::compute::cuda {
namespace {

struct HalfWeights {
  const unsigned char* address;
  int groups, out_cols;
};

__device__ const unsigned char* group_at(const HalfWeights& weights, int group, int parts) {
  return weights.address + static_cast<size_t>(min(group, weights.groups - 1)) * (static_cast<size_t>(parts) * 512 + 32);
}
__device__ float row_factor(const unsigned char* group, int row, int parts) {
  return reinterpret_cast<const float*>(group + static_cast<size_t>(parts) * 512)[row];
}

// Adds a part of 16 weight rows (8 of each group) times 8 inputs, of which this lane holds one. Lane place t has columns 8t to 8t + 7 of both, in the
// order that suits it: columns of a product may come in any order that both sides share.
__device__ __forceinline__ void add_part(float (&sum)[4], const uint4& upper, const uint4& lower, const unsigned char* input_part, int t) {
  const uint4 first = reinterpret_cast<const uint4*>(input_part)[t], rest = reinterpret_cast<const uint4*>(input_part)[4 + t];
  const unsigned a0[4] = {upper.x, lower.x, upper.y, lower.y}, a1[4] = {upper.z, lower.z, upper.w, lower.w};
  const unsigned first0[2] = {first.x, first.y}, first1[2] = {first.z, first.w};
  const unsigned rest0[2] = {rest.x, rest.y}, rest1[2] = {rest.z, rest.w};
  multiply_halves(sum, a0, rest0);
  multiply_halves(sum, a0, first0);
  multiply_halves(sum, a1, rest1);
  multiply_halves(sum, a1, first1);
}

__device__ __forceinline__ uint4 weight_part(const unsigned char* group, int part, int g, int t) {
  return reinterpret_cast<const uint4*>(group)[(part * 8 + g) * 4 + t];
}

__device__ void write(float* out, float total, float weight_factor, float input_factor) { *out = __fmul_rn(total, __fmul_rn(weight_factor, input_factor)); }

// A block has 16 rows and a choice or up to 8 inputs.
__global__ void __launch_bounds__(256, 2) half_product_few(HalfWeights weights, Inputs x, Routes routes, float* out) {
  constexpr int slab_chunks = 32;
  __shared__ __align__(16) float sums[slab_chunks][128];

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, g = lane / 4, t = lane % 4;
  const bool routed = routes.choice != nullptr;
  const int choice = blockIdx.x, first_input = static_cast<int>(blockIdx.x) * few_inputs, inputs = routed ? 1 : x.rows - first_input;
  const int base = routed ? static_cast<int>(routes.choice[2 * choice]) * weights.out_cols : 0;
  if (base < 0) return;  // the whole block
  const int group = base / 8 + static_cast<int>(blockIdx.y) * 2;
  const auto input_row = [&](int n) { return routed ? choice / routes.inputs_shared_by : min(first_input + n, x.rows - 1); };
  const unsigned char* upper = group_at(weights, group, x.parts);
  const unsigned char* lower = group_at(weights, group + 1, x.parts);
  const unsigned char* input = reinterpret_cast<const unsigned char*>(x.values) + static_cast<int64_t>(input_row(g)) * x.parts * 128;

  const int chunks = (x.parts + chunk_parts - 1) / chunk_parts;
  float total = 0;
  for (int slab = 0; slab < chunks; slab += slab_chunks) {
    const int end = min(slab + slab_chunks, chunks);
    for (int chunk = slab + warp; chunk < end; chunk += warps) {
      const int first = chunk * chunk_parts, parts = min(chunk_parts, x.parts - first);
      float sum[4] = {};
#pragma unroll 4
      for (int p = 0; p < parts; ++p) add_part(sum, weight_part(upper, first + p, g, t), weight_part(lower, first + p, g, t), input + (first + p) * 128, t);
      *reinterpret_cast<float4*>(&sums[chunk - slab][lane * 4]) = make_float4(sum[0], sum[1], sum[2], sum[3]);
    }
    __syncthreads();
    if (threadIdx.x < 128) {
      for (int chunk = 0; chunk < end - slab; ++chunk) total = __fadd_rn(total, sums[chunk][threadIdx.x]);
    }
    __syncthreads();
  }
  if (threadIdx.x >= 128) return;
  // This thread's sum is element threadIdx.x % 4 of lane threadIdx.x / 4, which is `lane` of an earlier warp: row and input as the fragment has them.
  const int owner = threadIdx.x / 4, element = threadIdx.x % 4;
  const int row = owner / 4, n = owner % 4 * 2 + element % 2, my_group = group + element / 2, column = my_group * 8 + row - base;
  if (n < inputs && my_group < weights.groups && column >= 0 && column < weights.out_cols) {
    const float factor = row_factor(element / 2 ? lower : upper, row, x.parts);
    write(out + static_cast<int64_t>(routed ? choice : first_input + n) * weights.out_cols + column, total, factor, reinterpret_cast<const float*>(x.factors)[input_row(n)]);
  }
}

// A block has 64 rows and 64 inputs, a warp 16 rows.
__global__ void __launch_bounds__(128) half_product_many(HalfWeights weights, Inputs x, Routes routes, float* out) {
  constexpr int tiles = tile_inputs / 8;
  __shared__ int input_rows[tile_inputs], output_rows[tile_inputs];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  RouteTile tile{0, static_cast<int>(blockIdx.y) * tile_inputs, 0};
  if (routes.tiles != nullptr) {
    if (static_cast<int>(blockIdx.y) >= *routes.tile_count) return;
    tile = routes.tiles[blockIdx.y];
  } else {
    tile.count = min(tile_inputs, x.rows - tile.first);
  }
  if (threadIdx.x < tile_inputs) {
    const int n = min(static_cast<int>(threadIdx.x), tile.count - 1);
    const int choice = routes.tiles != nullptr ? routes.sorted[tile.first + n] : tile.first + n;
    input_rows[threadIdx.x] = choice / routes.inputs_shared_by;
    output_rows[threadIdx.x] = choice;
  }
  __syncthreads();
  const int used_tiles = (tile.count + 7) / 8;
  const int base = tile.expert * weights.out_cols, group = base / 8 + (static_cast<int>(blockIdx.x) * 4 + warp) * 2;
  const unsigned char* upper = group_at(weights, group, x.parts);
  const unsigned char* lower = group_at(weights, group + 1, x.parts);
  const unsigned char* values = reinterpret_cast<const unsigned char*>(x.values);
  unsigned first_part[tiles];  // of this lane's input in each tile
#pragma unroll
  for (int j = 0; j < tiles; ++j) first_part[j] = static_cast<unsigned>(input_rows[j * 8 + g]) * static_cast<unsigned>(x.parts);

  float total[tiles][4] = {};
  for (int first = 0; first < x.parts; first += chunk_parts) {
    const int parts = min(chunk_parts, x.parts - first);
    float sum[tiles][4] = {};
    for (int p = 0; p < parts; ++p) {
      const uint4 a = weight_part(upper, first + p, g, t), b = weight_part(lower, first + p, g, t);
#pragma unroll
      for (int j = 0; j < tiles; ++j) {
        if (j < used_tiles) add_part(sum[j], a, b, values + static_cast<size_t>(first_part[j] + static_cast<unsigned>(first + p)) * 128, t);
      }
    }
#pragma unroll
    for (int j = 0; j < tiles; ++j) {
#pragma unroll
      for (int i = 0; i < 4; ++i) total[j][i] = __fadd_rn(total[j][i], sum[j][i]);
    }
  }
#pragma unroll
  for (int j = 0; j < tiles; ++j) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int n = j * 8 + 2 * t + i % 2, my_group = group + i / 2, column = my_group * 8 + g - base;
      if (n < tile.count && my_group < weights.groups && column >= 0 && column < weights.out_cols) {
        write(out + static_cast<int64_t>(output_rows[n]) * weights.out_cols + column, total[j][i], row_factor(i / 2 ? lower : upper, g, x.parts),
              reinterpret_cast<const float*>(x.factors)[input_rows[n]]);
      }
    }
  }
}

}  // namespace

void launch_half_product(const ProductCall& call) {
  const HalfWeights weights{reinterpret_cast<const unsigned char*>(call.weight), static_cast<int>((call.weight_rows + 7) / 8), static_cast<int>(call.out_cols)};
  const unsigned groups = groups_touched(call);
  if (call.routes.tiles != nullptr || (call.routes.choice == nullptr && call.inputs.rows > few_rows)) {
    launch(half_product_many, dim3((groups + 7) / 8, input_tiles(call)), 128, 0, call.stream, weights, call.inputs, call.routes, call.out);
    return;
  }
  const dim3 grid(few_blocks(call), (groups + 1) / 2);
  const unsigned threads = call.inputs.parts > 4 * chunk_parts ? 256 : 128;
  launch(half_product_few, grid, threads, 0, call.stream, weights, call.inputs, call.routes, call.out);
}

}  // namespace vigil::compute::cuda
