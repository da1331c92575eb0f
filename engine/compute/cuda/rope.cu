// Rope: angles of the step's positions, turning of q and k, and the rows of k and v that go into the cache.
#include "engine/compute/cuda/kv_values.cuh"
#include "engine/compute/cuda/launch.hpp"
#include "engine/compute/cuda/op_kernels.hpp"

namespace vigil::compute::cuda {
namespace {

constexpr int angle_threads = 64;
constexpr int head_threads = 64;  // whole warps: quantised rows are stored by warps

// In double: a float angle is off by 1e-3 at position 30,000.
__global__ void rope_angles_kernel(StepView step, const double* frequencies, const uint8_t* axes, double magnitude, float* out, int pairs) {
  const int row = blockIdx.x;
  for (int i = threadIdx.x; i < pairs; i += angle_threads) {
    int64_t position = step.positions[row];
    if (axes != nullptr) position += step.shifts[axes[i]][row];
    const double angle = static_cast<double>(position) * frequencies[i];
    float* to = out + (static_cast<size_t>(row) * pairs + i) * 2;
    to[0] = static_cast<float>(cos(angle) * magnitude);
    to[1] = static_cast<float>(sin(angle) * magnitude);
  }
}

__device__ __forceinline__ void turn_head(RopeKind kind, const float* angles, int pairs, float* head, int thread) {
  const int first_step = kind == RopeKind::adjacent ? 2 : 1, second_offset = kind == RopeKind::adjacent ? 1 : pairs;
  for (int i = thread; i < pairs; i += head_threads) {
    float* first = head + i * first_step;
    const float cosine = angles[2 * i], sine = angles[2 * i + 1], a = first[0], b = first[second_offset];
    first[0] = a * cosine - b * sine;
    first[second_offset] = a * sine + b * cosine;
  }
}

// Block (row, head): the query heads first, then the KV heads, whose rows are stored too.
template <KvType type>
__global__ void __launch_bounds__(head_threads) rope_and_store_kernel(StepView step, RopeKind kind, const float* angles, int pairs, float* q, float* k,
                                                                      const float* v, KvPlace place, int heads) {
  const int row = blockIdx.x, any_head = blockIdx.y, thread = threadIdx.x, dim = place.head_dim;
  const float* turn = angles + static_cast<size_t>(row) * pairs * 2;
  if (any_head < heads) {
    turn_head(kind, turn, pairs, q + (static_cast<size_t>(row) * heads + any_head) * dim, thread);
    return;
  }
  const int head = any_head - heads, position = step.positions[row], within = position % static_cast<int>(kv_block_positions);
  float* key = k + (static_cast<size_t>(row) * place.kv_heads + head) * dim;
  turn_head(kind, turn, pairs, key, thread);
  __syncthreads();
  const int64_t block = step.blocks[static_cast<int64_t>(step.sequences[row]) * step.blocks_per_sequence + position / static_cast<int>(kv_block_positions)];
  store_row<type>(area_of(place, block, head, KvHalf::keys), within, key, thread, head_threads);
  store_row<type>(area_of(place, block, head, KvHalf::values), within, v + (static_cast<size_t>(row) * place.kv_heads + head) * dim, thread, head_threads);
}

template <KvType type>
void rope_and_store_as(cudaStream_t stream, const StepView& step, const Rope& rope, const float* angles, float* q, float* k, const float* v,
                       const KvPlace& place, int64_t heads, int64_t rows) {
  launch(rope_and_store_kernel<type>, dim3(static_cast<unsigned>(rows), static_cast<unsigned>(heads + place.kv_heads)), dim3(head_threads), 0, stream, step,
         rope.kind, angles, static_cast<int>(rope.rotated / 2), q, k, v, place, static_cast<int>(heads));
}

}  // namespace

void rope_angles(cudaStream_t stream, const StepView& step, const Rope& rope, float* out, int64_t rows) {
  if (rope.rotated == 0) return;
  launch(rope_angles_kernel, dim3(static_cast<unsigned>(rows)), dim3(angle_threads), 0, stream, step, rope.frequencies, rope.axes, rope.magnitude, out,
         static_cast<int>(rope.rotated / 2));
}

void rope_and_store(cudaStream_t stream, const StepView& step, const Rope& rope, const float* angles, float* q, float* k, const float* v,
                    const KvCache& cache, int64_t layer, int64_t heads, int64_t rows) {
  const KvPlace place = place_of(cache, layer);
  switch (cache.shape.type) {
    case KvType::f16: return rope_and_store_as<KvType::f16>(stream, step, rope, angles, q, k, v, place, heads, rows);
    case KvType::f32: return rope_and_store_as<KvType::f32>(stream, step, rope, angles, q, k, v, place, heads, rows);
    case KvType::q8_0: return rope_and_store_as<KvType::q8_0>(stream, step, rope, angles, q, k, v, place, heads, rows);
    case KvType::q4_0: return rope_and_store_as<KvType::q4_0>(stream, step, rope, angles, q, k, v, place, heads, rows);
  }
}

}  // namespace vigil::compute::cuda
