// Pictures for tests, written by the codecs' own libraries or byte by byte, so that what a decoder should give is known.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "vision/image/image.hpp"

namespace vigil::vision::test {

using Bytes = std::vector<uint8_t>;
using Pixel = std::array<uint8_t, 4>;                          // red, green, blue, alpha
using Painter = std::function<Pixel(int64_t x, int64_t y)>;

struct PngKind {
  int colour_type = 2;  // PNG's: 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGB and alpha
  int depth = 8;        // of grey: 1, 8 or 16; else 8 or 16
  bool interlaced = false;
  int orientation = 0;  // an eXIf chunk with it; 0 = none
};
Bytes png(int64_t width, int64_t height, const Painter& paint, const PngKind& kind = {});
// The same file with `count` such chunks between its header and what follows.
Bytes with_chunks(const Bytes& png, int count, std::string_view name, const Bytes& body);
Bytes deflated(const Bytes& bytes);

struct JpegKind {
  enum class Colours { rgb, grey, cmyk, ycck } colours = Colours::rgb;
  bool progressive = false;
  int orientation = 0;
  int quality = 100;
};
Bytes jpeg(int64_t width, int64_t height, const Painter& paint, const JpegKind& kind = {});

Bytes webp(int64_t width, int64_t height, const Painter& paint);  // lossless
// A lossless picture in an extended file with a canvas, as the first frame of an animation or alone, with EXIF.
struct WebpCanvas {
  int64_t width = 0, height = 0, left = 0, top = 0;
  bool animated = false;
  int orientation = 0;
};
Bytes webp_on_canvas(const Bytes& simple, int64_t width, int64_t height, const WebpCanvas& canvas);

struct GifKind {
  int64_t canvas_width = 0, canvas_height = 0, left = 0, top = 0;  // canvas 0: the frame's size
  bool interlaced = false;
  int transparent = -1;
  bool plain_codes = false;  // without ever making a string: every code is a pixel
};
// Colours: index 0 to 7 are the bits red (4), green (2), blue (1).
Bytes gif(int64_t width, int64_t height, const std::function<uint8_t(int64_t, int64_t)>& index, const GifKind& kind = {});

struct BmpKind {
  int bits = 24;
  bool from_top = false, core = false;
  bool masks = false;  // bit fields with alpha in a V4 header; 16 bits: 5-6-5 without alpha
};
Bytes bmp(int64_t width, int64_t height, const Painter& paint, const BmpKind& kind = {});
Bytes run_length_bmp(int64_t width, int64_t height, const Bytes& codes, int bits);  // palette: index i is grey 16 i

Bytes exif(int orientation, bool big_endian = true);  // "Exif\0\0" and one directory entry

// Largest difference of any channel from the painter's colours, put over white.
int difference(const Image& image, const Painter& paint);

}  // namespace vigil::vision::test
