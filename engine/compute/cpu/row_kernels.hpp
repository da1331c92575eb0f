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

// g / (1 + e^-g) * u
VIGIL_INLINE Floats silu_times(Floats g, Floats u) {
  return multiply(divide(g, add(all(1.0f), exponential(subtract(zero_floats(), g)))), u);
}

void silu_row(float* gate, const float* up, int64_t cols) {
  for (int64_t i = 0; i < cols; i += 16) store_some(gate + i, silu_times(load_some(gate + i, cols - i), load_some(up + i, cols - i)), cols - i);
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
