// Mixture of experts. Products are split by (expert, weight rows), so that each used expert's weights are read once for all rows that chose it.
#include <cassert>

#include "engine/compute/cpu/reference_ops.hpp"

namespace vigil::compute::cpu {
namespace {

// choice[row, i] = expert, share
int64_t chosen_expert(Buffer choice, int64_t used, int64_t row, int64_t i) { return static_cast<int64_t>(choice.address[2 * (row * used + i)]); }

}  // namespace

void ReferenceOps::route(Buffer logits, int64_t experts, int64_t used, Buffer choice, int64_t rows) {
  assert(used <= experts && logits.floats >= rows * experts && choice.floats >= 2 * rows * used);
  std::vector<int32_t> places(static_cast<size_t>(used));
  std::vector<float> shares(static_cast<size_t>(used));
  each(rows, [&](int64_t r) {
    best_places({logits.address + r * experts, static_cast<size_t>(experts)}, places, shares);
    for (int64_t i = 0; i < used; ++i) {
      choice.address[2 * (r * used + i)] = static_cast<float>(places[static_cast<size_t>(i)]);
      choice.address[2 * (r * used + i) + 1] = shares[static_cast<size_t>(i)];
    }
  });
}

void ReferenceOps::find_slots(Buffer choice, Buffer slots, int64_t used, int64_t rows) {
  assert(choice.floats >= 2 * rows * used);
  each(rows * used, [&](int64_t place) {
    const int64_t expert = chosen_expert(choice, used, 0, place), slot = static_cast<int64_t>(slots.address[expert]);
    choice.address[2 * place] = static_cast<float>(slot < 0 ? -1 - expert : slot);
  });
}

void ReferenceOps::expert_matmul(const Weight& experts, int64_t out_cols, Buffer choice, int64_t used, ExpertInput kind, Buffer in, Buffer out,
                                 int64_t rows) {
  const int64_t cols = experts.cols, count = experts.rows / out_cols;
  assert(in.floats >= rows * (kind == ExpertInput::row ? 1 : used) * cols && out.floats >= rows * used * out_cols);
  const int64_t tiles = (out_cols + tile_rows_max - 1) / tile_rows_max;
  share(count * tiles, 1, [&](int64_t first, int64_t end) {
    float* tile = scratch(tile_rows_max * cols);
    for (int64_t piece = first; piece < end; ++piece) {
      if (aborted()) return;
      const int64_t expert = piece / tiles, start = piece % tiles * tile_rows_max;
      const int64_t tile_rows = std::min(tile_rows_max, out_cols - start);
      const float* weights = nullptr;  // until a row wants them
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < used; ++i) {
          if (chosen_expert(choice, used, r, i) != expert) continue;
          if (weights == nullptr) {
            weights = row_as_floats(experts, expert * out_cols + start, tile);
            for (int64_t w = 1; w < tile_rows && weights == tile; ++w) row_as_floats(experts, expert * out_cols + start + w, tile + w * cols);
          }
          const int64_t place = r * used + i;
          const float* x = in.address + (kind == ExpertInput::row ? r : place) * cols;
          dot_tile(weights, tile_rows, x, 1, cols, out.address + place * out_cols + start, out_cols);
        }
      }
    }
  });
}

void ReferenceOps::add_expert_bias(Buffer into, const Weight& bias, Buffer choice, int64_t used, int64_t rows) {
  const int64_t cols = bias.cols;
  assert(into.floats >= rows * used * cols);
  each(rows * used, [&](int64_t place) {
    const int64_t expert = chosen_expert(choice, used, 0, place);
    if (expert < 0) return;
    const float* values = row_as_floats(bias, expert, scratch(cols));
    for (int64_t c = 0; c < cols; ++c) into.address[place * cols + c] += values[c];
  });
}

void ReferenceOps::sum_experts(Buffer in, Buffer choice, int64_t used, Buffer out, int64_t cols, int64_t rows) {
  assert(in.floats >= rows * used * cols && out.floats >= rows * cols);
  each(rows, [&](int64_t r) {
    float* to = out.address + r * cols;
    std::fill_n(to, cols, 0.0f);
    for (int64_t i = 0; i < used; ++i) {
      const float part = choice.address[2 * (r * used + i) + 1];
      const float* from = in.address + (r * used + i) * cols;
      for (int64_t c = 0; c < cols; ++c) to[c] += from[c] * part;
    }
  });
}

}  // namespace vigil::compute::cpu
