// The ops (engine/compute/ops.hpp has their meaning) as launches on a stream, products aside (products.hpp). Every pointer is the device's;
// buffers are float and row-major in the shapes that ops.hpp states; a launch returns at once and reports nothing: errors show at the
// stream. A result row is the same to the bit whatever other rows a step has.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "engine/compute/cuda/step_view.hpp"
#include "engine/compute/ops.hpp"
#include "engine/compute/tensor.hpp"

namespace vigil::compute::cuda {

// rms_norm.cu. `out` may be `in`.
void rms_norm(cudaStream_t stream, const float* in, const float* gain, float epsilon, float* out, int64_t cols, int64_t rows);

// elementwise.cu
void add_bias(cudaStream_t stream, float* into, const float* bias, int64_t cols, int64_t rows);
void gate(cudaStream_t stream, Gate kind, float* gate, const float* up, int64_t count);
void sigmoid_gate(cudaStream_t stream, float* into, const float* gate, int64_t gate_cols, int64_t cols, int64_t rows);
void add(cudaStream_t stream, float* into, const float* from, int64_t count);
void scale(cudaStream_t stream, float* into, float factor, int64_t count);
void split(cudaStream_t stream, const float* joined, float* first, float* second, int64_t cols, int64_t count);

// rows.cu
void place_pictures(cudaStream_t stream, const StepView& step, const float* pictures, float* into, int64_t cols, int64_t rows);
void select_outputs(cudaStream_t stream, const StepView& step, const float* in, float* out, int64_t cols, int64_t outputs);

// pick_best.cu. `scratch`: pick_scratch_bytes(cols, rows).
size_t pick_scratch_bytes(int64_t cols, int64_t rows);
void pick_best(cudaStream_t stream, const float* scores, int64_t cols, int64_t count, std::byte* scratch, float* picked, int64_t rows);

// rope.cu. The rope's frequencies and axes are the device's.
void rope_angles(cudaStream_t stream, const StepView& step, const Rope& rope, float* out, int64_t rows);
void rope_and_store(cudaStream_t stream, const StepView& step, const Rope& rope, const float* angles, float* q, float* k, const float* v,
                    const KvCache& cache, int64_t layer, int64_t heads, int64_t rows);

// attention.cu. `sinks` may be null. `partials` [partial_floats] holds what blocks give until it is merged; a step of few rows whose partials
// do not fit runs in parts, or in the form for many rows, with the same bits.
inline constexpr int64_t attention_most_head_dim = 512;
inline constexpr int64_t attention_few_rows = 16;  // up to here rows' KV blocks are shared out
int64_t attention_partial_floats(int64_t rows, int64_t heads, int64_t head_dim, int64_t blocks_per_sequence);
void attention(cudaStream_t stream, const StepView& step, const float* q, const KvCache& cache, int64_t layer, int64_t heads, float score_scale,
               int64_t window, const float* sinks, float* partials, int64_t partial_floats, float* out, int64_t rows);

// experts.cu. choice[rows, used, 2] = expert, share.
void route(cudaStream_t stream, const float* logits, int64_t experts, int64_t used, float* choice, int64_t rows);
void find_slots(cudaStream_t stream, float* choice, const float* slots, int64_t used, int64_t rows);
void add_expert_bias(cudaStream_t stream, float* into, const float* bias, int64_t cols, const float* choice, int64_t used, int64_t rows);
void sum_experts(cudaStream_t stream, const float* in, const float* choice, int64_t used, float* out, int64_t cols, int64_t rows);

// delta.cu
inline constexpr int64_t delta_most_key_dim = 256;
void convolve(cudaStream_t stream, const StepView& step, const float* kernels, const StateCache& states, int64_t layer, const float* in, float* out,
              int64_t rows);
struct DeltaPointers {
  const float* qkv;
  const float* beta;
  const float* alpha;
  const float* decay;
  const float* decay_bias;
};
void delta_net(cudaStream_t stream, const StepView& step, const DeltaPointers& input, HeadOrder order, float epsilon, const StateCache& states,
               int64_t layer, float* out, int64_t rows);

}  // namespace vigil::compute::cuda
