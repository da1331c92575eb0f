// The arithmetic of the reference backend on plain arrays, free of threads and handles, so that a test can hold it against a formula.
#pragma once

#include <cstddef>
#include <cstdint>

#include <span>

#include "engine/compute/ops.hpp"
#include "engine/compute/tensor.hpp"

namespace vigil::compute::cpu {

// Sum of a[i] * b[i], added up in an order that depends on n alone.
float dot(const float* a, const float* b, int64_t n);
// out[t * out_stride + r] = dot(weights[r], x[t]) for r < tile_rows, t < rows; weights[r] and x[t] are `cols` apart.
inline constexpr int64_t tile_rows_max = 4;
void dot_tile(const float* weights, int64_t tile_rows, const float* x, int64_t rows, int64_t cols, float* out, int64_t out_stride);
void rms_norm_row(const float* in, const float* gain, float epsilon, int64_t cols, float* out);
// The gates of ops.hpp, in place.
void gate_row(Gate kind, float* gate, const float* up, int64_t cols);
float sigmoid(float value);
// `angles` holds cos and sin in turn, one pair per turned pair of values.
void rope_head(RopeKind kind, const float* angles, int64_t rotated, float* head);

// What a KV cache of smaller numbers can hold: larger values are cut, since what a row does not see is multiplied by a weight of 0 and must stay a number. What
// is no number stays none. In a block of 32 the scale of the largest is a half, and a level times it fits into one: 512 of 127 levels, 8128 of 8.
inline constexpr float most_in_half = 65504.0f, most_in_levels = 65024.0f;
inline float cut(float value, float most) { return value > most ? most : value < -most ? -most : value; }

// 32 values as one block of the weight type of the name: for Q8_0 the largest magnitude is level 127, for Q4_0 the value of the largest
// magnitude is level -8. `to` at any alignment, values are cut to most_in_levels.
void quantise_q8_0(const float* values, std::byte* to);
void quantise_q4_0(const float* values, std::byte* to);

// Softmax-weighted sum over KV blocks in ascending order, without ever holding all scores: each block rescales what stands when it
// brings a larger maximum (Milakov and Gimelshein 2018).
class AttentionSum {
 public:
  // `out` [head_dim] is the accumulator.
  AttentionSum(float* out, int64_t head_dim);
  // k, v: [positions, head_dim], 1 <= positions <= kv_block_positions.
  void add_block(const float* q, const float* k, const float* v, int64_t positions, float scale);
  // `sink` is one more score, which has no value: it only takes its part of the softmax. -infinity = none.
  void finish(float sink);

 private:
  float* out_;
  int64_t head_dim_;
  float maximum_;
  float sum_ = 0;
};

// The `used` places with the highest scores, best first, the lower place where two are equal; NaN is below everything. shares[i] = exp(score)
// of place i over the sum of them all.
void best_places(std::span<const float> scores, std::span<int32_t> places, std::span<float> shares);

// One channel's causal convolution over `taps - 1` earlier values, oldest first, and the newest, then silu. `history` holds the
// earlier ones, `stride` apart.
float convolve_silu(const float* history, int64_t stride, int64_t taps, const float* kernel, float newest);

// out = in / sqrt(sum(in^2) + epsilon) * scale
void unit_length(const float* in, float epsilon, float scale, int64_t n, float* out);

// One token of the gated delta rule on state[key_dim, value_dim] (ops.hpp). `scratch` is [value_dim].
struct DeltaGates {
  float decay, rate;
};
void delta_step(float* state, const float* q, const float* k, const float* v, DeltaGates gates, int64_t key_dim, int64_t value_dim,
                float* scratch, float* out);
// exp(a * softplus(alpha)) and sigmoid(beta)
DeltaGates delta_gates(float a, float alpha, float beta);

}  // namespace vigil::compute::cpu
