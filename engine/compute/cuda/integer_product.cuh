// The product kernels of every quantised type: signed bytes against signed bytes, exact within a part of 32 columns, then floats. Two kernels with one
// chain of roundings: sums over the parts of a chunk in ascending order, then over the chunks.
#pragma once

#include "engine/compute/cuda/async_copy.cuh"
#include "engine/compute/cuda/formats.cuh"
#include "engine/compute/cuda/launch.hpp"
#include "engine/compute/cuda/matrix_units.cuh"
#include "engine/compute/cuda/product_parts.hpp"

namespace vigil::compute::cuda {

// The weights as kernels see them.
struct GroupedWeights {
  const unsigned char* address;
  size_t group_bytes;
  int groups;    // in all
  int out_cols;  // of one expert, or of all
};

// What a part adds: `codes` is the dot product of the codes, the rest the weight's scale and offset, the input's scale and what its codes sum up to.
template <TensorType type>
__device__ __forceinline__ void add_part(float& sum, float codes, float scale, float offset, float input_scale, float input_sum) {
  sum = __fmaf_rn(__fmul_rn(scale, input_scale), codes, sum);
  if constexpr (Format<type>::has_offsets) sum = __fmaf_rn(-offset, input_sum, sum);
}

__device__ __forceinline__ int dot_of_four(const unsigned* word, unsigned x0, unsigned x1, unsigned x2, unsigned x3) {
  int dot = __dp4a(static_cast<int>(word[0]), static_cast<int>(x0), 0);
  dot = __dp4a(static_cast<int>(word[1]), static_cast<int>(x1), dot);
  dot = __dp4a(static_cast<int>(word[2]), static_cast<int>(x2), dot);
  return __dp4a(static_cast<int>(word[3]), static_cast<int>(x3), dot);
}

// Adds a part of one weight row times up to `inputs` input rows to their sums.
template <TensorType type, int inputs>
__device__ __forceinline__ void add_part_of_inputs(float (&sum)[inputs], const typename Format<type>::Codes& codes, const typename Format<type>::Scales& scales,
                                                   int part_in_chunk, int part, const Inputs& x, const int (&input_row)[inputs]) {
  using Kind = Format<type>;
  unsigned word[8];
  Kind::words(codes, word);
  const float scale = Kind::scale(scales, part_in_chunk), offset = Kind::offset(scales, part_in_chunk);
#pragma unroll
  for (int n = 0; n < inputs; ++n) {
    const uint4* at = reinterpret_cast<const uint4*>(x.values) + (static_cast<int64_t>(input_row[n]) * x.parts + part) * 2;
    const uint4 first = at[0], second = at[1];  // words 0 4 1 5, 2 6 3 7
    const float2 factor = reinterpret_cast<const float2*>(x.factors)[static_cast<int64_t>(part) * x.rows + input_row[n]];
    const int low = dot_of_four(word, first.x, first.z, second.x, second.z), high = dot_of_four(word + 4, first.y, first.w, second.y, second.w);
    if constexpr (Kind::two_scales) {
      add_part<type>(sum[n], __int2float_rn(low), scale, 0, factor.x, factor.y);
      add_part<type>(sum[n], __int2float_rn(high), Kind::second_scale(scales, part_in_chunk), 0, factor.x, factor.y);
    } else {
      add_part<type>(sum[n], __int2float_rn(low + high), scale, offset, factor.x, factor.y);
    }
  }
}

// Blocks of a processor that registers must do for; 0 = the compiler's own choice, which on 12.0 is so many that it spills a few bytes in these.
constexpr int few_threads = 256;
template <TensorType type, int inputs>
constexpr int few_blocks_of_a_processor() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1200
  if (inputs == 2 && (type == TensorType::q4_0 || type == TensorType::q6_k || type == TensorType::iq4_xs)) return 3;
  if (type == TensorType::iq3_xxs && inputs == 8) return 2;
#endif
  return 0;
}

// Few inputs: a block has one group of 8 weight rows and a choice or `inputs` inputs (blocks of the same weights are neighbours: one reads them from the
// cache), a lane one row and every 4th chunk of those that fall to its warp. Codes of several parts are
// asked for before the first is used, so that many loads are under way.
template <TensorType type, int inputs>
__global__ void __launch_bounds__(few_threads, few_blocks_of_a_processor<type, inputs>()) integer_product_few(GroupedWeights weights, Inputs x, Routes routes, float* out) {
  using Kind = Format<type>;
  constexpr int slab_chunks = 64;
  constexpr int ahead = inputs > 4 ? 2 : 4;  // many inputs take the registers
  __shared__ float sums[inputs][slab_chunks][8];

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const int choice = blockIdx.x, first_input = blockIdx.x * inputs;  // the one or the other
  const int base = routes.choice != nullptr ? static_cast<int>(routes.choice[2 * choice]) * weights.out_cols : 0;
  const int group = base / 8 + blockIdx.y;
  if (base < 0 || group >= weights.groups) return;  // the whole block
  int input_row[inputs];
#pragma unroll
  for (int n = 0; n < inputs; ++n) input_row[n] = routes.choice != nullptr ? choice / routes.inputs_shared_by : min(first_input + n, x.rows - 1);

  const RowPlace place{weights.address + static_cast<size_t>(group) * weights.group_bytes, lane % 8, x.parts};
  const int chunks = (x.parts + chunk_parts - 1) / chunk_parts;
  const int my_input = threadIdx.x / 8, my_row = threadIdx.x % 8;
  float total = 0;
  for (int slab = 0; slab < chunks; slab += slab_chunks) {
    const int end = min(slab + slab_chunks, chunks);
    for (int chunk = slab + warp * 4 + lane / 8; chunk < end; chunk += warps * 4) {
      const typename Kind::Scales scales = Kind::scales(place, chunk);
      float sum[inputs] = {};
#pragma unroll(inputs > 4 ? 1 : 2)
      for (int start = 0; start < chunk_parts; start += ahead) {
        const int first = chunk * chunk_parts + start, count = min(x.parts - first, ahead);
        typename Kind::Codes codes[ahead] = {};
#pragma unroll
        for (int p = 0; p < ahead; ++p) {
          if (p < count) codes[p] = Kind::codes(place, first + p);
        }
#pragma unroll
        for (int p = 0; p < ahead; ++p) {
          if (p < count) add_part_of_inputs<type, inputs>(sum, codes[p], scales, start + p, first + p, x, input_row);
        }
      }
#pragma unroll
      for (int n = 0; n < inputs; ++n) sums[n][chunk - slab][lane % 8] = sum[n];
    }
    __syncthreads();
    if (my_input < inputs) {
      for (int chunk = 0; chunk < end - slab; ++chunk) total = __fadd_rn(total, sums[my_input][chunk][my_row]);
    }
    __syncthreads();
  }
  const int column = group * 8 + my_row - base;
  const int written = routes.choice != nullptr ? 1 : x.rows - first_input;
  if (my_input < min(inputs, written) && column >= 0 && column < weights.out_cols) {
    out[static_cast<int64_t>(routes.choice != nullptr ? choice : first_input + my_input) * weights.out_cols + column] = total;
  }
}

// A sum of products that starts from this many ends as the bits of a float near 1.5 * 2^23, whose distance from it is the sum: no conversion is needed.
// |sum| is at most 32 * 127 * 128 < 2^22.
constexpr int float_bits_of_zero_sum = 0x4b400000;
__device__ __forceinline__ float float_of_sum(int sum) { return __fsub_rn(__int_as_float(sum), 12582912.0f); }

// Inputs of one chunk in shared memory.
struct InputTile {
  static constexpr int pitch = 256 + 32;  // bytes of an input, so that four neighbours' words lie in different banks
  unsigned char values[tile_inputs * pitch];
  float2 factors[chunk_parts][tile_inputs];
};

__device__ __forceinline__ void copy_inputs(InputTile& to, const Inputs& x, const int* rows, int count, int chunk) {
  const int parts = min(chunk_parts, x.parts - chunk * chunk_parts);
  for (int i = threadIdx.x; i < count * 16; i += blockDim.x) {
    const int n = i / 16, piece = i % 16;
    if (piece >= parts * 2) continue;
    const uint4* from = reinterpret_cast<const uint4*>(x.values) + (static_cast<int64_t>(rows[n]) * x.parts + chunk * chunk_parts) * 2 + piece;
    copy_async<16>(to.values + n * InputTile::pitch + piece * 16, from);
  }
  for (int i = threadIdx.x; i < parts * tile_inputs; i += blockDim.x) {
    const int p = i / tile_inputs, n = i % tile_inputs;
    if (n < count) copy_async<8>(&to.factors[p][n], reinterpret_cast<const float2*>(x.factors) + static_cast<int64_t>(chunk * chunk_parts + p) * x.rows + rows[n]);
  }
}

// Adds a part of 16 weight rows times all inputs of the tile. `upper` and `lower` hold the codes of row g and g + 8.
template <TensorType type>
__device__ __forceinline__ void add_part_of_tile(float (&sum)[tile_inputs / 8][4], const InputTile& inputs, int used_tiles, int part_in_chunk, int g, int t,
                                                 const typename Format<type>::Fragment& upper, const typename Format<type>::Fragment& lower,
                                                 const typename Format<type>::Scales& upper_scales, const typename Format<type>::Scales& lower_scales) {
  using Kind = Format<type>;
  unsigned a[4];
  Kind::pair(upper, t, a[0], a[2]);
  Kind::pair(lower, t, a[1], a[3]);
  const float scale[2] = {Kind::scale(upper_scales, part_in_chunk), Kind::scale(lower_scales, part_in_chunk)};
  const float offset[2] = {Kind::offset(upper_scales, part_in_chunk), Kind::offset(lower_scales, part_in_chunk)};
#pragma unroll
  for (int j = 0; j < tile_inputs / 8; ++j) {
    if (j >= used_tiles) break;  // the same for all lanes
    const uint2 words = *reinterpret_cast<const uint2*>(inputs.values + (j * 8 + g) * InputTile::pitch + part_in_chunk * 32 + t * 8);
    const float4 factor = *reinterpret_cast<const float4*>(&inputs.factors[part_in_chunk][j * 8 + 2 * t]);  // of two inputs
    int dot[4] = {float_bits_of_zero_sum, float_bits_of_zero_sum, float_bits_of_zero_sum, float_bits_of_zero_sum};
    if constexpr (Kind::two_scales) {
      const float second[2] = {Kind::second_scale(upper_scales, part_in_chunk), Kind::second_scale(lower_scales, part_in_chunk)};
      const unsigned first_half[2] = {a[0], a[1]}, second_half[2] = {a[2], a[3]};
      int rest[4] = {float_bits_of_zero_sum, float_bits_of_zero_sum, float_bits_of_zero_sum, float_bits_of_zero_sum};
      multiply_bytes(dot, first_half, words.x);
      multiply_bytes(rest, second_half, words.y);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        add_part<type>(sum[j][i], float_of_sum(dot[i]), scale[i / 2], 0, i % 2 ? factor.z : factor.x, 0);
        add_part<type>(sum[j][i], float_of_sum(rest[i]), second[i / 2], 0, i % 2 ? factor.z : factor.x, 0);
      }
    } else {
      const unsigned b[2] = {words.x, words.y};
      multiply_bytes(dot, a, b);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        add_part<type>(sum[j][i], float_of_sum(dot[i]), scale[i / 2], offset[i / 2], i % 2 ? factor.z : factor.x, i % 2 ? factor.w : factor.y);
      }
    }
  }
}

// Many inputs: a block has 64 weight rows and 64 inputs, a warp 16 rows. Inputs of a chunk lie in shared memory, those of the next are on their way
// there; weights go from the device's memory straight into operands, each lane's words being what it holds of them.
template <TensorType type>
__global__ void __launch_bounds__(128) integer_product_many(GroupedWeights weights, Inputs x, Routes routes, float* out) {
  using Kind = Format<type>;
  constexpr int tiles = tile_inputs / 8, ahead = 4;
  __shared__ __align__(16) InputTile inputs[2];
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
  const int used_tiles = (tile.count + 7) / 8;

  const int base = tile.expert * weights.out_cols;
  const int group = base / 8 + (static_cast<int>(blockIdx.x) * 4 + warp) * 2;
  const auto place_of = [&](int which) {
    return RowPlace{weights.address + static_cast<size_t>(min(which, weights.groups - 1)) * weights.group_bytes, g, x.parts};
  };
  const RowPlace upper = place_of(group), lower = place_of(group + 1);

  float total[tiles][4] = {};
  const int chunks = (x.parts + chunk_parts - 1) / chunk_parts;
  __syncthreads();  // the rows are known
  copy_inputs(inputs[0], x, input_rows, used_tiles * 8, 0);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    wait_for_copies();
    __syncthreads();  // this chunk's inputs are all there, and nobody reads the last chunk's any more
    if (chunk + 1 < chunks) copy_inputs(inputs[(chunk + 1) % 2], x, input_rows, used_tiles * 8, chunk + 1);

    const typename Kind::Scales upper_scales = Kind::scales(upper, chunk), lower_scales = Kind::scales(lower, chunk);
    float sum[tiles][4] = {};
#pragma unroll 1
    for (int start = 0; start < chunk_parts; start += ahead) {
      const int first = chunk * chunk_parts + start, count = min(x.parts - first, ahead);
      typename Kind::Fragment upper_codes[ahead] = {}, lower_codes[ahead] = {};
#pragma unroll
      for (int p = 0; p < ahead; ++p) {
        if (p < count) upper_codes[p] = Kind::fragment(upper, first + p, t), lower_codes[p] = Kind::fragment(lower, first + p, t);
      }
#pragma unroll
      for (int p = 0; p < ahead; ++p) {
        if (p < count) add_part_of_tile<type>(sum, inputs[chunk % 2], used_tiles, start + p, g, t, upper_codes[p], lower_codes[p], upper_scales, lower_scales);
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
      const int n = j * 8 + 2 * t + i % 2, column = (group + i / 2) * 8 + g - base;
      if (n < tile.count && column >= 0 && column < weights.out_cols && group + i / 2 < weights.groups) {
        out[static_cast<int64_t>(output_rows[n]) * weights.out_cols + column] = total[j][i];
      }
    }
  }
}

template <TensorType type>
void launch_integer_product(const ProductCall& call) {
  const GroupedWeights weights{reinterpret_cast<const unsigned char*>(call.weight), GroupLayout(streams_of(type), static_cast<size_t>(call.inputs.parts)).bytes,
                               static_cast<int>((call.weight_rows + 7) / 8), static_cast<int>(call.out_cols)};
  const unsigned groups = groups_touched(call);
  if (call.routes.tiles != nullptr || (call.routes.choice == nullptr && call.inputs.rows > few_rows)) {
    launch(integer_product_many<type>, dim3((groups + 7) / 8, input_tiles(call)), 128, 0, call.stream, weights, call.inputs, call.routes, call.out);
    return;
  }
  const int chunks = (call.inputs.parts + chunk_parts - 1) / chunk_parts;
  const unsigned threads = 32 * static_cast<unsigned>(chunks <= 8 ? 2 : chunks >= 32 ? 8 : (chunks + 3) / 4);
  const dim3 grid(few_blocks(call), groups);
  const int inputs = call.routes.choice != nullptr ? 1 : call.inputs.rows;
  if (inputs == 1) launch(integer_product_few<type, 1>, grid, threads, 0, call.stream, weights, call.inputs, call.routes, call.out);
  else if (inputs == 2) launch(integer_product_few<type, 2>, grid, threads, 0, call.stream, weights, call.inputs, call.routes, call.out);
  else if (inputs <= 4) launch(integer_product_few<type, 4>, grid, threads, 0, call.stream, weights, call.inputs, call.routes, call.out);
  else launch(integer_product_few<type, 8>, grid, threads, 0, call.stream, weights, call.inputs, call.routes, call.out);
}

}  // namespace vigil::compute::cuda
