// BMP: 1 to 32 bits, run-length codes, bit fields, both directions. Format: Microsoft, "Bitmap Storage" and BITMAPV5HEADER (wingdi.h).
#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <vector>

#include "vision/image/byte_reader.hpp"
#include "vision/image/decode.hpp"

namespace vigil::vision {
namespace {

constexpr size_t file_header_bytes = 14, core_header_bytes = 12, info_header_bytes = 40;
enum Compression : uint32_t { rgb = 0, rle8 = 1, rle4 = 2, bit_fields = 3, alpha_bit_fields = 6 };

// A run of bits of a pixel, stretched to 0 .. 255.
class Channel {
 public:
  Channel() = default;
  explicit Channel(uint32_t mask) : mask_(mask), shift_(mask == 0 ? 0 : std::countr_zero(mask)), top_(mask >> shift_) {}
  bool present() const { return mask_ != 0; }
  bool one_run() const { return (top_ & (top_ + 1)) == 0; }
  uint8_t of(uint32_t pixel) const {
    if (mask_ == 0) return 0;
    return static_cast<uint8_t>((static_cast<uint64_t>((pixel & mask_) >> shift_) * 255 + top_ / 2) / top_);
  }

 private:
  uint32_t mask_ = 0;
  int shift_ = 0;
  uint32_t top_ = 0;
};

class Reader {
 public:
  Reader(std::span<const uint8_t> bytes, const DecodeLimits& limits) : bytes_(bytes), limits_(limits) {}

  Result<Image> read() {
    if (Result<void> done = read_header(); !done) return Error{done.error()};
    if (Result<void> fits = check_size(width_, height_, limits_); !fits) return Error{fits.error()};
    if (Result<void> done = read_layout(); !done) return Error{done.error()};
    if (data_ > bytes_.size()) return Error{"the file ends before its pixels"};
    const bool runs = compression_ == rle8 || compression_ == rle4;
    // Before the pixels' memory: rows have a fixed length.
    const uint64_t row_bytes = (static_cast<uint64_t>(width_) * bits_ + 31) / 32 * 4;
    if (!runs && row_bytes * static_cast<uint64_t>(height_) > bytes_.size() - data_) return Error{"the file ends in the middle of its pixels"};
    Image image(width_, height_);
    if (runs) {
      if (Result<void> done = read_runs(image); !done) return Error{done.error()};
      return image;
    }
    for (int64_t y = 0; y < height_; ++y) {
      read_row(bytes_.subspan(data_ + static_cast<size_t>(row_bytes) * static_cast<size_t>(y), row_bytes), image.row(from_top_ ? y : height_ - 1 - y).data());
    }
    return image;
  }

 private:
  static Error ends() { return Error{"the file ends in the middle of its header"}; }

  Result<void> read_header() {
    if (bytes_.size() < file_header_bytes + 4) return ends();
    data_ = little32(bytes_, 10);
    header_ = little32(bytes_, file_header_bytes);
    if (header_ != core_header_bytes && (header_ < info_header_bytes || header_ > 1024)) {
      return Error{"its header is of an unknown kind (" + std::to_string(header_) + " bytes)"};
    }
    if (bytes_.size() < file_header_bytes + header_) return ends();
    uint32_t planes = 0;
    if (header_ == core_header_bytes) {
      width_ = little16(bytes_, 18);
      height_ = little16(bytes_, 20);
      planes = little16(bytes_, 22);
      bits_ = little16(bytes_, 24);
    } else {
      width_ = static_cast<int32_t>(little32(bytes_, 18));
      height_ = static_cast<int32_t>(little32(bytes_, 22));
      planes = little16(bytes_, 26);
      bits_ = little16(bytes_, 28);
      compression_ = little32(bytes_, 30);
      colours_ = little32(bytes_, 46);
    }
    if (planes != 1) return Error{"it has " + std::to_string(planes) + " planes, not 1"};
    from_top_ = height_ < 0;
    if (from_top_) height_ = -height_;
    return {};
  }

  Result<void> read_layout() {
    const bool known = compression_ == rgb ? bits_ == 1 || bits_ == 4 || bits_ == 8 || bits_ == 16 || bits_ == 24 || bits_ == 32
                       : compression_ == rle8 ? bits_ == 8 && !from_top_
                       : compression_ == rle4 ? bits_ == 4 && !from_top_
                       : (compression_ == bit_fields || compression_ == alpha_bit_fields) && (bits_ == 16 || bits_ == 32);
    if (!known) return Error{"its layout is not known: " + std::to_string(bits_) + " bits with compression " + std::to_string(compression_)};
    if (bits_ <= 8) return read_palette();
    std::array<uint32_t, 4> masks{0xff0000, 0xff00, 0xff, 0};
    if (bits_ == 16) masks = {0x7c00, 0x3e0, 0x1f, 0};
    if (compression_ != rgb) {
      // Behind the short header, inside the longer ones, at the same place.
      const size_t at = file_header_bytes + info_header_bytes;
      const size_t count = compression_ == alpha_bit_fields || header_ >= info_header_bytes + 16 ? 4 : 3;
      if (bytes_.size() < at + 4 * count) return ends();
      for (size_t i = 0; i < count; ++i) masks[i] = little32(bytes_, at + 4 * i);
    }
    for (size_t i = 0; i < masks.size(); ++i) {
      channels_[i] = Channel(masks[i]);
      if (!channels_[i].one_run() || (i < 3 && !channels_[i].present())) return Error{"its colour masks are broken"};
    }
    return {};
  }

  Result<void> read_palette() {
    const size_t most = size_t{1} << bits_, entry = header_ == core_header_bytes ? 3 : 4;
    const size_t count = colours_ == 0 ? most : std::min<size_t>(colours_, most);
    const size_t at = file_header_bytes + header_;
    if ((bytes_.size() - at) / entry < count) return ends();
    palette_.assign(most, {});  // an index without a colour is black
    for (size_t i = 0; i < count; ++i) {
      for (size_t c = 0; c < 3; ++c) palette_[i][c] = bytes_[at + entry * i + 2 - c];
    }
    return {};
  }

  void read_row(std::span<const uint8_t> from, uint8_t* to) const {
    for (int64_t x = 0; x < width_; ++x, to += 3) {
      const auto place = static_cast<size_t>(x);
      if (bits_ <= 8) {
        const size_t bit = place * bits_;
        const uint32_t index = byte_at(from, bit / 8) >> (8 - bits_ - bit % 8) & ((1u << bits_) - 1);
        std::ranges::copy(palette_[index], to);
      } else if (bits_ == 24) {
        for (size_t c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>(byte_at(from, 3 * place + 2 - c));
      } else {
        const uint32_t pixel = bits_ == 16 ? little16(from, 2 * place) : little32(from, 4 * place);
        const uint8_t alpha = channels_[3].present() ? channels_[3].of(pixel) : uint8_t{255};
        for (size_t c = 0; c < 3; ++c) to[c] = over_white(channels_[c].of(pixel), alpha);
      }
    }
  }

  // Rows from below. 0 0 ends a row, 0 1 the picture, 0 2 moves right and up; what is skipped has colour 0.
  Result<void> read_runs(Image& image) {
    for (int64_t y = 0; y < height_; ++y) {
      for (int64_t x = 0; x < width_; ++x) std::ranges::copy(palette_[0], image.pixel(x, y));
    }
    int64_t x = 0, y = 0;
    // Of a run beyond the row's end only the length is looked at: a file of nothing else would be 2,700 million pixels.
    const auto put = [&](uint32_t count, const auto& index_of) {
      const auto seen = static_cast<uint32_t>(std::clamp<int64_t>(width_ - x, 0, count));
      for (uint32_t i = 0; i < seen; ++i) std::ranges::copy(palette_[index_of(i)], image.pixel(x + i, height_ - 1 - y));
      x += count;
    };
    const bool halves = compression_ == rle4;
    size_t at = data_;
    while (bytes_.size() - at >= 2) {
      const uint32_t count = bytes_[at], value = bytes_[at + 1];
      at += 2;
      if (count > 0) {
        put(count, [&](uint32_t i) { return !halves ? value : i % 2 == 0 ? value >> 4 : value & 15; });
      } else if (value == 0) {
        x = 0;
        ++y;
      } else if (value == 1) {
        return {};
      } else if (value == 2) {
        if (bytes_.size() - at < 2) break;
        x += bytes_[at];
        y += bytes_[at + 1];
        at += 2;
      } else {
        const size_t length = halves ? (value + 1) / 2 : value;
        if (bytes_.size() - at < length) break;
        put(value, [&](uint32_t i) -> uint32_t { return !halves ? bytes_[at + i] : i % 2 == 0 ? bytes_[at + i / 2] >> 4 : bytes_[at + i / 2] & 15; });
        at += length;
        if (length % 2 != 0 && at < bytes_.size()) ++at;  // to an even place
      }
      if (y >= height_) return {};  // a missing end mark
    }
    return Error{"the file ends in the middle of its pixels"};
  }

  std::span<const uint8_t> bytes_;
  const DecodeLimits& limits_;
  size_t data_ = 0, header_ = 0;
  int64_t width_ = 0, height_ = 0;
  bool from_top_ = false;
  uint32_t bits_ = 0, compression_ = rgb, colours_ = 0;
  std::vector<std::array<uint8_t, 3>> palette_;
  std::array<Channel, 4> channels_;  // red, green, blue, alpha
};

}  // namespace

Result<Image> decode_bmp(std::span<const uint8_t> bytes, const DecodeLimits& limits) { return Reader(bytes, limits).read(); }

}  // namespace vigil::vision
