// Ops over single rows.
#include "engine/compute/cpu/fast_ops.hpp"

#include <algorithm>
#include <cassert>

namespace vigil::compute::cpu {

void FastOps::rms_norm(Buffer in, const Weight& gain, float epsilon, Buffer out, int64_t rows) {
  const int64_t cols = gain.cols;
  assert(in.floats >= rows * cols && out.floats >= rows * cols);
  share(rows, 1, [&](int64_t first, int64_t end) {
    if (first == end) return;
    const float* gains = row_as_floats(gain, 0, scratch(cols));
    for (int64_t r = first; r < end; ++r) kernels_.rms_norm_row(in.address + r * cols, gains, epsilon, cols, out.address + r * cols);
  });
}

void FastOps::gate(Gate kind, Buffer gate, Buffer up, int64_t cols, int64_t rows) {
  assert(gate.floats >= rows * cols && up.floats >= rows * cols);
  share(rows * cols, 16, [&](int64_t first, int64_t end) { kernels_.gate_row(kind, gate.address + first, up.address + first, end - first); });
}

void FastOps::add(Buffer into, Buffer from, int64_t cols, int64_t rows) {
  assert(into.floats >= rows * cols && from.floats >= rows * cols);
  share(rows * cols, 16, [&](int64_t first, int64_t end) { kernels_.add_row(into.address + first, from.address + first, end - first); });
}

void FastOps::convolve(const Weight& kernels, const StateCache& states, int64_t layer, Buffer in, Buffer out, int64_t rows) {
  const int64_t channels = kernels.rows, taps = kernels.cols;
  if (taps > max_taps) return ReferenceOps::convolve(kernels, states, layer, in, out, rows);
  assert(channels == states.shape.channels() && taps == states.shape.kernel);
  share(channels, 16, [&](int64_t begin, int64_t stop) {
    float* spare = scratch(17 * taps);
    for (int64_t c = begin; c < stop; c += 16) {
      const Convolution work{taps, channels, std::min<int64_t>(16, stop - c), spare + taps};
      for (int64_t lane = 0; lane < work.lanes; ++lane) {
        const float* kernel = row_as_floats(kernels, c + lane, spare);
        for (int64_t t = 0; t < taps; ++t) spare[taps + 16 * t + lane] = kernel[t];
      }
      each_sequence(states, layer, rows, [&](int64_t first, int64_t end, const float* before, float* after) {
        kernels_.convolve_channels(work, end - first, before != nullptr ? before + c : nullptr, after + c, in.address + first * channels + c,
                                   out.address + first * channels + c);
      });
    }
  });
}

}  // namespace vigil::compute::cpu
