// See preprocess.hpp.
#include "vision/preprocess/preprocess.hpp"

#include <algorithm>
#include <cmath>

namespace vigil::vision {
namespace {

Tile normalised(const Image& image, const Preprocessing& how) {
  Tile tile{image.width(), image.height(), {}};
  const size_t plane = static_cast<size_t>(image.width() * image.height());
  tile.planes.resize(3 * plane);
  size_t place = 0;
  for (int64_t y = 0; y < image.height(); ++y) {
    for (int64_t x = 0; x < image.width(); ++x, ++place) {
      const uint8_t* pixel = image.pixel(x, y);
      for (size_t c = 0; c < 3; ++c) tile.planes[c * plane + place] = (static_cast<float>(pixel[c]) / 255.0f - how.mean[c]) / how.deviation[c];
    }
  }
  return tile;
}

}  // namespace

Size cell_size(Size picture, const Preprocessing& how) {
  const auto width = static_cast<double>(picture.width), height = static_cast<double>(picture.height);
  const auto cell = static_cast<double>(how.cell);
  const auto most = static_cast<double>(how.most_pixels), least = static_cast<double>(how.least_pixels);
  double w = std::max(1.0, std::round(width / cell)), h = std::max(1.0, std::round(height / cell));
  if (w * h * cell * cell > most) {
    const double by = std::sqrt(width * height / most);
    w = std::max(1.0, std::floor(width / by / cell));
    h = std::max(1.0, std::floor(height / by / cell));
    // A thin picture has a side of one cell that is not made smaller: the other one has to give way.
    w = std::min(w, std::max(1.0, std::floor(most / cell / cell / h)));
    h = std::min(h, std::max(1.0, std::floor(most / cell / cell / w)));
  } else if (w * h * cell * cell < least) {
    const double by = std::sqrt(least / (width * height));
    w = std::ceil(width * by / cell);
    h = std::ceil(height * by / cell);
  }
  return {static_cast<int64_t>(w) * how.cell, static_cast<int64_t>(h) * how.cell};
}

int64_t tiles_along(const Preprocessing& how) { return (how.longest + how.side - 1) / how.side; }

Size cut_size(Size picture, const Preprocessing& how) {
  const auto longest = static_cast<float>(how.longest);
  const float scale = std::min(longest / static_cast<float>(picture.width), longest / static_cast<float>(picture.height));
  const int64_t most = tiles_along(how);  // the reference's rounding gives one more to some sizes, 2895 x 1000 of 1456 for one
  const auto multiple = [&](int64_t side) {
    const float tiles = std::ceil(static_cast<float>(side) * scale / static_cast<float>(how.side));
    return std::clamp<int64_t>(static_cast<int64_t>(tiles), 1, most) * how.side;
  };
  return {multiple(picture.width), multiple(picture.height)};
}

Tiles preprocess(const Image& picture, const Preprocessing& how) {
  Tiles out;
  const Size size{picture.width(), picture.height()};
  switch (how.rule) {
    case Preprocessing::Rule::square:
      out.tiles.push_back(normalised(resize(picture, how.side, how.side, how.filter, Fit::pad, how.fill), how));
      break;
    case Preprocessing::Rule::cells: {
      const Size target = cell_size(size, how);
      out.tiles.push_back(normalised(resize(picture, target.width, target.height, how.filter, Fit::pad, how.fill), how));
      break;
    }
    case Preprocessing::Rule::tiles: {
      const Size target = cut_size(size, how);
      const Image whole = resize(picture, target.width, target.height, Filter::bicubic, Fit::pad, how.fill);
      out.columns = target.width / how.side;
      out.rows = target.height / how.side;
      for (int64_t row = 0; row < out.rows; ++row) {
        for (int64_t column = 0; column < out.columns; ++column) {
          out.tiles.push_back(normalised(crop(whole, column * how.side, row * how.side, how.side, how.side), how));
        }
      }
      out.tiles.push_back(normalised(resize(picture, how.side, how.side, Filter::bilinear, Fit::stretch, how.fill), how));
      break;
    }
  }
  return out;
}

}  // namespace vigil::vision
