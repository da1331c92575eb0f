// Products of F32 weights, in single precision: for small matrices that want all of it, such as a router's. One kernel for any number of inputs.
#include "engine/compute/cuda/launch.hpp"
#include "engine/compute/cuda/product_parts.hpp"

namespace vigil::compute::cuda {
namespace {

constexpr int inputs = 4;  // of a block

struct FloatWeights {
  const unsigned char* address;
  int groups, out_cols;
};

// A block has one group of 8 rows, a lane one row and every 4th chunk of those that fall to its warp. blockIdx.x: four inputs, or a choice.
__global__ void __launch_bounds__(256) float_product(FloatWeights weights, Inputs x, Routes routes, float* out) {
  constexpr int slab_chunks = 64, chunk_pieces = chunk_parts * part_columns / 4;
  __shared__ float sums[inputs][slab_chunks][8];

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  const bool routed = routes.choice != nullptr;
  const int first_input = routed ? static_cast<int>(blockIdx.x) / routes.inputs_shared_by : static_cast<int>(blockIdx.x) * inputs;
  const int count = routed ? 1 : min(inputs, x.rows - first_input);
  const int base = routed ? static_cast<int>(routes.choice[2 * blockIdx.x]) * weights.out_cols : 0;
  const int group = base / 8 + blockIdx.y;
  if (base < 0 || group >= weights.groups) return;  // the whole block
  const int pieces = x.parts * part_columns / 4;
  const float4* weight = reinterpret_cast<const float4*>(weights.address + static_cast<size_t>(group) * static_cast<size_t>(pieces) * 128) + lane % 8;
  const float4* input[inputs];
#pragma unroll
  for (int n = 0; n < inputs; ++n) input[n] = reinterpret_cast<const float4*>(x.values) + static_cast<int64_t>(first_input + min(n, count - 1)) * pieces;

  const int chunks = (x.parts + chunk_parts - 1) / chunk_parts;
  const int my_input = threadIdx.x / 8, my_row = threadIdx.x % 8;
  float total = 0;
  for (int slab = 0; slab < chunks; slab += slab_chunks) {
    const int end = min(slab + slab_chunks, chunks);
    for (int chunk = slab + warp * 4 + lane / 8; chunk < end; chunk += warps * 4) {
      float sum[inputs] = {};
      const int last = min((chunk + 1) * chunk_pieces, pieces);
#pragma unroll 4
      for (int piece = chunk * chunk_pieces; piece < last; ++piece) {
        const float4 w = weight[piece * 8];
#pragma unroll
        for (int n = 0; n < inputs; ++n) {
          const float4 value = input[n][piece];
          sum[n] = __fmaf_rn(w.w, value.w, __fmaf_rn(w.z, value.z, __fmaf_rn(w.y, value.y, __fmaf_rn(w.x, value.x, sum[n]))));
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
  if (my_input < count && column >= 0 && column < weights.out_cols) {
    out[static_cast<int64_t>(routed ? static_cast<int>(blockIdx.x) : first_input + my_input) * weights.out_cols + column] = total;
  }
}

}  // namespace

void launch_float_product(const ProductCall& call) {
  const FloatWeights weights{reinterpret_cast<const unsigned char*>(call.weight), static_cast<int>((call.weight_rows + 7) / 8), static_cast<int>(call.out_cols)};
  const bool routed = call.routes.choice != nullptr;
  const unsigned blocks = static_cast<unsigned>(routed ? call.routes.choices : (call.inputs.rows + inputs - 1) / inputs);
  const int chunks = (call.inputs.parts + chunk_parts - 1) / chunk_parts;
  launch(float_product, dim3(blocks, groups_touched(call)), chunks > 8 ? 128 : 64, 0, call.stream, weights, call.inputs, call.routes, call.out);
}

}  // namespace vigil::compute::cuda
