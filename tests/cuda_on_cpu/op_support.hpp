// What tests of op kernels share: random values, a step's words on the device, and how far results are from double precision.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "emulation_support.hpp"
#include "engine/compute/cuda/step_view.hpp"

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

// Between -1 and 1, from a seed.
inline Floats random_floats(int64_t count, uint64_t seed) {
  Floats values(static_cast<size_t>(count));
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (float& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = static_cast<float>(static_cast<double>(state >> 40) / (1 << 23) - 1);
  }
  return values;
}

inline double at(const Floats& values, int64_t i) { return static_cast<double>(values[static_cast<size_t>(i)]); }

// The largest distance; a value that is no number counts as 1e9.
inline double worst_difference(const Floats& ours, const Doubles& expected) {
  double worst = ours.size() == expected.size() ? 0 : 1e9;
  for (size_t i = 0; i < std::min(ours.size(), expected.size()); ++i) {
    const double apart = std::abs(static_cast<double>(ours[i]) - expected[i]);
    worst = std::max(worst, apart < 1e9 ? apart : 1e9);
  }
  return worst;
}

// A step as kernels see it.
class DeviceStep {
 public:
  explicit DeviceStep(vigil::compute::StepData& step) : words_({step.words().begin(), step.words().end()}) {
    const auto place = [&](std::span<int32_t> part) { return words_.get() + (part.data() - step.words().data()); };
    view_.ids = place(step.ids());
    view_.positions = place(step.positions());
    view_.sequences = place(step.sequences());
    view_.sources = place(step.sources());
    view_.ahead = place(step.ahead());
    for (int64_t axis = 0; axis < vigil::compute::rope_axes; ++axis) view_.shifts[axis] = place(step.shifts(axis));
    view_.outputs = place(step.outputs());
    view_.states = place(step.states(0));
    view_.blocks = place(step.blocks(0));
    view_.sequence_count = static_cast<int32_t>(step.limits().sequences);
    view_.blocks_per_sequence = static_cast<int32_t>(step.limits().blocks_per_sequence);
  }
  const vigil::compute::cuda::StepView& view() const { return view_; }

 private:
  DeviceArray<int32_t> words_;
  vigil::compute::cuda::StepView view_;
};
