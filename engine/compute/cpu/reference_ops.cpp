// The dense ops: matmul is split by weight rows, the others by rows or values.
#include "engine/compute/cpu/reference_ops.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/compute/cpu/dequantise.hpp"

namespace vigil::compute::cpu {

const float* row_as_floats(const Weight& weight, int64_t row, float* scratch) {
  const std::byte* bytes = weight.address + static_cast<size_t>(row) * weight.row_bytes;
  if (weight.type == gguf::TensorType::f32 && reinterpret_cast<uintptr_t>(bytes) % alignof(float) == 0) {
    return reinterpret_cast<const float*>(bytes);
  }
  dequantise_row(weight.type, bytes, weight.cols, scratch);
  return scratch;
}

void ReferenceOps::embed(const Weight& table, Buffer out, int64_t rows) {
  assert(out.floats >= rows * table.cols);
  each(rows, [&](int64_t r) {
    const int32_t id = backend_.step_->ids()[static_cast<size_t>(r)];
    const std::byte* row = table.address + static_cast<size_t>(id) * table.row_bytes;
    dequantise_row(table.type, row, table.cols, out.address + r * table.cols);
  });
}

void ReferenceOps::place_pictures(Buffer pictures, Buffer into, int64_t cols, int64_t rows) {
  assert(into.floats >= rows * cols);
  each(rows, [&](int64_t r) {
    const int64_t source = backend_.step_->sources()[static_cast<size_t>(r)];
    if (source == 0) return;
    assert(source * cols <= pictures.floats);
    std::copy_n(pictures.address + (source - 1) * cols, cols, into.address + r * cols);
  });
}

void ReferenceOps::rms_norm(Buffer in, const Weight& gain, float epsilon, Buffer out, int64_t rows) {
  const int64_t cols = gain.cols;
  assert(in.floats >= rows * cols && out.floats >= rows * cols);
  share(rows, 1, [&](int64_t first, int64_t end) {
    if (first == end) return;
    const float* gains = row_as_floats(gain, 0, scratch(cols));
    for (int64_t r = first; r < end; ++r) rms_norm_row(in.address + r * cols, gains, epsilon, cols, out.address + r * cols);
  });
}

void ReferenceOps::matmul(const Weight& weight, Buffer in, Buffer out, int64_t rows) {
  const int64_t cols = weight.cols;
  assert(in.floats >= rows * cols && out.floats >= rows * weight.rows);
  share(weight.rows, tile_rows_max, [&](int64_t first, int64_t end) {
    float* tile = scratch(tile_rows_max * cols);
    for (int64_t w = first; w < end; w += tile_rows_max) {
      if (aborted()) return;
      const int64_t tile_rows = std::min(tile_rows_max, end - w);
      const float* weights = row_as_floats(weight, w, tile);
      if (weights == tile) {
        for (int64_t r = 1; r < tile_rows; ++r) row_as_floats(weight, w + r, tile + r * cols);
      }
      dot_tile(weights, tile_rows, in.address, rows, cols, out.address + w, weight.rows);
    }
  });
}

void ReferenceOps::add_bias(Buffer into, const Weight& bias, int64_t rows) {
  const int64_t cols = bias.cols;
  assert(into.floats >= rows * cols);
  share(rows, 1, [&](int64_t first, int64_t end) {
    if (first == end) return;
    const float* values = row_as_floats(bias, 0, scratch(cols));
    for (int64_t r = first; r < end; ++r) {
      for (int64_t i = 0; i < cols; ++i) into.address[r * cols + i] += values[i];
    }
  });
}

void ReferenceOps::gate(Gate kind, Buffer gate, Buffer up, int64_t cols, int64_t rows) {
  assert(gate.floats >= rows * cols && up.floats >= rows * cols);
  share(rows * cols, 16, [&](int64_t first, int64_t end) { gate_row(kind, gate.address + first, up.address + first, end - first); });
}

void ReferenceOps::sigmoid_gate(Buffer into, Buffer gate, int64_t gate_cols, int64_t cols, int64_t rows) {
  assert((gate_cols == 1 || gate_cols == cols) && into.floats >= rows * cols && gate.floats >= rows * gate_cols);
  share(rows * cols, 16, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) into.address[i] *= sigmoid(gate.address[gate_cols == 1 ? i / cols : i]);
  });
}

void ReferenceOps::add(Buffer into, Buffer from, int64_t cols, int64_t rows) {
  assert(into.floats >= rows * cols && from.floats >= rows * cols);
  share(rows * cols, 16, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) into.address[i] += from.address[i];
  });
}

void ReferenceOps::scale(Buffer into, float factor, int64_t cols, int64_t rows) {
  assert(into.floats >= rows * cols);
  share(rows * cols, 16, [&](int64_t first, int64_t end) {
    for (int64_t i = first; i < end; ++i) into.address[i] *= factor;
  });
}

void ReferenceOps::split(Buffer joined, Buffer first, Buffer second, int64_t cols, int64_t count) {
  assert(joined.floats >= 2 * count * cols && first.floats >= count * cols && second.floats >= count * cols);
  each(count, [&](int64_t i) {
    std::copy_n(joined.address + 2 * i * cols, cols, first.address + i * cols);
    std::copy_n(joined.address + (2 * i + 1) * cols, cols, second.address + i * cols);
  });
}

void ReferenceOps::select_outputs(Buffer in, Buffer out, int64_t cols, int64_t outputs) {
  assert(out.floats >= outputs * cols);
  each(outputs, [&](int64_t o) {
    const int64_t row = backend_.step_->outputs()[static_cast<size_t>(o)];
    assert(in.floats >= (row + 1) * cols);
    std::copy_n(in.address + row * cols, cols, out.address + o * cols);
  });
}

void ReferenceOps::pick_best(Buffer scores, int64_t cols, int64_t count, Buffer picked, int64_t rows) {
  assert(count <= most_picked && scores.floats >= rows * cols && picked.floats >= 2 * rows * count);
  std::vector<int64_t> ids;
  each(rows, [&](int64_t r) {
    const float* row = scores.address + r * cols;
    ids.clear();
    for (int64_t i = 0; i < cols; ++i) {
      if (row[i] > -std::numeric_limits<float>::infinity()) ids.push_back(i);  // false for NaN
    }
    const int64_t found = std::min(count, static_cast<int64_t>(ids.size()));
    std::partial_sort(ids.begin(), ids.begin() + found, ids.end(), [&](int64_t a, int64_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
    for (int64_t i = 0; i < count; ++i) {
      float* to = picked.address + 2 * (r * count + i);
      to[0] = i < found ? static_cast<float>(ids[static_cast<size_t>(i)]) : -1.0f;
      to[1] = i < found ? row[ids[static_cast<size_t>(i)]] : -std::numeric_limits<float>::infinity();
    }
  });
}

}  // namespace vigil::compute::cpu
