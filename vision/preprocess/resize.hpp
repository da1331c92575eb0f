// Pictures to another size. The formulas are those of the reference that the encoders' files are tested against (llama.cpp, tools/mtmd): other
// filters would give other embeddings. Not here: which size (plan.hpp).
#pragma once

#include <array>
#include <cstdint>

#include "vision/image/image.hpp"

namespace vigil::vision {

enum class Filter {
  bilinear,  // corner pixels stay in the corners: source place = place * (source - 1) / (target - 1); the value is cut, not rounded
  bicubic,   // source place = place * source / target; cubic through four neighbours, edges repeated, rounded
};

// How a picture of another shape than the target fills it.
enum class Fit {
  stretch,
  pad,  // keeps its shape, in the middle, `Fill` around it
};
using Fill = std::array<uint8_t, 3>;

Image resize(const Image& from, int64_t width, int64_t height, Filter filter);
// The same size comes back as it is, whatever the filter.
Image resize(const Image& from, int64_t width, int64_t height, Filter filter, Fit fit, Fill fill);
Image crop(const Image& from, int64_t left, int64_t top, int64_t width, int64_t height);  // must lie inside

}  // namespace vigil::vision
