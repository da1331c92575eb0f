// Frequencies are made in double: the largest positions multiply their error.
#include "engine/model/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace vigil::model {
namespace {

// The pair that turns `turns` times within the trained context, as a real number.
double pair_with(double turns, double rotated, double context, double base) {
  return rotated * std::log(context / (turns * 2 * std::numbers::pi)) / (2 * std::log(base));
}

// How much of pair i's speed is divided by the factor: nothing for fast pairs, all for slow ones, a ramp between.
double stretched_part(int64_t i, double base, int64_t rotated, const RopeScaling& scaling) {
  const double last = static_cast<double>(rotated - 1), context = static_cast<double>(scaling.original_context);
  const double low = std::max(0.0, std::floor(pair_with(scaling.fast_turns, static_cast<double>(rotated), context, base)));
  const double high = std::min(last, std::ceil(pair_with(scaling.slow_turns, static_cast<double>(rotated), context, base)));
  return std::clamp((static_cast<double>(i) - low) / std::max(0.001, high - low), 0.0, 1.0);
}

}  // namespace

Result<compute::Rope> make_rope(const Config& config, double base, const RopeScaling& scaling, std::span<const float> factors,
                                compute::RopeKind kind, compute::Backend& backend, std::span<const uint8_t> axes) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < config.rotated / 2; ++i) {
    const double own = factors.empty() ? 1.0 : static_cast<double>(factors[static_cast<size_t>(i)]);
    if (!(std::isfinite(own) && own > 0)) return Error{"tensor 'rope_freqs.weight' holds a value that is not a positive number"};
    double frequency = std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(config.rotated)) / own;
    if (scaling.kind == RopeScaling::Kind::linear) frequency /= scaling.factor;
    if (scaling.kind == RopeScaling::Kind::yarn) {
      const double part = stretched_part(i, base, config.rotated, scaling);
      frequency = frequency * (1 - part) + frequency / scaling.factor * part;
    }
    frequencies.push_back(frequency);
  }
  const double magnitude = scaling.kind == RopeScaling::Kind::yarn ? scaling.magnitude * (1 + 0.1 * std::log(scaling.factor)) : 1.0;
  return backend.bind_rope(kind, frequencies, magnitude, axes);
}

std::vector<uint8_t> rope_axes(std::span<const int64_t> sections, SectionOrder order, int64_t pairs) {
  if (sections.empty()) return {};
  std::vector<uint8_t> axes(static_cast<size_t>(pairs), 0);
  const auto size_of = [&](int64_t axis) { return axis < static_cast<int64_t>(sections.size()) ? sections[static_cast<size_t>(axis)] : 0; };
  for (int64_t i = 0; i < pairs; ++i) {
    uint8_t& axis = axes[static_cast<size_t>(i)];
    if (order == SectionOrder::in_turn) {
      axis = static_cast<uint8_t>(i / 3 < size_of(i % 3) ? i % 3 : 0);
    } else {
      axis = static_cast<uint8_t>(i < size_of(0) ? 0 : i < size_of(0) + size_of(1) ? 1 : i < size_of(0) + size_of(1) + size_of(2) ? 2 : 0);
    }
  }
  return axes;
}

}  // namespace vigil::model
