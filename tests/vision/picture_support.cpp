// See picture_support.hpp. Errors of the libraries end the test program: the pictures are our own.
#include "picture_support.hpp"

#include <png.h>
#include <webp/encode.h>
#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <jpeglib.h>

#include "vision/image/image.hpp"

namespace vigil::vision::test {
namespace {

void append(Bytes& to, std::string_view text) { to.insert(to.end(), text.begin(), text.end()); }
void little(Bytes& to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i, value >>= 8) to.push_back(static_cast<uint8_t>(value));
}

void write_to(png_structp png, png_bytep data, size_t count) {
  auto& out = *static_cast<Bytes*>(png_get_io_ptr(png));
  out.insert(out.end(), data, data + count);
}

void put_sample(Bytes& row, uint8_t value, int depth) {
  row.push_back(value);
  if (depth == 16) row.push_back(value);
}

Bytes png_row(int64_t width, int64_t y, const Painter& paint, const PngKind& kind) {
  Bytes row;
  for (int64_t x = 0; x < width; ++x) {
    const Pixel pixel = paint(x, y);
    if (kind.depth == 1) {
      if (x % 8 == 0) row.push_back(0);
      row.back() |= static_cast<uint8_t>((pixel[0] >= 128 ? 1 : 0) << (7 - x % 8));
      continue;
    }
    if (kind.colour_type == 3) {
      row.push_back(static_cast<uint8_t>((pixel[0] >> 7) << 2 | (pixel[1] >> 7) << 1 | pixel[2] >> 7));
      continue;
    }
    for (int c = 0; c < (kind.colour_type & 2 ? 3 : 1); ++c) put_sample(row, pixel[static_cast<size_t>(c)], kind.depth);
    if (kind.colour_type & 4) put_sample(row, pixel[3], kind.depth);
  }
  return row;
}

}  // namespace

Bytes exif(int orientation, bool big) {
  Bytes out;
  append(out, std::string_view("Exif\0\0", 6));
  append(out, big ? std::string_view("MM\0*", 4) : std::string_view("II*\0", 4));
  const auto number = [&](uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out.push_back(static_cast<uint8_t>(value >> 8 * (big ? bytes - 1 - i : i)));
  };
  number(8, 4);
  number(1, 2);
  number(0x0112, 2);
  number(3, 2);
  number(1, 4);
  number(static_cast<uint64_t>(orientation), 2);
  number(0, 2);
  number(0, 4);
  return out;
}

Bytes png(int64_t width, int64_t height, const Painter& paint, const PngKind& kind) {
  Bytes out;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &out, write_to, nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), kind.depth, kind.colour_type,
               kind.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (kind.colour_type == 3) {
    png_color colours[8];
    for (int i = 0; i < 8; ++i) colours[i] = {static_cast<png_byte>(i & 4 ? 255 : 0), static_cast<png_byte>(i & 2 ? 255 : 0), static_cast<png_byte>(i & 1 ? 255 : 0)};
    png_set_PLTE(png, info, colours, 8);
    png_byte alphas[8] = {0, 255, 255, 255, 255, 255, 255, 255};  // black is transparent
    png_set_tRNS(png, info, alphas, 8, nullptr);
  }
  Bytes tiff = exif(kind.orientation);
  if (kind.orientation > 0) png_set_eXIf_1(png, info, static_cast<png_uint_32>(tiff.size() - 6), tiff.data() + 6);
  png_write_info(png, info);
  const int passes = png_set_interlace_handling(png);
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t y = 0; y < height; ++y) png_write_row(png, png_row(width, y, paint, kind).data());
  }
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

Bytes with_chunks(const Bytes& png, int count, std::string_view name, const Bytes& body) {
  Bytes chunk;
  append(chunk, name);
  chunk.insert(chunk.end(), body.begin(), body.end());
  const auto number = [](uint64_t value) {
    Bytes four;
    for (int shift = 24; shift >= 0; shift -= 8) four.push_back(static_cast<uint8_t>(value >> shift));
    return four;
  };
  const Bytes length = number(body.size()), checksum = number(crc32(0, chunk.data(), static_cast<uInt>(chunk.size())));
  chunk.insert(chunk.begin(), length.begin(), length.end());
  chunk.insert(chunk.end(), checksum.begin(), checksum.end());
  constexpr size_t behind_header = 33;
  Bytes out(png.begin(), png.begin() + behind_header);
  for (int i = 0; i < count; ++i) out.insert(out.end(), chunk.begin(), chunk.end());
  out.insert(out.end(), png.begin() + behind_header, png.end());
  return out;
}

Bytes deflated(const Bytes& bytes) {
  Bytes packed(compressBound(bytes.size()));
  uLongf length = packed.size();
  compress2(packed.data(), &length, bytes.data(), bytes.size(), 9);
  packed.resize(length);
  return packed;
}

Bytes jpeg(int64_t width, int64_t height, const Painter& paint, const JpegKind& kind) {
  using Colours = JpegKind::Colours;
  jpeg_compress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg.err = jpeg_std_error(&errors);
  jpeg_create_compress(&jpeg);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&jpeg, &memory, &size);
  jpeg.image_width = static_cast<JDIMENSION>(width);
  jpeg.image_height = static_cast<JDIMENSION>(height);
  const bool ink = kind.colours == Colours::cmyk || kind.colours == Colours::ycck;
  jpeg.input_components = ink ? 4 : kind.colours == Colours::grey ? 1 : 3;
  jpeg.in_color_space = ink ? JCS_CMYK : kind.colours == Colours::grey ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&jpeg);
  if (kind.colours == Colours::ycck) jpeg_set_colorspace(&jpeg, JCS_YCCK);
  jpeg.write_Adobe_marker = ink ? TRUE : FALSE;
  jpeg_set_quality(&jpeg, kind.quality, TRUE);
  for (int i = 0; i < jpeg.num_components; ++i) jpeg.comp_info[i].h_samp_factor = jpeg.comp_info[i].v_samp_factor = 1;
  if (kind.progressive) jpeg_simple_progression(&jpeg);
  jpeg_start_compress(&jpeg, TRUE);
  if (kind.orientation > 0) {
    const Bytes marker = exif(kind.orientation, false);
    jpeg_write_marker(&jpeg, JPEG_APP0 + 1, marker.data(), static_cast<unsigned>(marker.size()));
  }
  for (int64_t y = 0; y < height; ++y) {
    Bytes row;
    for (int64_t x = 0; x < width; ++x) {
      const Pixel pixel = paint(x, y);
      // Adobe's ink is turned round, so that red is C * K / 255: with K = 255 the values are the colours.
      row.insert(row.end(), pixel.begin(), pixel.begin() + (kind.colours == Colours::grey ? 1 : 3));
      if (ink) row.push_back(255);
    }
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&jpeg, &rows, 1);
  }
  jpeg_finish_compress(&jpeg);
  jpeg_destroy_compress(&jpeg);
  Bytes out(memory, memory + size);
  std::free(memory);
  return out;
}

Bytes webp(int64_t width, int64_t height, const Painter& paint) {
  Bytes pixels;
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const Pixel pixel = paint(x, y);
      pixels.insert(pixels.end(), pixel.begin(), pixel.end());
    }
  }
  uint8_t* memory = nullptr;
  const size_t size = WebPEncodeLosslessRGBA(pixels.data(), static_cast<int>(width), static_cast<int>(height), static_cast<int>(4 * width), &memory);
  Bytes out(memory, memory + size);
  WebPFree(memory);
  return out;
}

Bytes webp_on_canvas(const Bytes& simple, int64_t width, int64_t height, const WebpCanvas& canvas) {
  const auto chunk = [](Bytes& to, std::string_view name, const Bytes& body) {
    append(to, name);
    little(to, body.size(), 4);
    to.insert(to.end(), body.begin(), body.end());
    if (body.size() % 2 != 0) to.push_back(0);
  };
  const Bytes picture(simple.begin() + 12, simple.end());  // the VP8L chunk
  Bytes body;
  append(body, "WEBP");
  Bytes extended;
  little(extended, 0x10u | (canvas.animated ? 0x02u : 0u) | (canvas.orientation > 0 ? 0x08u : 0u), 4);
  little(extended, static_cast<uint64_t>(canvas.width - 1), 3);
  little(extended, static_cast<uint64_t>(canvas.height - 1), 3);
  chunk(body, "VP8X", extended);
  if (canvas.animated) {
    Bytes control;
    little(control, 0xffffffff, 4);
    little(control, 0, 2);
    chunk(body, "ANIM", control);
    Bytes frame;
    little(frame, static_cast<uint64_t>(canvas.left / 2), 3);
    little(frame, static_cast<uint64_t>(canvas.top / 2), 3);
    little(frame, static_cast<uint64_t>(width - 1), 3);
    little(frame, static_cast<uint64_t>(height - 1), 3);
    little(frame, 100, 3);
    little(frame, 0, 1);
    frame.insert(frame.end(), picture.begin(), picture.end());
    chunk(body, "ANMF", frame);
  } else {
    body.insert(body.end(), picture.begin(), picture.end());
  }
  if (canvas.orientation > 0) chunk(body, "EXIF", exif(canvas.orientation));
  Bytes out;
  chunk(out, "RIFF", body);
  return out;
}

Bytes gif(int64_t width, int64_t height, const std::function<uint8_t(int64_t, int64_t)>& index, const GifKind& kind) {
  Bytes out;
  append(out, "GIF89a");
  little(out, static_cast<uint64_t>(kind.canvas_width > 0 ? kind.canvas_width : width), 2);
  little(out, static_cast<uint64_t>(kind.canvas_height > 0 ? kind.canvas_height : height), 2);
  out.insert(out.end(), {0x80 | 2, 0, 0});
  for (int i = 0; i < 8; ++i) out.insert(out.end(), {static_cast<uint8_t>(i & 4 ? 255 : 0), static_cast<uint8_t>(i & 2 ? 255 : 0), static_cast<uint8_t>(i & 1 ? 255 : 0)});
  if (kind.transparent >= 0) out.insert(out.end(), {0x21, 0xf9, 4, 1, 0, 0, static_cast<uint8_t>(kind.transparent), 0});
  out.push_back(0x2c);
  for (const int64_t number : {kind.left, kind.top, width, height}) little(out, static_cast<uint64_t>(number), 2);
  out.push_back(kind.interlaced ? 0x40 : 0);
  std::vector<int64_t> rows;
  if (kind.interlaced) {
    for (const auto& [first, step] : {std::pair<int64_t, int64_t>{0, 8}, {4, 8}, {2, 4}, {1, 2}}) {
      for (int64_t y = first; y < height; y += step) rows.push_back(y);
    }
  } else {
    for (int64_t y = 0; y < height; ++y) rows.push_back(y);
  }
  // LZW as a plain search through the strings so far.
  const int first_bits = 3;
  Bytes packed;
  uint32_t held = 0;
  int held_bits = 0;
  const auto put = [&](int code, int bits) {
    held |= static_cast<uint32_t>(code) << held_bits;
    for (held_bits += bits; held_bits >= 8; held_bits -= 8, held >>= 8) packed.push_back(static_cast<uint8_t>(held));
  };
  std::vector<std::pair<int, uint8_t>> strings;  // of code first + 2 + i: the code before, the last index
  int bits = first_bits + 1, current = -1;
  put(8, bits);
  int since_clear = 0;
  for (const int64_t y : rows) {
    for (int64_t x = 0; x < width; ++x) {
      const uint8_t next = index(x, y);
      if (kind.plain_codes) {
        put(next, first_bits + 1);
        if (++since_clear == 5) put(8, first_bits + 1), since_clear = 0;
        continue;
      }
      if (current < 0) {
        current = next;
        continue;
      }
      const auto found = std::find(strings.begin(), strings.end(), std::pair{current, next});
      if (found != strings.end()) {
        current = static_cast<int>(found - strings.begin()) + 10;
        continue;
      }
      put(current, bits);
      strings.emplace_back(current, next);
      const int codes = 10 + static_cast<int>(strings.size());
      if (codes == 4096) {
        put(8, bits);
        strings.clear();
        bits = first_bits + 1;
      } else if (codes == (1 << bits) + 1 && bits < 12) {
        ++bits;
      }
      current = next;
    }
  }
  if (current >= 0) put(current, bits);
  put(9, kind.plain_codes ? first_bits + 1 : bits);
  put(0, 7);
  out.push_back(first_bits);
  for (size_t at = 0; at < packed.size(); at += 255) {
    const size_t many = std::min<size_t>(255, packed.size() - at);
    out.push_back(static_cast<uint8_t>(many));
    out.insert(out.end(), packed.begin() + static_cast<std::ptrdiff_t>(at), packed.begin() + static_cast<std::ptrdiff_t>(at + many));
  }
  out.insert(out.end(), {0, 0x3b});
  return out;
}

Bytes bmp(int64_t width, int64_t height, const Painter& paint, const BmpKind& kind) {
  Bytes palette, pixels, out;
  for (int i = 0; kind.bits <= 8 && i < 1 << kind.bits; ++i) {
    // Grey steps.
    const auto grey = static_cast<uint8_t>(255 * i / ((1 << kind.bits) - 1));
    palette.insert(palette.end(), {grey, grey, grey});
    if (!kind.core) palette.push_back(0);
  }
  for (int64_t line = 0; line < height; ++line) {
    Bytes row;
    uint32_t held = 0;
    int bits = 0;
    for (int64_t x = 0; x < width; ++x) {
      const Pixel p = paint(x, kind.from_top ? line : height - 1 - line);
      if (kind.bits <= 8) {
        held = held << kind.bits | static_cast<uint32_t>((p[0] * ((1 << kind.bits) - 1) + 127) / 255);
        if ((bits += kind.bits) == 8) row.push_back(static_cast<uint8_t>(held)), bits = 0;
      } else if (kind.bits == 16) {
        little(row, kind.masks ? static_cast<uint64_t>(p[0] >> 3 << 11 | p[1] >> 2 << 5 | p[2] >> 3) : static_cast<uint64_t>(p[0] >> 3 << 10 | p[1] >> 3 << 5 | p[2] >> 3), 2);
      } else {
        row.insert(row.end(), {p[2], p[1], p[0]});
        if (kind.bits == 32) row.push_back(kind.masks ? p[3] : 77);
      }
    }
    if (bits > 0) row.push_back(static_cast<uint8_t>(held << (8 - bits)));
    row.resize((row.size() + 3) / 4 * 4);
    pixels.insert(pixels.end(), row.begin(), row.end());
  }
  const size_t header = kind.core ? 12 : kind.masks ? 108 : 40;
  append(out, "BM");
  little(out, 14 + header + palette.size() + pixels.size(), 4);
  little(out, 0, 4);
  little(out, 14 + header + palette.size(), 4);
  little(out, header, 4);
  little(out, static_cast<uint64_t>(width), kind.core ? 2 : 4);
  little(out, static_cast<uint64_t>(kind.from_top ? -height : height), kind.core ? 2 : 4);
  little(out, 1, 2);
  little(out, static_cast<uint64_t>(kind.bits), 2);
  if (!kind.core) {
    little(out, kind.masks ? 3 : 0, 4);
    for (int i = 0; i < 5; ++i) little(out, 0, 4);
  }
  if (kind.masks) {
    for (const uint32_t mask : kind.bits == 16 ? std::array<uint32_t, 4>{0xf800, 0x7e0, 0x1f, 0} : std::array<uint32_t, 4>{0xff0000, 0xff00, 0xff, 0xff000000}) little(out, mask, 4);
    out.resize(14 + header);
  }
  out.insert(out.end(), palette.begin(), palette.end());
  out.insert(out.end(), pixels.begin(), pixels.end());
  return out;
}

Bytes run_length_bmp(int64_t width, int64_t height, const Bytes& codes, int bits) {
  Bytes out;
  append(out, "BM");
  little(out, 0, 8);
  little(out, 14 + 40 + 4 * 16, 4);
  little(out, 40, 4);
  little(out, static_cast<uint64_t>(width), 4);
  little(out, static_cast<uint64_t>(height), 4);
  little(out, 1, 2);
  little(out, static_cast<uint64_t>(bits), 2);
  little(out, bits == 8 ? 1 : 2, 4);
  little(out, 0, 12);
  little(out, 16, 4);
  little(out, 0, 4);
  for (uint8_t i = 0; i < 16; ++i) out.insert(out.end(), {static_cast<uint8_t>(16 * i), static_cast<uint8_t>(16 * i), static_cast<uint8_t>(16 * i), 0});
  out.insert(out.end(), codes.begin(), codes.end());
  return out;
}

int difference(const Image& image, const Painter& paint) {
  int most = 0;
  for (int64_t y = 0; y < image.height(); ++y) {
    for (int64_t x = 0; x < image.width(); ++x) {
      const Pixel pixel = paint(x, y);
      for (size_t c = 0; c < 3; ++c) most = std::max(most, std::abs(image.pixel(x, y)[c] - over_white(pixel[c], pixel[3])));
    }
  }
  return most;
}

}  // namespace vigil::vision::test
