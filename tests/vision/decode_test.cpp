// Picture files of every kind to pixels: right values where the kind keeps them, upright, over white; broken and lying files are refused.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "picture_support.hpp"
#include "vision/image/decode.hpp"

using namespace vigil;
using namespace vigil::vision;
using namespace vigil::vision::test;

namespace {

Pixel colours(int64_t x, int64_t y) {
  return {static_cast<uint8_t>(7 * x + y), static_cast<uint8_t>(255 - 3 * y), static_cast<uint8_t>(x * y), 255};
}
Pixel smooth(int64_t x, int64_t y) { return {static_cast<uint8_t>(4 * x), static_cast<uint8_t>(4 * y), 128, 255}; }
Pixel seen_through(int64_t x, int64_t y) {
  Pixel pixel = colours(x, y);
  pixel[3] = static_cast<uint8_t>(x * 16 + y);
  return pixel;
}
Pixel grey(int64_t x, int64_t y) {
  const uint8_t value = colours(x, y)[0];
  return {value, value, value, 255};
}

Image decoded(const Bytes& bytes) {
  Result<Image> image = decode_picture(bytes, {});
  INFO((image ? std::string() : image.error()));
  REQUIRE(image);
  return std::move(*image);
}

void check_exact(const Bytes& bytes, const Painter& paint, int64_t width, int64_t height, int allowed = 0) {
  const Image image = decoded(bytes);
  REQUIRE(image.width() == width);
  REQUIRE(image.height() == height);
  CHECK(difference(image, paint) <= allowed);
}

std::string refusal(const Bytes& bytes, const DecodeLimits& limits = {}) {
  const Result<Image> image = decode_picture(bytes, limits);
  REQUIRE_FALSE(image);
  return image.error();
}

Bytes cut(Bytes bytes, size_t length) {
  bytes.resize(length);
  return bytes;
}

void forget_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }
long peak_kib() {
  std::ifstream file("/proc/self/status");
  const std::string status{std::istreambuf_iterator<char>(file), {}};
  return std::atol(status.c_str() + status.find("VmHWM:") + 6);
}

// What stands where orientation 1 to 8 say, of a picture that is `paint` when upright: the file's own pixels.
Painter as_stored(int orientation, const Painter& paint, int64_t width, int64_t height) {
  return [=](int64_t x, int64_t y) {
    switch (orientation) {
      case 2: return paint(width - 1 - x, y);
      case 3: return paint(width - 1 - x, height - 1 - y);
      case 4: return paint(x, height - 1 - y);
      case 5: return paint(y, x);
      case 6: return paint(width - 1 - y, x);  // the file's first row is the right column
      case 7: return paint(width - 1 - y, height - 1 - x);
      case 8: return paint(y, height - 1 - x);  // the file's first row is the left column, from below
      default: return paint(x, y);
    }
  };
}

}  // namespace

TEST_CASE("PNG: every colour type and depth, interlaced or not") {
  for (const bool interlaced : {false, true}) {
    CAPTURE(interlaced);
    check_exact(png(19, 13, colours, {2, 8, interlaced}), colours, 19, 13);
    check_exact(png(19, 13, colours, {2, 16, interlaced}), colours, 19, 13);
    check_exact(png(19, 13, grey, {0, 8, interlaced}), grey, 19, 13);
    check_exact(png(19, 13, grey, {0, 16, interlaced}), grey, 19, 13);
    check_exact(png(15, 13, seen_through, {6, 8, interlaced}), seen_through, 15, 13);
    check_exact(png(15, 13, seen_through, {6, 16, interlaced}), seen_through, 15, 13);
    const auto bits = [](int64_t x, int64_t y) { return (x + y) % 3 == 0 ? Pixel{255, 255, 255, 255} : Pixel{0, 0, 0, 255}; };
    check_exact(png(19, 13, bits, {0, 1, interlaced}), bits, 19, 13);
    // Index 0, black, is transparent in the palette that the support writes.
    const auto eight = [](int64_t x, int64_t y) {
      const int64_t i = (x + y) % 8;
      return Pixel{static_cast<uint8_t>(i & 4 ? 255 : 0), static_cast<uint8_t>(i & 2 ? 255 : 0), static_cast<uint8_t>(i & 1 ? 255 : 0), static_cast<uint8_t>(i == 0 ? 0 : 255)};
    };
    check_exact(png(19, 13, eight, {3, 8, interlaced}), eight, 19, 13);
  }
  const auto shadow = [](int64_t x, int64_t y) { return Pixel{grey(x, y)[0], grey(x, y)[0], grey(x, y)[0], static_cast<uint8_t>(x * 9)}; };
  check_exact(png(19, 13, shadow, {4, 8}), shadow, 19, 13);
}

TEST_CASE("JPEG: colours, grey and ink; progressive too") {
  using Colours = JpegKind::Colours;
  for (const bool progressive : {false, true}) {
    check_exact(jpeg(33, 21, smooth, {Colours::rgb, progressive}), smooth, 33, 21, 4);
    check_exact(jpeg(33, 21, [](int64_t x, int64_t y) { const auto v = static_cast<uint8_t>(4 * x + y); return Pixel{v, v, v, 255}; }, {Colours::grey, progressive}),
                [](int64_t x, int64_t y) { const auto v = static_cast<uint8_t>(4 * x + y); return Pixel{v, v, v, 255}; }, 33, 21, 2);
  }
  check_exact(jpeg(33, 21, smooth, {Colours::cmyk}), smooth, 33, 21, 4);
  check_exact(jpeg(33, 21, smooth, {Colours::ycck}), smooth, 33, 21, 4);
}

TEST_CASE("WebP: lossless with transparency; on a canvas; the first frame of an animation") {
  const auto half = [](int64_t x, int64_t y) { return Pixel{colours(x, y)[0], colours(x, y)[1], 9, static_cast<uint8_t>(x < 5 ? 255 : 100)}; };
  const Bytes simple = webp(10, 6, half);
  check_exact(simple, half, 10, 6);
  const auto placed = [&](int64_t x, int64_t y) { return x >= 4 && x < 14 && y >= 2 && y < 8 ? half(x - 4, y - 2) : Pixel{255, 255, 255, 255}; };
  check_exact(webp_on_canvas(simple, 10, 6, {20, 12, 4, 2, true}), placed, 20, 12);
  check_exact(webp_on_canvas(simple, 10, 6, {10, 6}), half, 10, 6);
  CHECK(refusal(webp_on_canvas(simple, 10, 6, {12, 6})) != "");  // a frame that is not the canvas
}

TEST_CASE("GIF: strings and plain codes, interlaced, on a canvas, transparent") {
  const auto index = [](int64_t x, int64_t y) { return static_cast<uint8_t>((x * x + 3 * y + x * y / 7) % 8); };
  const auto colour_of = [&](int64_t x, int64_t y) {
    const uint8_t i = index(x, y);
    return Pixel{static_cast<uint8_t>(i & 4 ? 255 : 0), static_cast<uint8_t>(i & 2 ? 255 : 0), static_cast<uint8_t>(i & 1 ? 255 : 0), 255};
  };
  check_exact(gif(97, 61, index), colour_of, 97, 61);
  check_exact(gif(211, 190, index), colour_of, 211, 190);  // more than 4,096 strings
  check_exact(gif(90, 40, [](int64_t, int64_t) { return uint8_t{3}; }), [](int64_t, int64_t) { return Pixel{0, 255, 255, 255}; }, 90, 40);  // codes that are being made
  check_exact(gif(9, 7, index, {.plain_codes = true}), colour_of, 9, 7);
  for (const int64_t height : {1, 2, 3, 5, 9, 61}) check_exact(gif(17, height, index, {.interlaced = true}), colour_of, 17, height);
  const auto placed = [&](int64_t x, int64_t y) {
    if (x < 3 || y < 2 || x >= 13 || y >= 8) return Pixel{255, 255, 255, 255};
    Pixel pixel = colour_of(x - 3, y - 2);
    pixel[3] = index(x - 3, y - 2) == 5 ? 0 : 255;
    return pixel;
  };
  check_exact(gif(10, 6, index, {.canvas_width = 20, .canvas_height = 10, .left = 3, .top = 2, .transparent = 5}), placed, 20, 10);
  // A frame that hangs over the canvas is cut off there.
  check_exact(gif(10, 6, index, {.canvas_width = 5, .canvas_height = 4, .left = 2, .top = 0}),
              [&](int64_t x, int64_t y) { return x < 2 ? Pixel{255, 255, 255, 255} : colour_of(x - 2, y); }, 5, 4);
}

TEST_CASE("BMP: palettes, 16, 24 and 32 bits, masks, both directions, run lengths") {
  const auto opaque = [](int64_t x, int64_t y) { return colours(x, y); };
  check_exact(bmp(7, 5, opaque, {24}), opaque, 7, 5);
  check_exact(bmp(7, 5, opaque, {.bits = 24, .from_top = true}), opaque, 7, 5);
  check_exact(bmp(7, 5, opaque, {.bits = 24, .core = true}), opaque, 7, 5);
  check_exact(bmp(7, 5, opaque, {32}), opaque, 7, 5);  // the fourth byte is not alpha in a plain file
  check_exact(bmp(7, 5, seen_through, {.bits = 32, .masks = true}), seen_through, 7, 5);
  check_exact(bmp(7, 5, opaque, {16}), opaque, 7, 5, 8);
  check_exact(bmp(7, 5, opaque, {.bits = 16, .masks = true}), opaque, 7, 5, 8);
  check_exact(bmp(7, 5, grey, {8}), grey, 7, 5);
  const auto steps = [](int64_t x, int64_t y) { const auto v = static_cast<uint8_t>(17 * ((x + y) % 16)); return Pixel{v, v, v, 255}; };
  check_exact(bmp(7, 5, steps, {4}), steps, 7, 5);
  const auto two = [](int64_t x, int64_t y) { return (x * y) % 2 ? Pixel{255, 255, 255, 255} : Pixel{0, 0, 0, 255}; };
  check_exact(bmp(11, 5, two, {1}), two, 11, 5);
  check_exact(bmp(11, 5, two, {.bits = 1, .core = true}), two, 11, 5);
  // Two rows from below: 3 x index 2, end of row; 1 2 as they are (padded), one skipped, end.
  const auto runs = [](int64_t x, int64_t y) {
    const int lower[] = {2, 2, 2, 0}, upper[] = {1, 2, 3, 0};
    const auto v = static_cast<uint8_t>(16 * (y == 1 ? lower[x] : upper[x]));
    return Pixel{v, v, v, 255};
  };
  check_exact(run_length_bmp(4, 2, {3, 2, 0, 0, 0, 3, 1, 2, 3, 0, 0, 1}, 8), runs, 4, 2);
  check_exact(run_length_bmp(4, 2, {3, 0x22, 0, 0, 0, 3, 0x12, 0x30, 0, 1}, 4), runs, 4, 2);
  // Runs of both kinds that go over a row's end, and begin behind it.
  const auto over = [](int64_t x, int64_t y) {
    const int lower[] = {1, 2, 1}, upper[] = {0, 3, 4};
    const auto v = static_cast<uint8_t>(16 * (y == 1 ? lower[x] : upper[x]));
    return Pixel{v, v, v, 255};
  };
  check_exact(run_length_bmp(3, 2, {5, 0x12, 9, 0x55, 0, 3, 0x66, 0x60, 0, 0, 0, 2, 1, 0, 0, 5, 0x34, 0x77, 0x70, 0, 0, 1}, 4), over, 3, 2);
  CHECK(refusal(run_length_bmp(4, 2, {3, 2, 0, 0, 0, 9, 1}, 8)).find("ends in the middle") != std::string::npos);
  check_exact(run_length_bmp(2, 1, {200, 2, 0, 2, 255, 255, 0, 1}, 8), [](int64_t, int64_t) { return Pixel{32, 32, 32, 255}; }, 2, 1);  // beyond the picture
}

TEST_CASE("EXIF orientation turns JPEG, PNG and WebP upright") {
  const Painter paint = [](int64_t x, int64_t y) { return Pixel{static_cast<uint8_t>(20 * x), static_cast<uint8_t>(20 * y), 50, 255}; };
  for (int orientation = 1; orientation <= 8; ++orientation) {
    CAPTURE(orientation);
    const int64_t width = 12, height = 7;
    const bool turned = orientation >= 5;
    const Painter stored = as_stored(orientation, paint, width, height);
    const int64_t file_width = turned ? height : width, file_height = turned ? width : height;
    check_exact(png(file_width, file_height, stored, {.orientation = orientation}), paint, width, height);
    check_exact(webp_on_canvas(webp(file_width, file_height, stored), file_width, file_height, {file_width, file_height, 0, 0, false, orientation}), paint, width, height);
    check_exact(jpeg(file_width, file_height, stored, {.orientation = orientation}), paint, width, height, 4);
  }
  check_exact(png(5, 4, paint, {.orientation = 9}), paint, 5, 4);  // not an orientation
}

TEST_CASE("Sizes are held against the limits before pixels are looked at") {
  // The headers alone claim it: not one of these files has so many bytes.
  Bytes claims = png(40, 30, colours);
  claims[16] = 0x7f;  // the width's first byte; libpng checks the header's checksum first
  CHECK(refusal(claims) != "");
  DecodeLimits small;
  small.pixels = 1199;
  for (const Bytes& bytes : {png(40, 30, colours), jpeg(40, 30, colours), webp(40, 30, colours), bmp(40, 30, colours, {}),
                             gif(40, 30, [](int64_t, int64_t) { return uint8_t{1}; })}) {
    CHECK(refusal(bytes, small).find("40 x 30 pixels large, over the limit of 1199 pixels (vision.image_pixels)") != std::string::npos);
    small.pixels = 1200;
    CHECK(decode_picture(bytes, small));
    small.pixels = 1199;
  }
  Bytes large = bmp(2, 2, colours, {});
  large[21] = 0x7f;
  large[25] = 0x7f;
  CHECK(refusal(large).find("over the limit") != std::string::npos);
  large = bmp(2, 2, colours, {});
  large[18] = 0;
  CHECK(refusal(large).find("no pixel") != std::string::npos);
  large = bmp(2, 2, colours, {});
  large[19] = 0x10;  // 4098 wide: allowed, but the bytes are not there
  CHECK(refusal(large).find("ends in the middle") != std::string::npos);
}

TEST_CASE("Files that end early are refused, wherever they end") {
  const auto index = [](int64_t x, int64_t y) { return static_cast<uint8_t>((x + y) % 8); };
  for (const Bytes& whole : {png(23, 17, colours), jpeg(23, 17, colours), jpeg(23, 17, colours, {.progressive = true}), webp(23, 17, colours),
                             bmp(23, 17, colours, {}), gif(23, 17, index), bmp(23, 17, grey, {8}), bmp(23, 17, seen_through, {.bits = 32, .masks = true}),
                             webp_on_canvas(webp(10, 6, colours), 10, 6, {20, 12, 4, 2, true})}) {
    REQUIRE(decode_picture(whole, {}));
    size_t accepted = 0;
    for (size_t length = 0; length < whole.size(); ++length) {
      const Result<Image> image = decode_picture(cut(whole, length), {});
      if (image) ++accepted;
      else CHECK_FALSE(image.error().empty());
    }
    CHECK(accepted <= 12);  // without the last marks of a file every pixel is still there
  }
}

TEST_CASE("A PNG's chunk that claims more than the file has is refused before memory is taken for it") {
  Bytes lying = png(9, 7, colours, {.orientation = 6});
  const std::string_view text(reinterpret_cast<const char*>(lying.data()), lying.size());
  lying[text.find("eXIf") - 4] = 0x21;  // half a gigabyte
  CHECK(refusal(lying).find("a length in it is wrong") != std::string::npos);
}

TEST_CASE("A PNG's texts, profiles and palettes are passed over, whatever they unpack to") {
  const auto behind = [](std::string_view head, const Bytes& body) {
    Bytes all(head.begin(), head.end());
    all.insert(all.end(), body.begin(), body.end());
    return all;
  };
  const Bytes letters = deflated(Bytes(7u << 20, 'a'));
  Bytes stuffed = png(9, 7, colours, {.orientation = 6});
  using namespace std::string_view_literals;
  stuffed = with_chunks(stuffed, 1, "iCCP", behind("profile\0\0"sv, letters));
  stuffed = with_chunks(stuffed, 30, "zTXt", behind("Comment\0\0"sv, letters));  // 420 MiB in half a megabyte
  stuffed = with_chunks(stuffed, 30, "iTXt", behind("Comment\0\1\0\0\0"sv, letters));
  stuffed = with_chunks(stuffed, 300, "sPLT", behind("palette\0\x08"sv, Bytes(6 * 200)));
  const Bytes turned = png(9, 7, colours, {.orientation = 6});
  Result<Image> seen = decode_picture(turned, {});
  forget_peak();
  const long before = peak_kib();
  const Image image = decoded(stuffed);
  CHECK(peak_kib() - before < 64 * 1024);
  CHECK(image.width() == 7);
  CHECK(image.height() == 9);
  CHECK(std::ranges::equal(image.row(3), seen->row(3)));
  // Nor is a long one a reason to refuse.
  check_exact(with_chunks(png(9, 7, colours), 1, "tEXt", behind("Comment\0"sv, Bytes(9u << 20, 'a'))), colours, 9, 7);
  check_exact(with_chunks(png(9, 7, colours), 1, "vpAg", Bytes(9u << 20)), colours, 9, 7);
}

TEST_CASE("What is no picture is told so") {
  CHECK(refusal({}) == "the picture has no bytes");
  CHECK(refusal({'h', 'e', 'l', 'l', 'o'}).find("no picture that is known") != std::string::npos);
  CHECK(refusal({'B', 'M'}).find("BMP picture: ") == 0);
  Bytes wrong = png(9, 9, colours);
  wrong[wrong.size() - 20] ^= 0x10;  // inside the pixels' data or its checksum
  CHECK(refusal(wrong).find("PNG picture: its pixels cannot be read: ") == 0);
}
