// The operations that a model's forward pass is a plain sequence of. The same sequence runs on every backend; on the CPU each thread of the
// team runs it with its own Ops, an op splits its work by thread index and ends in a barrier. Activations are float at this seam; a backend
// that rounds or quantises them does so privately. An op whose step is aborted does nothing. Every result row depends only on its own
// inputs, never on how many rows a step has, so that chunking and caching cannot change an answer.
#pragma once

#include <cstdint>

#include "engine/compute/tensor.hpp"

namespace vigil::compute {

// How the two halves of a gated feed-forward part meet (Shazeer 2020), g and u being the gate's and the other half's values:
enum class Gate {
  silu,          // g / (1 + exp(-g)) * u
  gelu,          // g / 2 * (1 + tanh(sqrt(2 / pi) * (g + 0.044715 g^3))) * u (Hendrycks and Gimpel 2016); between -10 and 10 both g and
                 // the function's value are rounded to half precision: the reference looks it up so, and its tokens are ours
  clamped_silu,  // g at most 7, u within -7 and 7; g / (1 + exp(-1.702 g)) * (u + 1) (OpenAI, gpt-oss model card and code)
};

struct AttentionRule {
  float scale = 1;      // of the scores
  int64_t window = 0;   // a position sees itself and the window - 1 before it; 0 = all before it
  Weight sinks;         // [heads], may be absent: a score for each head that takes its part of the softmax and adds nothing (Xiao et al. 2023)
};

inline constexpr int64_t most_picked = 64;  // scores that pick_best finds of a row

enum class ExpertInput { row, choice };  // one input for a row, or one for each of its choices

// Which key head a value head of DeltaNet uses when there are more of the latter.
enum class HeadOrder {
  tiled,    // value head h uses key head h mod key_heads
  grouped,  // value head h uses key head h * key_heads / value_heads
};

// Inputs of a gated DeltaNet layer, for each row: q, k and v after the convolution, and the values that the gates are made from.
struct DeltaInput {
  Buffer qkv;                // [rows, channels]
  Buffer beta, alpha;        // [rows, value_heads]
  Weight decay, decay_bias;  // [value_heads]: -exp(A_log), dt_bias
  HeadOrder order = HeadOrder::tiled;
  float epsilon = 0;         // of the q and k normalisation
};

class Ops {
 public:
  virtual ~Ops() = default;

  // out[rows, table.cols] = the table's row of each id of the step.
  virtual void embed(const Weight& table, Buffer out, int64_t rows) = 0;
  // into[rows, cols] = the row of pictures[any, cols] that the step's sources name, for rows that have one.
  virtual void place_pictures(Buffer pictures, Buffer into, int64_t cols, int64_t rows) = 0;
  // out[rows, cols] = in / sqrt(mean(in^2) + epsilon) * gain, row by row (Zhang and Sennrich 2019). `out` may be `in`.
  virtual void rms_norm(Buffer in, const Weight& gain, float epsilon, Buffer out, int64_t rows) = 0;
  // out[rows, weight.rows] = in[rows, weight.cols] times the transposed weight.
  virtual void matmul(const Weight& weight, Buffer in, Buffer out, int64_t rows) = 0;
  // into[rows, bias.cols] += bias
  virtual void add_bias(Buffer into, const Weight& bias, int64_t rows) = 0;

  // out[rows, rotated] = cos and sin of position * frequency in turn, for the step's positions, times the rope's magnitude. With axes a pair's
  // position is the row's and the step's shift on the pair's axis.
  virtual void rope_angles(const Rope& rope, Buffer out, int64_t rows) = 0;
  // Turns q[rows, heads, head_dim] in place and k[rows, kv_heads, head_dim] by the angles (Su et al. 2021), and writes k and v into the
  // cache at each row's position.
  virtual void rope_and_store(const Rope& rope, Buffer angles, Buffer q, Buffer k, Buffer v, const KvCache& cache, int64_t layer,
                              int64_t heads, int64_t rows) = 0;
  // out[rows, heads, head_dim] = softmax(q K^T * scale) V over positions up to the row's own and those ahead that the step lets it see; heads /
  // kv_heads query heads share a KV head.
  virtual void attention(Buffer q, const KvCache& cache, int64_t layer, int64_t heads, const AttentionRule& rule, Buffer out, int64_t rows) = 0;

  // gate[rows, cols] = the kind's function of gate and up.
  virtual void gate(Gate kind, Buffer gate, Buffer up, int64_t cols, int64_t rows) = 0;
  // into[rows, cols] *= 1 / (1 + exp(-gate)); gate is [rows, gate_cols], one value for each of a row's (gate_cols = cols) or for all (1).
  virtual void sigmoid_gate(Buffer into, Buffer gate, int64_t gate_cols, int64_t cols, int64_t rows) = 0;
  // into[rows, cols] += from
  virtual void add(Buffer into, Buffer from, int64_t cols, int64_t rows) = 0;
  // into[rows, cols] *= factor
  virtual void scale(Buffer into, float factor, int64_t cols, int64_t rows) = 0;
  // joined[count, 2 * cols] into first[count, cols] and second[count, cols]
  virtual void split(Buffer joined, Buffer first, Buffer second, int64_t cols, int64_t count) = 0;

  // choice[rows, used, 2] = the experts with the `used` highest of logits[rows, experts], best first (the lower index where two are equal),
  // and their share of a softmax over the chosen (Shazeer et al. 2017; the same as renormalising a softmax over all).
  virtual void route(Buffer logits, int64_t experts, int64_t used, Buffer choice, int64_t rows) = 0;
  // choice[rows, used, 2]: slots[expert] takes the place of each expert, or -1 - expert where that is below 0.
  virtual void find_slots(Buffer choice, Buffer slots, int64_t used, int64_t rows) = 0;
  // out[rows, used, out_cols] = the input times the transposed matrix of each chosen expert; `experts` holds one of [out_cols, cols] after
  // the other. The input is in[rows, cols] or in[rows, used, cols]. A choice below 0 is none: its part of `out` stays as it is.
  virtual void expert_matmul(const Weight& experts, int64_t out_cols, Buffer choice, int64_t used, ExpertInput kind, Buffer in, Buffer out,
                             int64_t rows) = 0;
  // into[rows, used, bias.cols] += the row of bias[experts, cols] of each choice that is not below 0
  virtual void add_expert_bias(Buffer into, const Weight& bias, Buffer choice, int64_t used, int64_t rows) = 0;
  // out[rows, cols] = the sum of in[rows, used, cols] by the choices' shares
  virtual void sum_experts(Buffer in, Buffer choice, int64_t used, Buffer out, int64_t cols, int64_t rows) = 0;

  // out[rows, channels] = silu of each channel's causal convolution over its last `kernel` inputs (kernels [channels, kernel], the newest
  // input last), continued from the sequence's state, whose inputs it carries on. `out` is not `in`.
  virtual void convolve(const Weight& kernels, const StateCache& states, int64_t layer, Buffer in, Buffer out, int64_t rows) = 0;
  // out[rows, value_heads, value_dim] = the gated delta rule (Yang, Kautz, Hatamizadeh 2024), token by token: with q and k of length 1,
  // decay d = exp(A softplus(alpha + bias)) and rate b = sigmoid(beta):  S = d S;  S += k (b (v - S^T k))^T;  out = S^T q / sqrt(key_dim).
  virtual void delta_net(const DeltaInput& input, const StateCache& states, int64_t layer, Buffer out, int64_t rows) = 0;

  // out[outputs, cols] = the rows of `in` that the step wants scores for.
  virtual void select_outputs(Buffer in, Buffer out, int64_t cols, int64_t outputs) = 0;
  // picked[rows, count, 2] = ids and scores of the `count` highest of scores[rows, cols], best first, the lower id where two are equal; `count` is at most
  // most_picked. NaN and minus infinity are never picked: an id below 0 stands where no other score is left.
  virtual void pick_best(Buffer scores, int64_t cols, int64_t count, Buffer picked, int64_t rows) = 0;
};

}  // namespace vigil::compute
