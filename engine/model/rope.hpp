// The turning speeds of rope and how files stretch them to longer contexts.
#pragma once

#include <span>

#include "engine/compute/backend.hpp"
#include "engine/model/config.hpp"
#include "protocol/result.hpp"

namespace vigil::model {

// Pair i of `rotated / 2` turns base^(-2i / rotated) radians per position, divided by the file's own factor (empty = 1), then scaled:
// linear divides all by a factor (Chen et al. 2023); YaRN divides the slow ones, leaves the fast ones, and makes attention sharper
// (Peng et al. 2023). Errors name the tensor.
Result<compute::Rope> make_rope(const Config& config, double base, const RopeScaling& scaling, std::span<const float> factors,
                                compute::RopeKind kind, compute::Backend& backend);

}  // namespace vigil::model
