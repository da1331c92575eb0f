// GIF, the first frame on its canvas. Format: CompuServe, "Graphics Interchange Format, Version 89a" (1990), appendix F for the LZW code.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "vision/image/byte_reader.hpp"
#include "vision/image/decode.hpp"

namespace vigil::vision {
namespace {

constexpr uint8_t extension = 0x21, image_separator = 0x2c, trailer = 0x3b, graphic_control = 0xf9;
constexpr int max_code_bits = 12, max_codes = 1 << max_code_bits;

using Colour = std::array<uint8_t, 3>;

struct Frame {
  int64_t left = 0, top = 0, width = 0, height = 0;
  bool interlaced = false;
  std::vector<Colour> table;
  int transparent = -1;  // index, or none
};

class Reader {
 public:
  Reader(std::span<const uint8_t> bytes, const DecodeLimits& limits) : bytes_(bytes), limits_(limits) {}

  Result<Image> read() {
    if (bytes_.size() < 13) return ends();
    width_ = little16(bytes_, 6);
    height_ = little16(bytes_, 8);
    const uint32_t flags = bytes_[10];
    at_ = 13;
    if ((flags & 0x80) != 0 && !read_table(flags, global_)) return ends();
    while (at_ < bytes_.size()) {
      const uint8_t kind = bytes_[at_++];
      if (kind == trailer) return Error{"it holds no frame"};
      if (kind == extension) {
        if (!read_extension()) return ends();
      } else if (kind == image_separator) {
        return read_frame();
      } else {
        return Error{"it has an unknown block at byte " + std::to_string(at_ - 1)};
      }
    }
    return ends();
  }

 private:
  static Error ends() { return Error{"the file ends in the middle of it"}; }

  bool read_table(uint32_t flags, std::vector<Colour>& table) {
    const size_t entries = size_t{2} << (flags & 7);
    if (bytes_.size() - at_ < 3 * entries) return false;
    table.resize(entries);
    for (Colour& colour : table) {
      std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(at_), 3, colour.begin());
      at_ += 3;
    }
    return true;
  }

  bool read_extension() {
    if (at_ >= bytes_.size()) return false;
    const uint8_t label = bytes_[at_++];
    // Of the graphic control block: flags, delay (2), the transparent index.
    if (label == graphic_control && bytes_.size() - at_ >= 6 && bytes_[at_] >= 4) {
      transparent_ = (bytes_[at_ + 1] & 1) != 0 ? bytes_[at_ + 4] : -1;
    }
    while (at_ < bytes_.size()) {
      const size_t length = bytes_[at_++];
      if (length == 0) return true;
      if (bytes_.size() - at_ < length) return false;
      at_ += length;
    }
    return false;
  }

  Result<Image> read_frame() {
    if (bytes_.size() - at_ < 10) return ends();
    Frame frame;
    frame.left = little16(bytes_, at_);
    frame.top = little16(bytes_, at_ + 2);
    frame.width = little16(bytes_, at_ + 4);
    frame.height = little16(bytes_, at_ + 6);
    const uint32_t flags = bytes_[at_ + 8];
    frame.interlaced = (flags & 0x40) != 0;
    frame.transparent = transparent_;
    at_ += 9;
    if ((flags & 0x80) != 0) {
      if (!read_table(flags, frame.table)) return ends();
    } else {
      frame.table = global_;
    }
    if (frame.table.empty()) return Error{"its first frame has no colours"};
    // Some writers leave the canvas empty; then the frame is all there is.
    const int64_t width = width_ > 0 ? width_ : frame.left + frame.width, height = height_ > 0 ? height_ : frame.top + frame.height;
    if (Result<void> fits = check_size(width, height, limits_); !fits) return Error{fits.error()};
    if (Result<void> fits = check_size(frame.width, frame.height, limits_); !fits) return Error{"its first frame: " + fits.error()};
    Image image(width, height);
    if (frame.left != 0 || frame.top != 0 || frame.width < width || frame.height < height) {
      for (int64_t y = 0; y < height; ++y) std::ranges::fill(image.row(y), uint8_t{255});
    }
    if (Result<void> done = read_pixels(frame, image); !done) return Error{done.error()};
    return image;
  }

  // The n-th row of an interlaced frame: every 8th from 0, every 8th from 4, every 4th from 2, every 2nd from 1.
  static int64_t row_of(int64_t n, int64_t height) {
    constexpr struct { int64_t first, step; } passes[] = {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
    for (const auto& pass : passes) {
      const int64_t rows = height > pass.first ? (height - pass.first + pass.step - 1) / pass.step : 0;
      if (n < rows) return pass.first + n * pass.step;
      n -= rows;
    }
    return height;
  }

  void put(const Frame& frame, int64_t place, uint8_t index, Image& image) const {
    const int64_t row = place / frame.width;
    const int64_t x = frame.left + place % frame.width, y = frame.top + (frame.interlaced ? row_of(row, frame.height) : row);
    if (x >= image.width() || y >= image.height()) return;  // what lies outside the canvas is not shown
    // An index that the table has not: black, as for readers that clear their tables.
    const Colour colour = index == frame.transparent ? Colour{255, 255, 255} : index < frame.table.size() ? frame.table[index] : Colour{};
    std::ranges::copy(colour, image.pixel(x, y));
  }

  // The next code of `bits` bits; -1 at the end. Data comes in sub-blocks of up to 255 bytes.
  int next_code(int bits) {
    while (held_bits_ < bits) {
      if (block_left_ == 0) {
        if (at_ >= bytes_.size()) return -1;
        block_left_ = bytes_[at_++];
        if (block_left_ == 0) return -1;
      }
      if (at_ >= bytes_.size()) return -1;
      held_ |= static_cast<uint32_t>(bytes_[at_++]) << held_bits_;
      held_bits_ += 8;
      --block_left_;
    }
    const int code = static_cast<int>(held_ & ((1u << bits) - 1));
    held_ >>= bits;
    held_bits_ -= bits;
    return code;
  }

  Result<void> read_pixels(const Frame& frame, Image& image) {
    if (at_ >= bytes_.size()) return ends();
    const int first_bits = bytes_[at_++];
    if (first_bits < 1 || first_bits > 8) return Error{"its codes have " + std::to_string(first_bits) + " bits; 1 to 8 are allowed"};
    const int clear = 1 << first_bits, end = clear + 1;
    int bits = first_bits + 1, codes = end + 1, previous = -1;
    const int64_t pixels = frame.width * frame.height;
    int64_t place = 0;
    while (place < pixels) {
      const int code = next_code(bits);
      if (code < 0) return Error{"the file ends in the middle of its pixels"};
      if (code == end) return Error{"its pixels end early"};
      if (code == clear) {
        bits = first_bits + 1;
        codes = end + 1;
        previous = -1;
        continue;
      }
      if (code > codes || (code == codes && previous < 0)) return Error{"its pixels cannot be read: a code that is not there yet"};
      // A code that is being made right now is the previous string and its own first character.
      const int from = code == codes ? previous : code;
      size_t length = unfold(from, clear);
      const uint8_t first = string_[length - 1];
      for (size_t i = length; i > 0 && place < pixels; --i) put(frame, place++, string_[i - 1], image);
      if (code == codes && place < pixels) put(frame, place++, first, image);
      if (previous >= 0 && codes < max_codes) {
        prefix_[static_cast<size_t>(codes)] = static_cast<uint16_t>(previous);
        suffix_[static_cast<size_t>(codes)] = first;
        ++codes;
        if (codes == 1 << bits && bits < max_code_bits) ++bits;
      }
      previous = code;
    }
    return {};
  }

  // string_ = the code's string, last character first. Codes refer to smaller ones alone, so it ends.
  size_t unfold(int code, int clear) {
    size_t length = 0;
    while (code > clear + 1) {
      string_[length++] = suffix_[static_cast<size_t>(code)];
      code = prefix_[static_cast<size_t>(code)];
    }
    string_[length++] = static_cast<uint8_t>(code);
    return length;
  }

  std::span<const uint8_t> bytes_;
  const DecodeLimits& limits_;
  size_t at_ = 0;
  int64_t width_ = 0, height_ = 0;
  std::vector<Colour> global_;
  int transparent_ = -1;
  uint32_t held_ = 0;
  int held_bits_ = 0, block_left_ = 0;
  std::array<uint16_t, max_codes> prefix_{};
  std::array<uint8_t, max_codes> suffix_{};
  std::array<uint8_t, max_codes + 1> string_{};
};

}  // namespace

Result<Image> decode_gif(std::span<const uint8_t> bytes, const DecodeLimits& limits) { return Reader(bytes, limits).read(); }

}  // namespace vigil::vision
