// The operations that a model's forward pass is a plain sequence of. The same sequence runs on every backend; on the CPU each thread of the
// team runs it with its own Ops, an op splits its work by thread index and ends in a barrier. Activations are float at this seam; a backend
// that rounds or quantises them does so privately. An op whose step is aborted does nothing. Every result row depends only on its own
// inputs, never on how many rows a step has, so that chunking and caching cannot change an answer.
#pragma once

#include <cstdint>

#include "engine/compute/tensor.hpp"

namespace vigil::compute {

class Ops {
 public:
  virtual ~Ops() = default;

  // out[rows, table.cols] = the table's row of each id of the step.
  virtual void embed(const Weight& table, Buffer out, int64_t rows) = 0;
  // out[rows, cols] = in / sqrt(mean(in^2) + epsilon) * gain, row by row (Zhang and Sennrich 2019). `out` may be `in`.
  virtual void rms_norm(Buffer in, const Weight& gain, float epsilon, Buffer out, int64_t rows) = 0;
  // out[rows, weight.rows] = in[rows, weight.cols] times the transposed weight.
  virtual void matmul(const Weight& weight, Buffer in, Buffer out, int64_t rows) = 0;
  // out[rows, rotated] = cos and sin of position * frequency in turn, for the step's positions.
  virtual void rope_angles(const Rope& rope, Buffer out, int64_t rows) = 0;
  // Turns q[rows, heads, head_dim] in place and k[rows, kv_heads, head_dim] by the angles (Su et al. 2021), and writes k and v into the
  // cache at each row's position.
  virtual void rope_and_store(const Rope& rope, Buffer angles, Buffer q, Buffer k, Buffer v, const KvCache& cache, int64_t layer,
                              int64_t heads, int64_t rows) = 0;
  // out[rows, heads, head_dim] = softmax(q K^T * scale) V over positions 0 to the row's own; heads / kv_heads query heads share a KV head.
  virtual void attention(Buffer q, const KvCache& cache, int64_t layer, int64_t heads, float scale, Buffer out, int64_t rows) = 0;
  // gate[rows, cols] = gate / (1 + exp(-gate)) * up (Shazeer 2020).
  virtual void swiglu(Buffer gate, Buffer up, int64_t cols, int64_t rows) = 0;
  // into[rows, cols] += from
  virtual void add(Buffer into, Buffer from, int64_t cols, int64_t rows) = 0;
  // out[outputs, cols] = the rows of `in` that the step wants scores for.
  virtual void select_outputs(Buffer in, Buffer out, int64_t cols, int64_t outputs) = 0;
};

}  // namespace vigil::compute
