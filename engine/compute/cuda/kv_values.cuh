// How the values of a KV cache lie on the device. A part (one block, layer and KV head; tensor.hpp) is K and then V of 64 positions; each half
// holds the rows of its positions one after the other: floats or halves, a row padded to a multiple of 16 values; or, quantised, the levels of
// all 64 rows first and then their scales (half, one for 32 values), so that levels can be read 8 at a time at an aligned address.
// Rounding to levels is that of the file types Q8_0 and Q4_0; a Q4_0 byte holds two neighbours, the first in its low half.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "engine/compute/cuda/warp.cuh"
#include "engine/compute/tensor.hpp"

namespace vigil::compute::cuda {

constexpr int scale_values = 32;  // values of a quantised row that share a scale

// One half of a part, K or V.
struct KvArea {
  unsigned char* address;
  int head_dim, head_width;
};

template <KvType type>
__device__ __forceinline__ __half* scales_of(const KvArea& area) {
  const int level_bytes = type == KvType::q8_0 ? area.head_dim : area.head_dim / 2;
  return reinterpret_cast<__half*>(area.address + static_cast<int>(kv_block_positions) * level_bytes);
}

// Values `start` to start + 7 of the row of `position` in a cache of floats; those from head_dim on are 0.
__device__ __forceinline__ void load_eight(const KvArea& area, int position, int start, float (&values)[8]) {
  const float4* from = reinterpret_cast<const float4*>(area.address + (static_cast<size_t>(position) * area.head_width + start) * sizeof(float));
  const float4 low = from[0], high = from[1];
  values[0] = low.x, values[1] = low.y, values[2] = low.z, values[3] = low.w;
  values[4] = high.x, values[5] = high.y, values[6] = high.z, values[7] = high.w;
#pragma unroll
  for (int i = 0; i < 8; ++i) values[i] = start + i < area.head_dim ? values[i] : 0.0f;
}

// The first in the low half, as an operand of a tensor-core product has them.
__device__ __forceinline__ unsigned two_halves(float first, float second) {
  const __half2 both = __floats2half2_rn(first, second);
  return *reinterpret_cast<const unsigned*>(&both);
}

// The same from a cache of any other type, as halves: those of F16 as they are, levels times their scale rounded once. `start` may lie beyond the row.
template <KvType type>
__device__ __forceinline__ uint4 load_eight_halves(const KvArea& area, int position, int start) {
  if (start >= area.head_dim) return make_uint4(0, 0, 0, 0);
  unsigned words[4];
  if constexpr (type == KvType::f16) {
    const uint4 eight = *reinterpret_cast<const uint4*>(area.address + (static_cast<size_t>(position) * area.head_width + start) * sizeof(__half));
    words[0] = eight.x, words[1] = eight.y, words[2] = eight.z, words[3] = eight.w;
    const int left = area.head_dim - start;
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] &= (2 * i < left ? 0xffffu : 0u) | (2 * i + 1 < left ? 0xffff0000u : 0u);
  } else {
    const float scale = __half2float(scales_of<type>(area)[position * (area.head_dim / scale_values) + start / scale_values]);
    if constexpr (type == KvType::q8_0) {
      const uint2 levels = *reinterpret_cast<const uint2*>(area.address + static_cast<size_t>(position) * area.head_dim + start);
      const auto level = [&](int i) { return static_cast<float>(static_cast<int8_t>((i < 4 ? levels.x : levels.y) >> i % 4 * 8 & 255u)); };
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = two_halves(scale * level(2 * i), scale * level(2 * i + 1));
    } else {
      const unsigned levels = *reinterpret_cast<const unsigned*>(area.address + (static_cast<size_t>(position) * area.head_dim + start) / 2);
      const auto level = [&](int i) { return static_cast<float>(static_cast<int>(levels >> i * 4 & 15u) - 8); };
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = two_halves(scale * level(2 * i), scale * level(2 * i + 1));
    }
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

// What a cache of halves can hold without a value, or a level times its scale, becoming infinite: beyond this a value is cut. One that a row does not see is
// multiplied by a weight of 0 and must stay a number. What is no number stays none.
template <KvType type>
__device__ __forceinline__ float storable(float value) {
  constexpr float most = type == KvType::f16 ? 65504.0f : 65024.0f;  // the scale of 65024 is a half: 512 of 127 levels, 8128 of 8
  return value > most ? most : value < -most ? -most : value;
}

// Writes a head's row at `position`: the whole block of threads takes part, whole warps of them.
template <KvType type>
__device__ __forceinline__ void store_row(const KvArea& area, int position, const float* values, int thread, int threads) {
  if constexpr (type == KvType::f32) {
    float* to = reinterpret_cast<float*>(area.address) + static_cast<size_t>(position) * area.head_width;
    for (int i = thread; i < area.head_dim; i += threads) to[i] = values[i];
  } else if constexpr (type == KvType::f16) {
    __half* to = reinterpret_cast<__half*>(area.address) + static_cast<size_t>(position) * area.head_width;
    for (int i = thread; i < area.head_dim; i += threads) to[i] = __float2half_rn(storable<type>(values[i]));
  } else {
    const int groups = area.head_dim / scale_values, lane = thread % warp_threads;
    for (int g = thread / warp_threads; g < groups; g += threads / warp_threads) {
      const float value = storable<type>(values[g * scale_values + lane]);
      const float most = warp_max(fabsf(value));
      unsigned char* levels = area.address;
      float scale;
      if constexpr (type == KvType::q8_0) {
        scale = most / 127.0f;
        const float level = fminf(fmaxf(rintf(value * (most > 0 ? 127.0f / most : 0.0f)), -127.0f), 127.0f);
        levels[static_cast<size_t>(position) * area.head_dim + g * scale_values + lane] =
            static_cast<unsigned char>(value == value ? static_cast<int8_t>(level) : int8_t{0});
      } else {
        const unsigned holders = __ballot_sync(whole_warp, fabsf(value) == most);  // of the largest magnitude; the first one's sign counts
        const int first = holders == 0 ? 0 : __popc((holders & (0u - holders)) - 1);
        const float signed_most = __shfl_sync(whole_warp, most == 0 ? 0.0f : value, first);
        scale = signed_most / -8.0f;
        const float level = fminf(fmaxf(rintf(value * (most > 0 ? -8.0f / signed_most : 0.0f)) + 8.0f, 0.0f), 15.0f);
        const unsigned code = value == value ? static_cast<unsigned>(level) : 8u;
        const unsigned next = __shfl_down_sync(whole_warp, code, 1);
        if (lane % 2 == 0) levels[(static_cast<size_t>(position) * area.head_dim + g * scale_values + lane) / 2] = static_cast<unsigned char>(code | next << 4);
      }
      if (lane == 0) scales_of<type>(area)[position * groups + g] = __float2half_rn(scale);
    }
  }
}

// Where a cache's parts are, for kernels.
struct KvPlace {
  unsigned char* address;
  int64_t part_bytes;
  int layers, kv_heads, layer, head_dim, head_width;
};

inline KvPlace place_of(const KvCache& cache, int64_t layer) {
  const KvShape& shape = cache.shape;
  return {reinterpret_cast<unsigned char*>(cache.address), static_cast<int64_t>(shape.part_bytes()),     static_cast<int>(shape.layers),
          static_cast<int>(shape.kv_heads),                static_cast<int>(layer),                      static_cast<int>(shape.head_dim),
          static_cast<int>(shape.head_width())};
}

enum class KvHalf { keys, values };

__device__ __forceinline__ KvArea area_of(const KvPlace& place, int64_t block, int head, KvHalf half) {
  unsigned char* part = place.address + ((block * place.layers + place.layer) * place.kv_heads + head) * place.part_bytes;
  return {part + (half == KvHalf::values ? place.part_bytes / 2 : 0), place.head_dim, place.head_width};
}

}  // namespace vigil::compute::cuda
