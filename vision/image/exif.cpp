// Broken EXIF is no reason to refuse a picture: cameras and editors write a lot of it.
#include "vision/image/exif.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "vision/image/byte_reader.hpp"

namespace vigil::vision {
namespace {

constexpr uint32_t orientation_tag = 0x0112, short_type = 3;

}  // namespace

int exif_orientation(std::span<const uint8_t> tiff) {
  constexpr std::string_view prefix("Exif\0\0", 6);
  if (tiff.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), tiff.begin(), [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; })) {
    tiff = tiff.subspan(prefix.size());
  }
  if (tiff.size() < 8) return 1;
  const bool big = tiff[0] == 'M' && tiff[1] == 'M';
  if (!big && !(tiff[0] == 'I' && tiff[1] == 'I')) return 1;
  const auto number16 = [&](size_t at) { return big ? big16(tiff, at) : little16(tiff, at); };
  const auto number32 = [&](size_t at) { return big ? big32(tiff, at) : little32(tiff, at); };
  if (number16(2) != 42) return 1;
  const size_t directory = number32(4);
  if (directory > tiff.size() - 2) return 1;
  const size_t entries = std::min<size_t>(number16(directory), (tiff.size() - directory - 2) / 12);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + 12 * i;
    if (number16(entry) != orientation_tag) continue;
    const uint32_t value = number16(entry + 8);
    return number16(entry + 2) == short_type && number32(entry + 4) == 1 && value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Image upright(Image image, int orientation) {
  if (orientation <= 1 || orientation > 8) return image;
  const bool turned = orientation >= 5;  // rows of the file become columns
  const int64_t width = image.width(), height = image.height();
  Image out(turned ? height : width, turned ? width : height);
  for (int64_t y = 0; y < out.height(); ++y) {
    for (int64_t x = 0; x < out.width(); ++x) {
      int64_t from_x = turned ? y : x, from_y = turned ? x : y;
      if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8) from_x = width - 1 - from_x;
      if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7) from_y = height - 1 - from_y;
      std::copy_n(image.pixel(from_x, from_y), 3, out.pixel(x, y));
    }
  }
  return out;
}

}  // namespace vigil::vision
