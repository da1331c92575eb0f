// Gated DeltaNet: the causal convolution, all rows at once, and the delta rule, row by row. A step reads one slot of a sequence's state and writes
// another, so rows of any number may run side by side.
#include "engine/compute/cuda/launch.hpp"
#include "engine/compute/cuda/op_kernels.hpp"
#include "engine/compute/cuda/warp.cuh"

namespace vigil::compute::cuda {
namespace {

constexpr int channel_threads = 128;

// A layer's place in every slot.
struct StatePlace {
  float* address;
  int64_t slot_floats, layer_offset;
};

StatePlace place_of(const StateCache& states, int64_t layer) {
  const int64_t layer_floats = states.shape.layer_floats();
  return {states.address, states.shape.layers * layer_floats, layer * layer_floats};
}

__device__ __forceinline__ float* slot_at(const StatePlace& place, int slot) { return place.address + slot * place.slot_floats + place.layer_offset; }

// The input of a channel `back` rows before `row`, `available` of which are the step's own; the others are in the state, oldest first.
__device__ __forceinline__ float earlier_input(const float* in, const float* before, int64_t row, int back, int available, int history, int64_t channels,
                                               int64_t c) {
  if (back <= available) return in[(row - back) * channels + c];
  return before == nullptr ? 0.0f : before[(history - (back - available)) * channels + c];
}

__global__ void __launch_bounds__(channel_threads)
    convolve_kernel(StepView step, const float* kernels, StatePlace place, const float* in, float* out, int taps, int64_t channels, int rows) {
  const int64_t c = static_cast<int64_t>(blockIdx.x) * channel_threads + threadIdx.x;
  const int row = blockIdx.y, history = taps - 1, sequence = step.sequences[row];
  if (c >= channels) return;
  int available = 0;  // rows of the sequence that the step has before this one, as many as are looked at
  while (available < history && row - available > 0 && step.sequences[row - available - 1] == sequence) ++available;
  const int from = step.states[2 * sequence];
  const float* before = from < 0 ? nullptr : slot_at(place, from);
  float sum = 0;
  for (int t = 0; t < taps; ++t) sum = fmaf(earlier_input(in, before, row, history - t, available, history, channels, c), kernels[c * taps + t], sum);
  out[row * channels + c] = sum / (1.0f + expf(-sum));
  if (row + 1 < rows && step.sequences[row + 1] == sequence) return;
  float* after = slot_at(place, step.states[2 * sequence + 1]);  // the sequence's last row leaves what the next step starts from
  for (int i = 0; i < history; ++i) after[i * channels + c] = earlier_input(in, before, row, history - 1 - i, available, history, channels, c);
}

// The delta rule. A block has 32 columns of one head's state in its registers, a warp a slice of each column's rows.
constexpr int slices = 4;
constexpr int rule_threads = slices * warp_threads;

struct DeltaShape {
  int key_heads, heads, key_dim, value_dim;
  int64_t channels, convolution_floats;
};

__device__ __forceinline__ void unit_length(const float* in, int count, float epsilon, float factor, float* out, int lane) {
  float sum = 0;
  for (int i = lane; i < count; i += warp_threads) sum = fmaf(in[i], in[i], sum);
  const float by = factor / sqrtf(warp_sum(sum) + epsilon);
  for (int i = lane; i < count; i += warp_threads) out[i] = in[i] * by;
}

// Rows [first, last] of the step that belong to `sequence`; an absent one has last < first. All threads get the same.
__device__ __forceinline__ void find_rows(const int32_t* sequences, int sequence, int rows, int* firsts, int* lasts, int& first, int& last) {
  int low = rows, high = -1;
  for (int r = threadIdx.x; r < rows; r += rule_threads) {
    if (sequences[r] != sequence) continue;
    low = min(low, r);
    high = r;
  }
  firsts[threadIdx.x] = low;
  lasts[threadIdx.x] = high;
  __syncthreads();
  first = rows;
  last = -1;
  for (int t = 0; t < rule_threads; ++t) {
    first = min(first, firsts[t]);
    last = max(last, lasts[t]);
  }
}

template <int slice_rows>  // most rows of the state that a thread holds
__global__ void __launch_bounds__(rule_threads, 4)
    delta_net_kernel(StepView step, DeltaPointers input, HeadOrder order, float epsilon, StatePlace place, DeltaShape shape, float* out, int rows) {
  __shared__ float q[slices * slice_rows], k[slices * slice_rows], v[warp_threads], gates[2];
  __shared__ float held_parts[slices][warp_threads], out_parts[slices][warp_threads];
  __shared__ int firsts[rule_threads], lasts[rule_threads];
  const int lane = threadIdx.x % warp_threads, slice = threadIdx.x / warp_threads;
  const int head = blockIdx.x, column = blockIdx.y * warp_threads + lane, sequence = blockIdx.z;
  int first, last;
  find_rows(step.sequences, sequence, rows, firsts, lasts, first, last);
  if (last < first) return;
  const int key_head = order == HeadOrder::tiled ? head % shape.key_heads : head * shape.key_heads / shape.heads;
  const bool own = column < shape.value_dim;
  const int64_t state_offset = shape.convolution_floats + static_cast<int64_t>(head) * shape.key_dim * shape.value_dim + column;
  const int start = slice * slice_rows, end = min(start + slice_rows, shape.key_dim);
  const int from = step.states[2 * sequence];
  const float* before = from < 0 ? nullptr : slot_at(place, from) + state_offset;
  float state[slice_rows];
#pragma unroll
  for (int i = 0; i < slice_rows; ++i) state[i] = own && before != nullptr && start + i < end ? before[static_cast<int64_t>(start + i) * shape.value_dim] : 0.0f;

  for (int row = first; row <= last; ++row) {
    const float* values = input.qkv + row * shape.channels;
    const int64_t keys = static_cast<int64_t>(shape.key_heads) * shape.key_dim;
    if (slice == 0) unit_length(values + key_head * shape.key_dim, shape.key_dim, epsilon, 1.0f / sqrtf(static_cast<float>(shape.key_dim)), q, lane);
    if (slice == 1) unit_length(values + keys + key_head * shape.key_dim, shape.key_dim, epsilon, 1.0f, k, lane);
    if (slice == 2) v[lane] = own ? values[2 * keys + static_cast<int64_t>(head) * shape.value_dim + column] : 0.0f;
    if (slice == 3 && lane == 0) {
      const int64_t gate = static_cast<int64_t>(row) * shape.heads + head;
      const float alpha = input.alpha[gate] + input.decay_bias[head];
      gates[0] = expf(input.decay[head] * (alpha > 20.0f ? alpha : log1pf(expf(alpha))));  // softplus; above 20 both are the same float
      gates[1] = 1.0f / (1.0f + expf(-input.beta[gate]));
    }
    __syncthreads();
    float held = 0;
#pragma unroll
    for (int i = 0; i < slice_rows; ++i) {
      if (start + i >= end) continue;
      state[i] *= gates[0];
      held = fmaf(state[i], k[start + i], held);
    }
    held_parts[slice][lane] = held;
    __syncthreads();
    held = 0;
#pragma unroll
    for (int s = 0; s < slices; ++s) held += held_parts[s][lane];
    const float change = (v[lane] - held) * gates[1];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < slice_rows; ++i) {
      if (start + i >= end) continue;
      state[i] = fmaf(k[start + i], change, state[i]);
      sum = fmaf(state[i], q[start + i], sum);
    }
    out_parts[slice][lane] = sum;
    __syncthreads();  // also: nobody needs this row's q, k and v any more
    if (slice != 0 || !own) continue;
    sum = 0;
#pragma unroll
    for (int s = 0; s < slices; ++s) sum += out_parts[s][lane];
    out[(static_cast<int64_t>(row) * shape.heads + head) * shape.value_dim + column] = sum;
  }
  if (!own) return;
  float* after = slot_at(place, step.states[2 * sequence + 1]) + state_offset;
#pragma unroll
  for (int i = 0; i < slice_rows; ++i) {
    if (start + i < end) after[static_cast<int64_t>(start + i) * shape.value_dim] = state[i];
  }
}

}  // namespace

void convolve(cudaStream_t stream, const StepView& step, const float* kernels, const StateCache& states, int64_t layer, const float* in, float* out,
              int64_t rows) {
  const int64_t channels = states.shape.channels();
  launch(convolve_kernel, dim3(static_cast<unsigned>((channels + channel_threads - 1) / channel_threads), static_cast<unsigned>(rows)), dim3(channel_threads),
         0, stream, step, kernels, place_of(states, layer), in, out, static_cast<int>(states.shape.kernel), channels, static_cast<int>(rows));
}

void delta_net(cudaStream_t stream, const StepView& step, const DeltaPointers& input, HeadOrder order, float epsilon, const StateCache& states,
               int64_t layer, float* out, int64_t rows) {
  const StateShape& shape = states.shape;
  const DeltaShape sizes{static_cast<int>(shape.key_heads), static_cast<int>(shape.value_heads), static_cast<int>(shape.key_dim),
                         static_cast<int>(shape.value_dim), shape.channels(),                    shape.convolution_floats()};
  const dim3 grid(static_cast<unsigned>(shape.value_heads), static_cast<unsigned>((shape.value_dim + warp_threads - 1) / warp_threads),
                  static_cast<unsigned>(step.sequence_count));
  const StatePlace place = place_of(states, layer);
  const auto run = [&](auto kernel) { launch(kernel, grid, dim3(rule_threads), 0, stream, step, input, order, epsilon, place, sizes, out, static_cast<int>(rows)); };
  if (shape.key_dim <= slices * 16) run(delta_net_kernel<16>);
  else if (shape.key_dim <= slices * 32) run(delta_net_kernel<32>);
  else run(delta_net_kernel<64>);
}

}  // namespace vigil::compute::cuda
