// The turning speeds of rope and how files stretch them to longer contexts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/compute/backend.hpp"
#include "engine/model/config.hpp"
#include "protocol/result.hpp"

namespace vigil::model {

// Pair i of `rotated / 2` turns base^(-2i / rotated) radians per position, divided by the file's own factor (empty = 1), then scaled:
// linear divides all by a factor (Chen et al. 2023); YaRN divides the slow ones, leaves the fast ones, and makes attention sharper
// (Peng et al. 2023). Errors name the tensor.
Result<compute::Rope> make_rope(const Config& config, double base, const RopeScaling& scaling, std::span<const float> factors,
                                compute::RopeKind kind, compute::Backend& backend, std::span<const uint8_t> axes = {});

// Which axis of M-RoPE each pair turns by, from the sizes of the sections (0 time, 1 height, 2 width): one section after the other (qwen2vl), or
// taken in turn as long as a section has any left (qwen3.5, "interleaved"). Empty when there are no sections.
enum class SectionOrder { one_by_one, in_turn };
std::vector<uint8_t> rope_axes(std::span<const int64_t> sections, SectionOrder order, int64_t pairs);

}  // namespace vigil::model
