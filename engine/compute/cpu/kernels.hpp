// The arithmetic of the reference backend on plain arrays, free of threads and handles, so that a test can hold it against a formula.
#pragma once

#include <cstdint>

#include "engine/compute/tensor.hpp"

namespace vigil::compute::cpu {

// Sum of a[i] * b[i], added up in an order that depends on n alone.
float dot(const float* a, const float* b, int64_t n);
// out[t * out_stride + r] = dot(weights[r], x[t]) for r < tile_rows, t < rows; weights[r] and x[t] are `cols` apart.
inline constexpr int64_t tile_rows_max = 4;
void dot_tile(const float* weights, int64_t tile_rows, const float* x, int64_t rows, int64_t cols, float* out, int64_t out_stride);
void rms_norm_row(const float* in, const float* gain, float epsilon, int64_t cols, float* out);
void swiglu_row(float* gate, const float* up, int64_t cols);
// `angles` holds cos and sin in turn, one pair per turned pair of values.
void rope_head(RopeKind kind, const float* angles, int64_t rotated, float* head);

// Softmax-weighted sum over KV blocks in ascending order, without ever holding all scores: each block rescales what stands when it
// brings a larger maximum (Milakov and Gimelshein 2018).
class AttentionSum {
 public:
  // `out` [head_dim] is the accumulator.
  AttentionSum(float* out, int64_t head_dim);
  // k, v: [positions, head_dim], 1 <= positions <= kv_block_positions.
  void add_block(const float* q, const float* k, const float* v, int64_t positions, float scale);
  void finish();

 private:
  float* out_;
  int64_t head_dim_;
  float maximum_;
  float sum_ = 0;
};

}  // namespace vigil::compute::cpu
