// Rows looked up from an arranged table, each value as the file's format defines it.
#include <cassert>

#include "engine/compute/cuda/formats.cuh"
#include "engine/compute/cuda/launch.hpp"
#include "engine/compute/cuda/products.hpp"

namespace vigil::compute::cuda {
namespace {

struct Table {
  const unsigned char* address;
  size_t group_bytes;
  int cols, parts;
};

__device__ const unsigned char* group_of(const Table& table, int id) { return table.address + static_cast<size_t>(id / 8) * table.group_bytes; }

// A block a row, a thread a part.
template <TensorType type>
__global__ void __launch_bounds__(128) embed_quantised(Table table, const int32_t* ids, float* out) {
  using Kind = Format<type>;
  const int id = ids[blockIdx.x];
  const RowPlace place{group_of(table, id), id % 8, table.parts};
  out += static_cast<int64_t>(blockIdx.x) * table.cols;
  for (int part = threadIdx.x; part < table.parts; part += 128) {
    const typename Kind::Scales scales = Kind::scales(place, part / chunk_parts);
    const float scale = Kind::scale(scales, part % chunk_parts), offset = Kind::offset(scales, part % chunk_parts);
    unsigned word[8];
    Kind::words(Kind::codes(place, part), word);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      float of_word = scale;
      if constexpr (Kind::two_scales) of_word = k < 4 ? scale : Kind::second_scale(scales, part % chunk_parts);
      float value[4];
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        const int code = static_cast<signed char>(word[k] >> (8 * b) & 255u);
        value[b] = __fmul_rn(of_word, static_cast<float>(code));
        if constexpr (Kind::has_offsets) value[b] = __fsub_rn(value[b], offset);
      }
      *reinterpret_cast<float4*>(out + part * part_columns + k * 4) = make_float4(value[0], value[1], value[2], value[3]);
    }
  }
}

__global__ void __launch_bounds__(128) embed_halves(Table table, const int32_t* ids, float* out) {
  const int id = ids[blockIdx.x];
  const unsigned char* group = group_of(table, id);
  const float factor = reinterpret_cast<const float*>(group + static_cast<size_t>(table.parts) * 512)[id % 8];
  for (int i = threadIdx.x; i < table.cols; i += 128) {
    const __half value = reinterpret_cast<const __half*>(group + (i / part_columns * 8 + id % 8) * 64)[i % part_columns];
    out[static_cast<int64_t>(blockIdx.x) * table.cols + i] = __fmul_rn(__half2float(value), factor);
  }
}

__global__ void __launch_bounds__(128) embed_floats(Table table, const int32_t* ids, float* out) {
  const int id = ids[blockIdx.x];
  const unsigned char* group = group_of(table, id);
  for (int i = threadIdx.x; i < table.cols; i += 128) {
    out[static_cast<int64_t>(blockIdx.x) * table.cols + i] = reinterpret_cast<const float*>(group + (i / 4 * 8 + id % 8) * 16)[i % 4];
  }
}

}  // namespace

void embed(cudaStream_t stream, const Matrix& table, const int32_t* ids, float* out, int64_t rows) {
  if (rows == 0) return;
  const Table from{reinterpret_cast<const unsigned char*>(table.address), arranged_bytes(table.type, group_rows, table.cols), static_cast<int>(table.cols),
                   static_cast<int>((table.cols + part_columns - 1) / part_columns)};
  const auto run = [&](void (*kernel)(Table, const int32_t*, float*)) { launch(kernel, static_cast<unsigned>(rows), 128, 0, stream, from, ids, out); };
  switch (table.type) {
    case TensorType::f32: return run(embed_floats);
    case TensorType::f16: case TensorType::bf16: return run(embed_halves);
    case TensorType::q4_0: return run(embed_quantised<TensorType::q4_0>);
    case TensorType::q8_0: return run(embed_quantised<TensorType::q8_0>);
    case TensorType::q4_k: return run(embed_quantised<TensorType::q4_k>);
    case TensorType::q5_k: return run(embed_quantised<TensorType::q5_k>);
    case TensorType::q6_k: return run(embed_quantised<TensorType::q6_k>);
    case TensorType::iq4_xs: return run(embed_quantised<TensorType::iq4_xs>);
    case TensorType::iq3_xxs: return run(embed_quantised<TensorType::iq3_xxs>);
    case TensorType::mxfp4: return run(embed_quantised<TensorType::mxfp4>);
    default: assert(false && "has_product_kernel() says which types there are");
  }
}

}  // namespace vigil::compute::cuda
