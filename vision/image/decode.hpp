// Picture files to pixels: PNG, JPEG, WebP, GIF (its first frame) and BMP. The bytes are untrusted: what a header claims is held against the
// limits before anything is allocated. The bytes decide what a file is, not its name. Not here: resizing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "protocol/result.hpp"
#include "vision/image/image.hpp"

namespace vigil::vision {

struct DecodeLimits {
  int64_t pixels = 67'108'864;  // width times height, --image-pixels (vision.image_pixels)
  int64_t side = 1 << 20;       // of width and of height; GIF, JPEG and WebP cannot name more than 65,535 anyway
};

enum class Format { png, jpeg, webp, gif, bmp };

// By the first bytes; an error says that it is none of them.
Result<Format> picture_format(std::span<const uint8_t> bytes);
std::string_view format_name(Format format);

// Upright (EXIF orientation is applied), over white where it is transparent, 16-bit values rounded to 8. A file that ends early or breaks off
// is an error, as is a PNG whose checksums are wrong.
Result<Image> decode_picture(std::span<const uint8_t> bytes, const DecodeLimits& limits);

// An error that names both numbers, or nothing. Every decoder asks before it allocates.
Result<void> check_size(int64_t width, int64_t height, const DecodeLimits& limits);

// One for each format; decode_picture chooses.
Result<Image> decode_png(std::span<const uint8_t> bytes, const DecodeLimits& limits);
Result<Image> decode_jpeg(std::span<const uint8_t> bytes, const DecodeLimits& limits);
Result<Image> decode_webp(std::span<const uint8_t> bytes, const DecodeLimits& limits);
Result<Image> decode_gif(std::span<const uint8_t> bytes, const DecodeLimits& limits);
Result<Image> decode_bmp(std::span<const uint8_t> bytes, const DecodeLimits& limits);

}  // namespace vigil::vision
