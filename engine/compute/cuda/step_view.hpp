// The step's words (engine/compute/step.hpp) as kernels see them: addresses in the device's copy. The addresses stay the same from step to step,
// what lies there changes, so that a kernel needs no argument that is a step's own.
#pragma once

#include <cstdint>

#include "engine/compute/step.hpp"

namespace vigil::compute::cuda {

struct StepView {
  const int32_t* ids = nullptr;        // [rows]
  const int32_t* positions = nullptr;  // [rows]
  const int32_t* sequences = nullptr;  // [rows]
  const int32_t* sources = nullptr;    // [rows]
  const int32_t* ahead = nullptr;      // [rows]
  const int32_t* shifts[rope_axes] = {};  // [rows] each
  const int32_t* outputs = nullptr;    // [outputs]
  const int32_t* states = nullptr;     // [sequences, 2]
  const int32_t* blocks = nullptr;     // [tables, sequences, blocks_per_sequence]
  int32_t sequence_count = 0, blocks_per_sequence = 0;
  bool operator==(const StepView&) const = default;
  // The same step for an op on such a cache: `blocks` are those of its table.
  StepView with(BlockTable table) const {
    StepView view = *this;
    view.blocks += static_cast<int64_t>(table) * sequence_count * blocks_per_sequence;
    return view;
  }
};

}  // namespace vigil::compute::cuda
