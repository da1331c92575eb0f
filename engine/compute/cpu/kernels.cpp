// Plain loops in the shape that the compiler vectorises. Sums run over 16 fixed lanes at every width of vector register, so a build for
// wider registers gives the same bits as long as contraction is off.
#include "engine/compute/cpu/kernels.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/compute/cpu/half.hpp"

namespace vigil::compute::cpu {
namespace {

constexpr int64_t lane_count = 16;
typedef float Lanes __attribute__((vector_size(lane_count * sizeof(float)), aligned(4)));

float lane_sum(const Lanes& lanes) {
  float left[lane_count];
  std::memcpy(left, &lanes, sizeof left);
  for (int64_t width = lane_count / 2; width > 0; width /= 2) {
    for (int64_t i = 0; i < width; ++i) left[i] += left[i + width];
  }
  return left[0];
}

// `count` (a constant) dots at once: each value of x is loaded once for all of them.
template <int64_t count>
void dots(const float* weights, const float* x, int64_t cols, float* out) {
  Lanes sums[count] = {};
  int64_t i = 0;
  for (; i + lane_count <= cols; i += lane_count) {
    Lanes value;
    std::memcpy(&value, x + i, sizeof value);
    for (int64_t r = 0; r < count; ++r) {
      Lanes weight;
      std::memcpy(&weight, weights + r * cols + i, sizeof weight);
      sums[r] += weight * value;
    }
  }
  for (int64_t r = 0; r < count; ++r) {
    float tail = 0;
    for (int64_t j = i; j < cols; ++j) tail += weights[r * cols + j] * x[j];
    out[r] = lane_sum(sums[r]) + tail;
  }
}

}  // namespace

float dot(const float* a, const float* b, int64_t n) {
  float sum;
  dots<1>(a, b, n, &sum);
  return sum;
}

void dot_tile(const float* weights, int64_t tile_rows, const float* x, int64_t rows, int64_t cols, float* out, int64_t out_stride) {
  for (int64_t t = 0; t < rows; ++t) {
    float* to = out + t * out_stride;
    if (tile_rows == tile_rows_max) {
      dots<tile_rows_max>(weights, x + t * cols, cols, to);
    } else {
      for (int64_t r = 0; r < tile_rows; ++r) to[r] = dot(weights + r * cols, x + t * cols, cols);
    }
  }
}

void rms_norm_row(const float* in, const float* gain, float epsilon, int64_t cols, float* out) {
  const float mean = dot(in, in, cols) / static_cast<float>(cols);
  const float scale = 1.0f / std::sqrt(mean + epsilon);
  for (int64_t i = 0; i < cols; ++i) out[i] = in[i] * scale * gain[i];
}

float sigmoid(float value) { return 1.0f / (1.0f + std::exp(-value)); }

void gate_row(Gate kind, float* gate, const float* up, int64_t cols) {
  switch (kind) {
    case Gate::silu:
      for (int64_t i = 0; i < cols; ++i) gate[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
      return;
    case Gate::gelu: {
      constexpr float root_of_two_over_pi = 0.797884560802865f, cubic = 0.044715f;
      const auto as_half = [](float value) { return half_to_float(float_to_half(value)); };
      for (int64_t i = 0; i < cols; ++i) {
        const float g = as_half(gate[i]);
        const float bent = 0.5f * g * (1.0f + std::tanh(root_of_two_over_pi * (g + cubic * g * g * g)));
        gate[i] = (std::abs(gate[i]) < 10.0f ? as_half(bent) : std::max(gate[i], 0.0f)) * up[i];
      }
      return;
    }
    case Gate::clamped_silu: {
      constexpr float limit = 7.0f, slope = 1.702f;
      for (int64_t i = 0; i < cols; ++i) {
        const float g = std::min(gate[i], limit), u = std::clamp(up[i], -limit, limit);
        gate[i] = g * sigmoid(slope * g) * (u + 1.0f);
      }
      return;
    }
  }
}

void rope_head(RopeKind kind, const float* angles, int64_t rotated, float* head) {
  const int64_t pairs = rotated / 2;
  const int64_t first_step = kind == RopeKind::adjacent ? 2 : 1;
  const int64_t second_offset = kind == RopeKind::adjacent ? 1 : pairs;
  for (int64_t i = 0; i < pairs; ++i) {
    float& first = head[i * first_step];
    float& second = head[i * first_step + second_offset];
    const float cosine = angles[2 * i], sine = angles[2 * i + 1];
    const float turned = first * cosine - second * sine;
    second = first * sine + second * cosine;
    first = turned;
  }
}

namespace {

using Block = std::array<float, 32>;

Block cut_block(const float* values) {
  Block all;
  for (size_t i = 0; i < all.size(); ++i) all[i] = cut(values[i], most_in_levels);
  return all;
}

}  // namespace

void quantise_q8_0(const float* from, std::byte* to) {
  const Block values = cut_block(from);
  float most = 0;
  for (int64_t i = 0; i < 32; ++i) most = std::max(most, std::abs(values[static_cast<size_t>(i)]));
  const uint16_t scale = float_to_half(most / 127.0f);
  const float inverse = most > 0 ? 127.0f / most : 0.0f;
  std::memcpy(to, &scale, sizeof scale);
  for (int64_t i = 0; i < 32; ++i) {
    const float level = std::clamp(std::nearbyint(values[static_cast<size_t>(i)] * inverse), -127.0f, 127.0f);
    to[2 + i] = static_cast<std::byte>(std::isnan(level) ? 0 : static_cast<int8_t>(level));
  }
}

void quantise_q4_0(const float* from, std::byte* to) {
  const Block values = cut_block(from);
  float most = 0;  // with its sign
  for (int64_t i = 0; i < 32; ++i) most = std::abs(values[static_cast<size_t>(i)]) > std::abs(most) ? values[static_cast<size_t>(i)] : most;
  const uint16_t scale = float_to_half(most / -8.0f);
  const float inverse = most != 0 ? -8.0f / most : 0.0f;
  std::memcpy(to, &scale, sizeof scale);
  const auto code = [&](float value) {
    const float level = std::clamp(std::nearbyint(value * inverse) + 8.0f, 0.0f, 15.0f);
    return std::isnan(level) ? uint32_t{8} : static_cast<uint32_t>(level);
  };
  for (int64_t i = 0; i < 16; ++i) to[2 + i] = static_cast<std::byte>(code(values[static_cast<size_t>(i)]) | code(values[static_cast<size_t>(i + 16)]) << 4);
}

AttentionSum::AttentionSum(float* out, int64_t head_dim)
    : out_(out), head_dim_(head_dim), maximum_(-std::numeric_limits<float>::infinity()) {
  std::fill(out, out + head_dim, 0.0f);
}

void AttentionSum::add_block(const float* q, const float* k, const float* v, int64_t positions, float scale) {
  float weights[kv_block_positions];
  float maximum = maximum_;
  for (int64_t p = 0; p < positions; ++p) {
    weights[p] = dot(q, k + p * head_dim_, head_dim_) * scale;
    maximum = std::max(maximum, weights[p]);
  }
  if (maximum > maximum_) {
    const float shrink = std::exp(maximum_ - maximum);  // 0 for the first block
    sum_ *= shrink;
    for (int64_t i = 0; i < head_dim_; ++i) out_[i] *= shrink;
    maximum_ = maximum;
  }
  for (int64_t p = 0; p < positions; ++p) {
    const float weight = std::exp(weights[p] - maximum_);
    sum_ += weight;
    const float* value = v + p * head_dim_;
    for (int64_t i = 0; i < head_dim_; ++i) out_[i] += weight * value[i];
  }
}

void AttentionSum::finish(float sink) {
  const float maximum = std::max(maximum_, sink);
  const float shrink = std::exp(maximum_ - maximum);  // 1 without a sink
  const float scale = shrink / (sum_ * shrink + std::exp(sink - maximum));
  for (int64_t i = 0; i < head_dim_; ++i) out_[i] *= scale;
}

void best_places(std::span<const float> scores, std::span<int32_t> places, std::span<float> shares) {
  const auto score_of = [&](int32_t place) {
    const float score = scores[static_cast<size_t>(place)];
    return std::isnan(score) ? -std::numeric_limits<float>::infinity() : score;
  };
  size_t count = 0;  // of places filled, kept in order
  for (size_t i = 0; i < scores.size(); ++i) {
    const int32_t place = static_cast<int32_t>(i);
    size_t at = count;
    while (at > 0 && score_of(places[at - 1]) < score_of(place)) --at;
    if (at == places.size()) continue;
    count = std::min(count + 1, places.size());
    for (size_t j = count - 1; j > at; --j) places[j] = places[j - 1];
    places[at] = place;
  }
  const float best = score_of(places[0]);
  float sum = 0;
  for (size_t i = 0; i < places.size(); ++i) sum += shares[i] = std::exp(score_of(places[i]) - best);
  for (float& share : shares) share /= sum;
}

float convolve_silu(const float* history, int64_t stride, int64_t taps, const float* kernel, float newest) {
  float sum = 0;
  for (int64_t i = 0; i + 1 < taps; ++i) sum += history[i * stride] * kernel[i];
  sum += newest * kernel[taps - 1];
  return sum / (1.0f + std::exp(-sum));
}

void unit_length(const float* in, float epsilon, float scale, int64_t n, float* out) {
  const float factor = scale / std::sqrt(dot(in, in, n) + epsilon);
  for (int64_t i = 0; i < n; ++i) out[i] = in[i] * factor;
}

DeltaGates delta_gates(float a, float alpha, float beta) {
  const float softplus = alpha > 20.0f ? alpha : std::log1p(std::exp(alpha));  // above 20 they are the same float
  return {std::exp(a * softplus), sigmoid(beta)};
}

void delta_step(float* state, const float* q, const float* k, const float* v, DeltaGates gates, int64_t key_dim, int64_t value_dim,
                float* scratch, float* out) {
  std::fill_n(scratch, value_dim, 0.0f);
  for (int64_t i = 0; i < key_dim; ++i) {
    float* row = state + i * value_dim;
    for (int64_t j = 0; j < value_dim; ++j) {
      row[j] *= gates.decay;
      scratch[j] += row[j] * k[i];
    }
  }
  for (int64_t j = 0; j < value_dim; ++j) scratch[j] = (v[j] - scratch[j]) * gates.rate;
  std::fill_n(out, value_dim, 0.0f);
  for (int64_t i = 0; i < key_dim; ++i) {
    float* row = state + i * value_dim;
    for (int64_t j = 0; j < value_dim; ++j) {
      row[j] += k[i] * scratch[j];
      out[j] += row[j] * q[i];
    }
  }
}

}  // namespace vigil::compute::cpu
