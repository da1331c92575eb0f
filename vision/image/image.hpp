// A picture as pixels. Not here: where they come from (decode.hpp), what an encoder makes of them (preprocess/).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace vigil::vision {

// 8-bit RGB, rows from the top, without gaps. The memory is not cleared: pages that no decoder reaches cost nothing, so that a small file
// which claims many pixels cannot take the memory of all of them.
class Image {
 public:
  Image() = default;
  Image(int64_t width, int64_t height)
      : width_(width), height_(height), pixels_(std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(3 * width * height))) {}

  int64_t width() const { return width_; }
  int64_t height() const { return height_; }
  std::span<uint8_t> row(int64_t y) { return {pixels_.get() + 3 * width_ * y, static_cast<size_t>(3 * width_)}; }
  std::span<const uint8_t> row(int64_t y) const { return {pixels_.get() + 3 * width_ * y, static_cast<size_t>(3 * width_)}; }
  uint8_t* pixel(int64_t x, int64_t y) { return pixels_.get() + 3 * (y * width_ + x); }
  const uint8_t* pixel(int64_t x, int64_t y) const { return pixels_.get() + 3 * (y * width_ + x); }

 private:
  int64_t width_ = 0, height_ = 0;
  std::unique_ptr<uint8_t[]> pixels_;
};

// A value over white by its alpha, rounded.
inline uint8_t over_white(uint8_t value, uint8_t alpha) {
  return static_cast<uint8_t>((value * alpha + 255 * (255 - alpha) + 127) / 255);
}

}  // namespace vigil::vision
