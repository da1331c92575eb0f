// Fuzz target: bytes as a picture file of any format, then what was decoded through the preprocessing of every projector. The codecs' own
// libraries are not instrumented; their crashes show all the same. A mutator of its own mends the checksums of PNG, which hide all else.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "vision/image/decode.hpp"
#include "vision/preprocess/preprocess.hpp"

using namespace vigil;
using namespace vigil::vision;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t capacity);

namespace {

constexpr std::string_view png_mark = "\x89PNG\r\n\x1a\n";
constexpr int64_t most_pixels = 1 << 14;  // keeps a run short; the code is the same

void require(bool truth) {
  if (!truth) std::abort();
}

// CRC-32 of PNG (ISO 3309), bit by bit.
uint32_t checksum(std::span<const uint8_t> bytes) {
  uint32_t sum = 0xffffffff;
  for (const uint8_t byte : bytes) {
    sum ^= byte;
    for (int i = 0; i < 8; ++i) sum = sum >> 1 ^ ((sum & 1) != 0 ? 0xedb88320u : 0u);
  }
  return ~sum;
}

void mend_png(std::span<uint8_t> file) {
  for (size_t at = png_mark.size(); file.size() - at >= 12;) {
    const size_t length = size_t{file[at]} << 24 | size_t{file[at + 1]} << 16 | size_t{file[at + 2]} << 8 | file[at + 3];
    if (length > file.size() - at - 12) return;
    const uint32_t sum = checksum(file.subspan(at + 4, length + 4));
    for (size_t i = 0; i < 4; ++i) file[at + 8 + length + i] = static_cast<uint8_t>(sum >> (24 - 8 * i));
    at += 12 + length;
  }
}

void check_preprocessing(const Image& image) {
  Preprocessing how;
  how.deviation = {0.5f, 0.5f, 0.5f};
  how.side = 16;
  how.longest = 64;
  how.cell = 8;
  how.least_pixels = 4 * 64;
  how.most_pixels = 64 * 64;
  for (const auto rule : {Preprocessing::Rule::square, Preprocessing::Rule::tiles, Preprocessing::Rule::cells}) {
    how.rule = rule;
    const Tiles tiles = preprocess(image, how);
    require(!tiles.tiles.empty() && tiles.tiles.size() <= 17);
    for (const Tile& tile : tiles.tiles) {
      require(tile.planes.size() == static_cast<size_t>(3 * tile.width * tile.height) && tile.width * tile.height <= 64 * 64);
      for (const float value : tile.planes) require(value >= 0 && value <= 2);
    }
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t capacity, unsigned int seed) {
  size = LLVMFuzzerMutate(data, size, capacity);
  if (size >= png_mark.size() && std::memcmp(data, png_mark.data(), png_mark.size()) == 0 && seed % 8 != 0) mend_png({data, size});
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  DecodeLimits limits;
  limits.pixels = most_pixels;
  const Result<Image> image = decode_picture({data, size}, limits);
  if (!image) {
    require(!image.error().empty() && image.error().size() < 400);
    return 0;
  }
  require(image->width() >= 1 && image->height() >= 1 && image->width() * image->height() <= most_pixels);
  uint32_t sum = 0;
  for (int64_t y = 0; y < image->height(); ++y) {
    for (const uint8_t value : image->row(y)) sum += value;
  }
  require(sum <= 3u * 255u * static_cast<uint32_t>(most_pixels));
  check_preprocessing(*image);
  return 0;
}
