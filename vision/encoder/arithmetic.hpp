// The arithmetic of encoders in float, over a team of threads. A picture is thousands of rows, so products of matrices are what counts:
// 32 rows of weights at a time become floats side by side, and every input row runs over them. Not here: the order of the steps.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/compute/cpu/worker_team.hpp"
#include "vision/encoder/config.hpp"
#include "vision/encoder/weights.hpp"

namespace vigil::vision {

// Neighbouring rows that see each other and nobody else: [first, end).
struct Segment {
  int64_t first = 0, end = 0;
};

struct Heads {
  int64_t count = 0, width = 0;
};

class Arithmetic {
 public:
  explicit Arithmetic(int threads) : team_(threads) {}
  int threads() const { return team_.size(); }

  // work(i, thread) for i < count, each once, spread over the threads.
  void each(int64_t count, const std::function<void(int64_t, int)>& work);
  // out[rows, weight.rows] = in[rows, weight.cols] times the transposed weight, plus the bias.
  void linear(const Linear& by, const float* in, int64_t rows, float* out);
  // out[rows, width] = (in - mean) / sqrt(variance + epsilon) * gain + shift (Ba, Kiros, Hinton 2016). `out` may be `in`.
  void layer_norm(const Norm& norm, double epsilon, const float* in, int64_t rows, float* out);
  // out = in / sqrt(mean(in^2) + epsilon) * gain (Zhang and Sennrich 2019). `out` may be `in`.
  void rms_norm(const Norm& norm, double epsilon, const float* in, int64_t rows, float* out);
  // values[count] in place; for silu times `up` [count].
  void activate(Activation kind, float* values, const float* up, int64_t count);
  void add(float* into, const float* from, int64_t count);
  // out[rows, heads, width] = softmax(q k^T / sqrt(width)) v over the rows of each segment. q, k and v are [rows, heads, width], each row
  // `stride` floats behind the last. Segments cover all rows, one behind the other.
  void attention(const float* q, const float* k, const float* v, int64_t stride, std::span<const Segment> segments, Heads heads, float* out);

 private:
  compute::cpu::WorkerTeam team_;
};

// ---- the kernel, for tests: out[rows, lanes] = in[rows, cols] times a panel [cols][panel_lanes], of which the first `lanes` count.
inline constexpr int64_t panel_lanes = 32;
void multiply_panel(const float* panel, int64_t cols, const float* in, int64_t in_stride, int64_t rows, float* out, int64_t out_stride, int64_t lanes);

// scores[count] become exp(scale * score) over their sum; at least one, all finite.
void softmax(float* scores, int64_t count, float scale);

// Both round x and the value to half precision between -10 and 10: the reference looks them up so (docs/engine.md), and so do our text models.
float gelu(float x);
float quick_gelu(float x);

}  // namespace vigil::vision
