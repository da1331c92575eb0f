// Kernels that bring the input rows of a product into the form that a weight type wants (product_parts.hpp).
#include <cuda_fp16.h>

#include "engine/compute/cuda/launch.hpp"
#include "engine/compute/cuda/product_parts.hpp"
#include "engine/compute/cuda/row_power.cuh"

namespace vigil::compute::cuda {
namespace {

constexpr unsigned whole_warp = 0xffffffffu;

__device__ int rounded(float value, float inverse) { return __float2int_rn(__fmul_rn(value, inverse)); }

// Eight lanes a part, four columns a lane.
__global__ void __launch_bounds__(256) round_to_bytes(const float* in, unsigned* codes, float2* factors, int rows, int parts) {
  const int64_t flat = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 8;
  const int word = threadIdx.x % 8;
  const bool inside = flat < static_cast<int64_t>(rows) * parts;  // all lanes take part in the shuffles
  float4 value = make_float4(0, 0, 0, 0);
  if (inside) value = reinterpret_cast<const float4*>(in)[flat * 8 + word];
  float largest = fmaxf(fmaxf(magnitude(value.x), magnitude(value.y)), fmaxf(magnitude(value.z), magnitude(value.w)));
#pragma unroll
  for (int lanes = 1; lanes < 8; lanes *= 2) largest = fmaxf(largest, __shfl_xor_sync(whole_warp, largest, lanes));
  unsigned packed = 0;
  // Below, the inverse overflows; such a part is nothing. An infinite part keeps its scale and has no codes.
  if (largest > 1e-30f && largest <= 3.402823466e38f) {
    const float inverse = __fdiv_rn(127.0f, largest);
    packed = (rounded(value.x, inverse) & 255) | (rounded(value.y, inverse) & 255) << 8 | (rounded(value.z, inverse) & 255) << 16 |
             static_cast<unsigned>(rounded(value.w, inverse) & 255) << 24;
  }
  int sum = __dp4a(static_cast<int>(packed), 0x01010101, 0);
#pragma unroll
  for (int lanes = 1; lanes < 8; lanes *= 2) sum += __shfl_xor_sync(whole_warp, sum, lanes);
  if (!inside) return;
  codes[flat * 8 + (word < 4 ? 2 * word : 2 * word - 7)] = packed;
  const int64_t row = flat / parts, part = flat % parts;
  if (word == 0) {
    const float scale = largest > 1e-30f ? __fdiv_rn(largest, 127.0f) : 0.0f;
    factors[part * rows + row] = make_float2(scale, __fmul_rn(scale, static_cast<float>(sum)));
  }
}

// A block a row.
__global__ void __launch_bounds__(256) split_into_halves(const float* in, unsigned char* values, float* factors, int cols, int parts) {
  __shared__ float of_warp[8];
  const int64_t row = blockIdx.x;
  in += row * cols;
  float largest = 0;
  for (int i = threadIdx.x; i < cols; i += 256) largest = fmaxf(largest, magnitude(in[i]));
#pragma unroll
  for (int lanes = 1; lanes < 32; lanes *= 2) largest = fmaxf(largest, __shfl_xor_sync(whole_warp, largest, lanes));
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = largest;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 8; ++i) largest = fmaxf(largest, of_warp[i]);
  const RowPower by = row_power(largest);
  for (int i = threadIdx.x; i < parts * part_columns; i += 256) {
    const float value = i < cols && by.finite ? __fmul_rn(in[i], by.inverse) : 0.0f;
    const __half first = __float2half_rn(value), rest = __float2half_rn(__fsub_rn(value, __half2float(first)));
    __half* part = reinterpret_cast<__half*>(values + (row * parts + i / part_columns) * 128);
    part[i % part_columns] = first;
    part[i % part_columns + part_columns] = rest;
  }
  if (threadIdx.x == 0) factors[row] = by.factor;
}

__global__ void __launch_bounds__(256) fill_up_floats(const float* in, float* values, int cols, int padded) {
  const int64_t row = blockIdx.x;
  for (int i = threadIdx.x; i < padded; i += 256) values[row * padded + i] = i < cols ? in[row * cols + i] : 0.0f;
}

}  // namespace

void prepare_input(cudaStream_t stream, InputForm form, const float* in, int64_t rows, int64_t cols, std::byte* scratch) {
  if (rows == 0) return;
  const Inputs to = inputs_in(scratch, form, rows, cols);
  std::byte* values = scratch;
  std::byte* factors = scratch + (to.factors - to.values);
  const unsigned blocks = static_cast<unsigned>(rows);
  switch (form) {
    case InputForm::bytes: {
      const int64_t threads = rows * to.parts * 8;
      launch(round_to_bytes, dim3(static_cast<unsigned>((threads + 255) / 256)), 256, 0, stream, in, reinterpret_cast<unsigned*>(values),
             reinterpret_cast<float2*>(factors), to.rows, to.parts);
      return;
    }
    case InputForm::halves:
      launch(split_into_halves, blocks, 256, 0, stream, in, reinterpret_cast<unsigned char*>(values), reinterpret_cast<float*>(factors), static_cast<int>(cols),
             to.parts);
      return;
    case InputForm::floats:
      launch(fill_up_floats, blocks, 256, 0, stream, in, reinterpret_cast<float*>(values), static_cast<int>(cols), to.parts * part_columns);
      return;
  }
}

}  // namespace vigil::compute::cuda
