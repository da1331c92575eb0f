// Source places are computed in float, as the reference does: in double some pixels would differ by one.
#include "vision/preprocess/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace vigil::vision {
namespace {

struct Place {
  int64_t at = 0;     // the neighbour below
  float part = 0;     // the way to the next one
};

std::vector<Place> places(int64_t from, int64_t to, Filter filter) {
  std::vector<Place> all(static_cast<size_t>(to));
  const float ratio = filter == Filter::bicubic ? static_cast<float>(from) / static_cast<float>(to)
                      : to > 1                  ? static_cast<float>(from - 1) / static_cast<float>(to - 1)
                                                : 0.0f;
  for (int64_t i = 0; i < to; ++i) {
    const float place = ratio * static_cast<float>(i);
    const auto below = std::min(static_cast<int64_t>(place), from - 1);
    all[static_cast<size_t>(i)] = {below, place - static_cast<float>(below)};
  }
  return all;
}

float between(float a, float b, float part) { return a + (b - a) * part; }

// The cubic through values at -1, 0, 1 and 2.
float cubic(float before, float here, float next, float after, float part) {
  const float d0 = before - here, d2 = next - here, d3 = after - here;
  const float a1 = static_cast<float>(-1.0 / 3 * d0 + d2 - 1.0 / 6 * d3);
  const float a2 = static_cast<float>(1.0 / 2 * d0 + 1.0 / 2 * d2);
  const float a3 = static_cast<float>(-1.0 / 6 * d0 - 1.0 / 2 * d2 + 1.0 / 6 * d3);
  return here + a1 * part + a2 * part * part + a3 * part * part * part;
}

void bilinear_pixel(const Image& from, const Place& x, const Place& y, uint8_t* to) {
  const int64_t right = std::min(x.at + 1, from.width() - 1), below = std::min(y.at + 1, from.height() - 1);
  const uint8_t *a = from.pixel(x.at, y.at), *b = from.pixel(right, y.at), *c = from.pixel(x.at, below), *d = from.pixel(right, below);
  for (int i = 0; i < 3; ++i) to[i] = static_cast<uint8_t>(between(between(a[i], b[i], x.part), between(c[i], d[i], x.part), y.part));
}

void bicubic_pixel(const Image& from, const Place& x, const Place& y, uint8_t* to) {
  float rows[4][3];
  for (int k = 0; k < 4; ++k) {
    const int64_t row = std::clamp<int64_t>(y.at - 1 + k, 0, from.height() - 1);
    const uint8_t* near[4];
    for (int i = 0; i < 4; ++i) near[i] = from.pixel(std::clamp<int64_t>(x.at - 1 + i, 0, from.width() - 1), row);
    for (int i = 0; i < 3; ++i) rows[k][i] = cubic(near[0][i], near[1][i], near[2][i], near[3][i], x.part);
  }
  for (int i = 0; i < 3; ++i) to[i] = static_cast<uint8_t>(std::clamp(std::round(cubic(rows[0][i], rows[1][i], rows[2][i], rows[3][i], y.part)), 0.0f, 255.0f));
}

}  // namespace

Image resize(const Image& from, int64_t width, int64_t height, Filter filter) {
  Image out(width, height);
  const std::vector<Place> columns = places(from.width(), width, filter), rows = places(from.height(), height, filter);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const Place &column = columns[static_cast<size_t>(x)], &row = rows[static_cast<size_t>(y)];
      if (filter == Filter::bilinear) bilinear_pixel(from, column, row, out.pixel(x, y));
      else bicubic_pixel(from, column, row, out.pixel(x, y));
    }
  }
  return out;
}

Image resize(const Image& from, int64_t width, int64_t height, Filter filter, Fit fit, Fill fill) {
  if (from.width() == width && from.height() == height) return crop(from, 0, 0, width, height);
  if (fit == Fit::stretch) return resize(from, width, height, filter);
  const float scale = std::min(static_cast<float>(width) / static_cast<float>(from.width()), static_cast<float>(height) / static_cast<float>(from.height()));
  const auto scaled = [&](int64_t side, int64_t most) {
    return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(static_cast<float>(side) * scale)), 1, most);
  };
  const Image inner = resize(from, scaled(from.width(), width), scaled(from.height(), height), filter);
  Image out(width, height);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) std::ranges::copy(fill, out.pixel(x, y));
  }
  const int64_t left = (width - inner.width()) / 2, top = (height - inner.height()) / 2;
  for (int64_t y = 0; y < inner.height(); ++y) std::memcpy(out.pixel(left, top + y), inner.row(y).data(), inner.row(y).size());
  return out;
}

Image crop(const Image& from, int64_t left, int64_t top, int64_t width, int64_t height) {
  Image out(width, height);
  for (int64_t y = 0; y < height; ++y) std::memcpy(out.row(y).data(), from.pixel(left, top + y), static_cast<size_t>(3 * width));
  return out;
}

}  // namespace vigil::vision
