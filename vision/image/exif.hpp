// The one thing of EXIF that matters here: which way up a picture is. Format: CIPA DC-008 (Exif 2.32), tag 0x0112 of the first directory.
#pragma once

#include <cstdint>
#include <span>

#include "vision/image/image.hpp"

namespace vigil::vision {

// 1 to 8; 1 (upright) for whatever is no directory or names nothing else. `tiff` begins with "II" or "MM"; a leading "Exif\0\0" is skipped.
int exif_orientation(std::span<const uint8_t> tiff);

// Turned and mirrored so that it is upright.
Image upright(Image image, int orientation);

}  // namespace vigil::vision
