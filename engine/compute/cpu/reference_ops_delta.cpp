// Gated DeltaNet: the convolution is split by channels, the delta rule by value heads; both walk a sequence's rows in order.
#include <cassert>
#include <cmath>

#include "engine/compute/cpu/reference_ops.hpp"

namespace vigil::compute::cpu {

void ReferenceOps::convolve(const Weight& kernels, const StateCache& states, int64_t layer, Buffer in, Buffer out, int64_t rows) {
  const int64_t channels = kernels.rows, taps = kernels.cols, history = taps - 1;
  assert(channels == states.shape.channels() && taps == states.shape.kernel);
  assert(in.floats >= rows * channels && out.floats >= rows * channels);
  share(channels, 1, [&](int64_t begin, int64_t stop) {
    float* window = scratch(taps + history + 1);
    float* kernel_floats = window + history + 1;
    for (int64_t c = begin; c < stop; ++c) {
      const float* kernel = row_as_floats(kernels, c, kernel_floats);
      each_sequence(states, layer, rows, [&](int64_t first, int64_t end, const float* before, float* after) {
        for (int64_t i = 0; i < history; ++i) window[i] = before != nullptr ? before[i * channels + c] : 0.0f;
        for (int64_t r = first; r < end; ++r) {
          const float newest = in.address[r * channels + c];
          out.address[r * channels + c] = convolve_silu(window, 1, taps, kernel, newest);
          window[history] = newest;
          std::copy_n(window + 1, history, window);
        }
        for (int64_t i = 0; i < history; ++i) after[i * channels + c] = window[i];
      });
    }
  });
}

void ReferenceOps::delta_net(const DeltaInput& input, const StateCache& states, int64_t layer, Buffer out, int64_t rows) {
  const StateShape& shape = states.shape;
  const int64_t key_dim = shape.key_dim, value_dim = shape.value_dim, heads = shape.value_heads, keys = shape.key_heads * key_dim;
  assert(input.qkv.floats >= rows * shape.channels() && out.floats >= rows * heads * value_dim);
  assert(input.alpha.floats >= rows * heads && input.beta.floats >= rows * heads);
  const float query_scale = 1.0f / std::sqrt(static_cast<float>(key_dim));
  share(heads, 1, [&](int64_t begin, int64_t stop) {
    float* q = scratch(2 * key_dim + value_dim + 2 * heads);
    float* k = q + key_dim;
    float* spare = k + key_dim;
    for (int64_t h = begin; h < stop; ++h) {
      const float decay = row_as_floats(input.decay, 0, spare + value_dim)[h];
      const float bias = row_as_floats(input.decay_bias, 0, spare + value_dim + heads)[h];
      const int64_t key_head = input.order == HeadOrder::tiled ? h % shape.key_heads : h * shape.key_heads / heads;
      each_sequence(states, layer, rows, [&](int64_t first, int64_t end, const float* before, float* after) {
        const int64_t offset = shape.convolution_floats() + h * key_dim * value_dim;
        float* state = after + offset;
        if (before != nullptr) std::copy_n(before + offset, key_dim * value_dim, state);
        else std::fill_n(state, key_dim * value_dim, 0.0f);
        for (int64_t r = first; r < end; ++r) {
          if (aborted()) return;
          const float* row = input.qkv.address + r * shape.channels();
          unit_length(row + key_head * key_dim, input.epsilon, query_scale, key_dim, q);
          unit_length(row + keys + key_head * key_dim, input.epsilon, 1.0f, key_dim, k);
          const DeltaGates gates = delta_gates(decay, input.alpha.address[r * heads + h] + bias, input.beta.address[r * heads + h]);
          delta_step_of_head(state, q, k, row + 2 * keys + h * value_dim, gates, key_dim, value_dim, spare, out.address + (r * heads + h) * value_dim);
        }
      });
    }
  });
}

}  // namespace vigil::compute::cpu
