// Ops over single rows.
#include "engine/compute/cpu/fast_ops.hpp"

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
  if (kind != Gate::silu) return ReferenceOps::gate(kind, gate, up, cols, rows);
  assert(gate.floats >= rows * cols && up.floats >= rows * cols);
  share(rows * cols, 16, [&](int64_t first, int64_t end) { kernels_.silu_row(gate.address + first, up.address + first, end - first); });
}

void FastOps::add(Buffer into, Buffer from, int64_t cols, int64_t rows) {
  assert(into.floats >= rows * cols && from.floats >= rows * cols);
  share(rows * cols, 16, [&](int64_t first, int64_t end) { kernels_.add_row(into.address + first, from.address + first, end - first); });
}

}  // namespace vigil::compute::cpu
