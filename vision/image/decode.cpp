// Chooses the decoder and makes its errors say which kind of picture it was.
#include "vision/image/decode.hpp"

#include <algorithm>
#include <new>

namespace vigil::vision {
namespace {

bool begins(std::span<const uint8_t> bytes, std::string_view with, size_t at = 0) {
  if (bytes.size() < at + with.size()) return false;
  return std::equal(with.begin(), with.end(), bytes.begin() + static_cast<ptrdiff_t>(at),
                    [](char wanted, uint8_t byte) { return static_cast<uint8_t>(wanted) == byte; });
}

Result<Image> decode_as(Format format, std::span<const uint8_t> bytes, const DecodeLimits& limits) {
  switch (format) {
    case Format::png: return decode_png(bytes, limits);
    case Format::jpeg: return decode_jpeg(bytes, limits);
    case Format::webp: return decode_webp(bytes, limits);
    case Format::gif: return decode_gif(bytes, limits);
    case Format::bmp: return decode_bmp(bytes, limits);
  }
  return Error{"internal error: no decoder"};
}

}  // namespace

std::string_view format_name(Format format) {
  switch (format) {
    case Format::png: return "PNG";
    case Format::jpeg: return "JPEG";
    case Format::webp: return "WebP";
    case Format::gif: return "GIF";
    case Format::bmp: return "BMP";
  }
  return "";
}

Result<Format> picture_format(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return Error{"the picture has no bytes"};
  if (begins(bytes, "\x89PNG\r\n\x1a\n")) return Format::png;
  if (begins(bytes, "\xff\xd8\xff")) return Format::jpeg;
  if (begins(bytes, "RIFF") && begins(bytes, "WEBP", 8)) return Format::webp;
  if (begins(bytes, "GIF87a") || begins(bytes, "GIF89a")) return Format::gif;
  if (begins(bytes, "BM")) return Format::bmp;
  return Error{"these bytes are no picture that is known: PNG, JPEG, WebP, GIF and BMP are"};
}

Result<void> check_size(int64_t width, int64_t height, const DecodeLimits& limits) {
  const std::string size = std::to_string(width) + " x " + std::to_string(height);
  if (width < 1 || height < 1) return Error{"it is " + size + " pixels large; it has no pixel"};
  if (width > limits.side || height > limits.side || width > limits.pixels / height) {
    return Error{"it is " + size + " pixels large, over the limit of " + std::to_string(limits.pixels) + " pixels (vision.image_pixels)"};
  }
  return {};
}

Result<Image> decode_picture(std::span<const uint8_t> bytes, const DecodeLimits& limits) {
  const Result<Format> format = picture_format(bytes);
  if (!format) return Error{format.error()};
  const std::string what = std::string(format_name(*format)) + " picture: ";
  try {
    Result<Image> image = decode_as(*format, bytes, limits);
    if (!image) return Error{what + image.error()};
    return image;
  } catch (const std::bad_alloc&) {
    return Error{what + "there is not enough memory for its pixels"};
  }
}

}  // namespace vigil::vision
