// Sizes and filters of preprocessing; the golden test of the shared suite holds their values to another implementation's.
#include <catch2/catch.hpp>

#include <cmath>

#include "vision/preprocess/preprocess.hpp"

using namespace vigil::vision;

namespace {

Image ramp(int64_t width, int64_t height) {
  Image image(width, height);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      uint8_t* pixel = image.pixel(x, y);
      pixel[0] = static_cast<uint8_t>(10 * x);
      pixel[1] = static_cast<uint8_t>(10 * y);
      pixel[2] = 200;
    }
  }
  return image;
}

Preprocessing cells(int64_t cell, int64_t least, int64_t most) {
  Preprocessing how;
  how.rule = Preprocessing::Rule::cells;
  how.cell = cell;
  how.least_pixels = least * cell * cell;
  how.most_pixels = most * cell * cell;
  how.deviation = {1, 1, 1};
  return how;
}

}  // namespace

TEST_CASE("Bilinear keeps corners and lines; a picture of the right size stays as it is") {
  const Image from = ramp(9, 5);
  const Image larger = resize(from, 17, 9, Filter::bilinear);  // every second pixel is one of the source
  for (int64_t y = 0; y < 5; ++y) {
    for (int64_t x = 0; x < 9; ++x) CHECK(std::equal(from.pixel(x, y), from.pixel(x, y) + 3, larger.pixel(2 * x, 2 * y)));
  }
  CHECK(larger.pixel(1, 0)[0] == 5);
  CHECK(larger.pixel(0, 1)[1] == 5);
  for (const Filter filter : {Filter::bilinear, Filter::bicubic}) {
    const Image same = resize(from, 9, 5, filter, Fit::pad, {1, 2, 3});
    for (int64_t y = 0; y < 5; ++y) CHECK(std::ranges::equal(same.row(y), from.row(y)));
    const Image one = resize(ramp(1, 1), 6, 4, filter);
    CHECK(one.pixel(5, 3)[2] == 200);
    CHECK(resize(from, 1, 1, filter).pixel(0, 0)[2] == 200);
  }
}

TEST_CASE("Bicubic goes through its neighbours and overshoots edges within bytes") {
  Image step(8, 1);
  for (int64_t x = 0; x < 8; ++x) std::fill_n(step.pixel(x, 0), 3, static_cast<uint8_t>(x < 4 ? 0 : 255));
  const Image finer = resize(step, 16, 1, Filter::bicubic);
  for (int64_t x = 0; x < 8; ++x) CHECK(finer.pixel(2 * x, 0)[0] == step.pixel(x, 0)[0]);
  CHECK(finer.pixel(7, 0)[0] == 128);  // half way
  const Image line = resize(ramp(9, 5), 18, 10, Filter::bicubic);
  CHECK(line.pixel(5, 0)[0] == 25);  // a straight line stays one
}

TEST_CASE("Padding keeps the shape, in the middle, in the fill's colour") {
  const Image padded = resize(ramp(8, 2), 16, 16, Filter::bilinear, Fit::pad, {7, 8, 9});
  for (const int64_t y : {0, 5, 10, 15}) CHECK(padded.pixel(3, y)[0] == 7);
  for (const int64_t y : {6, 9}) CHECK(padded.pixel(15, y)[2] == 200);
  const Image thin = resize(ramp(1, 200), 16, 16, Filter::bilinear, Fit::pad, {7, 8, 9});  // never without a pixel of itself
  int inside = 0;
  for (int64_t x = 0; x < 16; ++x) inside += thin.pixel(x, 8)[2] == 200 ? 1 : 0;
  CHECK(inside == 1);
  CHECK(resize(ramp(8, 2), 4, 4, Filter::bilinear, Fit::stretch, {}).pixel(0, 0)[2] == 200);
}

TEST_CASE("Sizes in cells: rounded, made larger, made smaller, thin ones held to the limit") {
  const Preprocessing how = cells(28, 8, 4096);
  CHECK(cell_size({100, 60}, how) == Size{112, 56});
  CHECK(cell_size({64, 64}, how) == Size{84, 84});        // 4 cells are under 8
  CHECK(cell_size({1920, 1080}, how) == Size{1932, 1092});  // 2,691 cells
  const Size large = cell_size({4000, 3000}, how);
  CHECK(large.width * large.height <= 4096 * 28 * 28);
  CHECK(large.width * large.height > 3900 * 28 * 28);
  CHECK(std::abs(static_cast<double>(large.width) / static_cast<double>(large.height) - 4.0 / 3) < 0.05);
  CHECK(cell_size({1, 1}, how) == Size{84, 84});
  CHECK(cell_size({1, 4000}, how) == Size{28, 4004});
  for (const Size thin : {Size{1, 67'000'000}, Size{67'000'000, 1}, Size{3, 9'000'000}}) {
    const Size got = cell_size(thin, how);
    CHECK(got.width * got.height <= 4096 * 28 * 28);
    CHECK(std::min(got.width, got.height) == 28);
  }
}

TEST_CASE("Tiles: the picture in squares row by row, and the whole in one") {
  Preprocessing how;
  how.rule = Preprocessing::Rule::tiles;
  how.side = 16;
  how.longest = 32;
  how.deviation = {1, 1, 1};
  CHECK(cut_size({100, 60}, how) == Size{32, 32});
  CHECK(cut_size({100, 40}, how) == Size{32, 16});
  CHECK(cut_size({1, 4000}, how) == Size{16, 32});
  const Tiles tiles = preprocess(ramp(24, 10), how);
  CHECK(tiles.columns == 2);
  CHECK(tiles.rows == 1);
  REQUIRE(tiles.tiles.size() == 3);
  const auto value = [&](size_t tile, size_t x, size_t y) { return tiles.tiles[tile].planes[y * 16 + x] * 255; };
  CHECK(value(0, 15, 8) < value(1, 0, 8));
  CHECK(value(0, 0, 8) == Approx(0));
  CHECK(value(2, 15, 8) == Approx(230));  // the right edge of the whole
}

TEST_CASE("No picture is cut into more tiles along a side than there are marks for") {
  Preprocessing how;
  how.rule = Preprocessing::Rule::tiles;
  how.side = 364;
  how.longest = 1456;
  CHECK(cut_size({2895, 1000}, how) == Size{1456, 728});  // the reference: 5 tiles of a side that holds 4
  for (const auto& [side, longest] : {std::pair<int64_t, int64_t>{364, 1456}, {512, 2048}, {384, 1536}, {16, 32}, {100, 250}, {7, 1000}}) {
    how.side = side;
    how.longest = longest;
    REQUIRE(tiles_along(how) == (longest + side - 1) / side);
    for (int64_t width = 1; width <= 20000; width += width < 5000 ? 1 : 37) {
      for (const int64_t height : {int64_t{1}, width / 3 + 1, width, 2 * width}) {
        const Size got = cut_size({width, height}, how);
        if (got.width % side == 0 && got.height % side == 0 && std::min(got.width, got.height) >= side && std::max(got.width, got.height) == tiles_along(how) * side) continue;
        CAPTURE(side, longest, width, height, got.width, got.height);
        FAIL("a size that is none of the grid's");
      }
    }
  }
}

TEST_CASE("Values are normalised plane by plane") {
  Preprocessing how;
  how.side = 4;
  how.mean = {0.5f, 0.25f, 0};
  how.deviation = {0.5f, 0.5f, 2};
  const Tiles tiles = preprocess(ramp(4, 4), how);
  REQUIRE(tiles.tiles.size() == 1);
  const auto& planes = tiles.tiles[0].planes;
  CHECK(planes[3] == Approx((30 / 255.0 - 0.5) / 0.5));
  CHECK(planes[16 + 12] == Approx((30 / 255.0 - 0.25) / 0.5));
  CHECK(planes[32] == Approx(200 / 255.0 / 2));
}
