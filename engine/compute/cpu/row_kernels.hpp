// What the fast backend does with single rows: rounding, norms, gates, the delta rule. Included by the kernel files alone.
#pragma once

#include "engine/compute/cpu/fast_kernels.hpp"
#include "engine/compute/cpu/simd.hpp"

namespace vigil::compute::cpu::VIGIL_ISA {

// The nearest of 255 levels, the largest magnitude being 127. Blocks of zeros have scale 0.
void quantise_row(const float* in, int64_t cols, const QuantisedRow& out) {
  for (int64_t b = 0; b < cols / 32; ++b) {
    const Floats low = load(in + 32 * b), high = load(in + 32 * b + 16);
    const float most = largest_of(larger(absolute(low), absolute(high)));
    const Floats inverse = all(most > 0 ? 127.0f / most : 0.0f);
    store_low_bytes(out.codes + 32 * b, to_nearest(multiply(low, inverse)));
    store_low_bytes(out.codes + 32 * b + 16, to_nearest(multiply(high, inverse)));
    int32_t halves[2] = {};
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 0; i < 16; ++i) halves[h] += out.codes[32 * b + 16 * h + i];
      out.negative_halves[2 * b + h] = -halves[h];
    }
    const float scale = most / 127.0f;
    out.scales[b] = scale;
    out.sums[b] = scale * static_cast<float>(halves[0] + halves[1]);
    out.negative_sums[b] = -(halves[0] + halves[1]);
  }
}

void rms_norm_row(const float* in, const float* gain, float epsilon, int64_t cols, float* out) {
  Floats squares = zero_floats();
  for (int64_t i = 0; i < cols; i += 16) {
    const Floats values = load_some(in + i, cols - i);
    squares = fma(values, values, squares);
  }
  const float mean = sum_of(squares) / static_cast<float>(cols);
  const Floats scale = all(1.0f / __builtin_sqrtf(mean + epsilon));
  for (int64_t i = 0; i < cols; i += 16) {
    const Floats values = load_some(in + i, cols - i);
    store_some(out + i, multiply(multiply(values, scale), load_some(gain + i, cols - i)), cols - i);
  }
}

// 1 / (1 + e^-x)
VIGIL_INLINE Floats logistic(Floats x) { return divide(all(1.0f), add(all(1.0f), exponential(subtract(zero_floats(), x)))); }

VIGIL_INLINE Floats rounded_to_half(Floats x) {
  uint16_t halves[16];
  store_halves(halves, x);
  return load_halves(halves);
}

// The gates of ops.hpp.
template <Gate kind>
VIGIL_INLINE Floats gated(Floats g, Floats u) {
  if constexpr (kind == Gate::silu) {
    return multiply(divide(g, add(all(1.0f), exponential(subtract(zero_floats(), g)))), u);
  } else if constexpr (kind == Gate::gelu) {
    const Floats h = rounded_to_half(g);
    const Floats inner = multiply(all(0.797884560802865f), fma(multiply(multiply(h, h), h), all(0.044715f), h));
    // 1 + tanh(x) = 2 / (1 + e^-2x)
    const Floats bent = rounded_to_half(multiply(h, logistic(add(inner, inner))));
    return multiply(where_below(absolute(g), all(10.0f), bent, larger(zero_floats(), g)), u);
  } else {
    const Floats low = smaller(all(7.0f), g), near = larger(all(-7.0f), smaller(all(7.0f), u));
    return multiply(multiply(low, logistic(multiply(all(1.702f), low))), add(near, all(1.0f)));
  }
}

template <Gate kind>
void gate_values(float* gate, const float* up, int64_t cols) {
  for (int64_t i = 0; i < cols; i += 16) store_some(gate + i, gated<kind>(load_some(gate + i, cols - i), load_some(up + i, cols - i)), cols - i);
}

void gate_row(Gate kind, float* gate, const float* up, int64_t cols) {
  switch (kind) {
    case Gate::silu: return gate_values<Gate::silu>(gate, up, cols);
    case Gate::gelu: return gate_values<Gate::gelu>(gate, up, cols);
    case Gate::clamped_silu: return gate_values<Gate::clamped_silu>(gate, up, cols);
  }
}

// Up to 16 channels side by side; each value needs the `taps - 1` inputs before it, the first of them from `before`.
void convolve_channels(const Convolution& work, int64_t rows, const float* before, float* after, const float* in, float* out) {
  const int64_t history = work.taps - 1;
  const auto input = [&](int64_t row) {  // from -history on
    if (row >= 0) return load_some(in + row * work.channels, work.lanes);
    return before != nullptr ? load_some(before + (history + row) * work.channels, work.lanes) : zero_floats();
  };
  for (int64_t r = 0; r < rows; ++r) {
    Floats sum = zero_floats();
    for (int64_t t = 0; t < work.taps; ++t) sum = fma(input(r - history + t), load(work.kernel + 16 * t), sum);
    store_some(out + r * work.channels, gated<Gate::silu>(sum, all(1.0f)), work.lanes);
  }
  Floats kept[max_taps];  // `after` may not be written before all of `before` is read
  for (int64_t i = 0; i < history; ++i) kept[i] = input(rows - history + i);
  for (int64_t i = 0; i < history; ++i) store_some(after + i * work.channels, kept[i], work.lanes);
}

void add_row(float* into, const float* from, int64_t cols) {
  for (int64_t i = 0; i < cols; i += 16) store_some(into + i, add(load_some(into + i, cols - i), load_some(from + i, cols - i)), cols - i);
}

// As the reference's (kernels.hpp), lanes being values: the state is walked twice, each column's sum in the order of the keys.
void delta_step(float* state, const float* q, const float* k, const float* v, DeltaGates gates, int64_t key_dim, int64_t value_dim,
                float* scratch, float* out) {
  (void)scratch;
  const Floats decay = all(gates.decay), rate = all(gates.rate);
  for (int64_t j = 0; j < value_dim; j += 16) {
    const int64_t lanes = value_dim - j;
    Floats remembered = zero_floats();
    for (int64_t i = 0; i < key_dim; ++i) {
      float* row = state + i * value_dim + j;
      const Floats decayed = multiply(load_some(row, lanes), decay);
      store_some(row, decayed, lanes);
      remembered = fma(decayed, all(k[i]), remembered);
    }
    const Floats change = multiply(subtract(load_some(v + j, lanes), remembered), rate);
    Floats answer = zero_floats();
    for (int64_t i = 0; i < key_dim; ++i) {
      float* row = state + i * value_dim + j;
      const Floats written = fma(all(k[i]), change, load_some(row, lanes));
      store_some(row, written, lanes);
      answer = fma(written, all(q[i]), answer);
    }
    store_some(out + j, answer, lanes);
  }
}

}  // namespace vigil::compute::cpu::VIGIL_ISA
