// Writes the seeds of the fuzz target `image`: test_vision "[seeds]", by hand when a kind is added. Every seed must decode.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <string>

#include "picture_support.hpp"
#include "vision/image/decode.hpp"

using namespace vigil::vision;
using namespace vigil::vision::test;

namespace {

void write(const std::string& name, const Bytes& bytes) {
  REQUIRE(decode_picture(bytes, {}));
  const std::filesystem::path folder = std::filesystem::path(VIGIL_SOURCE_DIR) / "tests/fuzz/seeds/image";
  std::filesystem::create_directories(folder);
  std::ofstream file(folder / name, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  REQUIRE(file);
}

}  // namespace

TEST_CASE("Seeds of the fuzz target image", "[.][seeds]") {
  const Painter paint = [](int64_t x, int64_t y) { return Pixel{static_cast<uint8_t>(20 * x), static_cast<uint8_t>(30 * y), 90, static_cast<uint8_t>(255 - 9 * x)}; };
  const auto index = [](int64_t x, int64_t y) { return static_cast<uint8_t>((x * y + y) % 8); };
  for (const int type : {0, 2, 3, 4, 6}) {
    write("png_" + std::to_string(type), png(9, 7, paint, {type, 8, false}));
    write("png_interlaced_" + std::to_string(type), png(9, 7, paint, {type, 8, true}));
    if (type != 3) write("png_16_" + std::to_string(type), png(5, 4, paint, {type, 16, false}));
  }
  write("png_1_bit", png(19, 5, paint, {0, 1, false}));
  write("png_exif", png(9, 7, paint, {.orientation = 6}));
  for (const bool progressive : {false, true}) {
    const std::string name = progressive ? "jpeg_progressive_" : "jpeg_";
    write(name + "rgb", jpeg(17, 12, paint, {JpegKind::Colours::rgb, progressive, 5, 80}));
    write(name + "grey", jpeg(17, 12, paint, {JpegKind::Colours::grey, progressive, 0, 80}));
    write(name + "ink", jpeg(17, 12, paint, {JpegKind::Colours::cmyk, progressive, 0, 80}));
    write(name + "ycck", jpeg(17, 12, paint, {JpegKind::Colours::ycck, progressive, 0, 80}));
  }
  write("webp", webp(12, 8, paint));
  write("webp_exif", webp_on_canvas(webp(12, 8, paint), 12, 8, {12, 8, 0, 0, false, 8}));
  write("webp_animated", webp_on_canvas(webp(12, 8, paint), 12, 8, {20, 14, 4, 2, true, 3}));
  write("gif", gif(23, 17, index));
  write("gif_interlaced", gif(23, 17, index, {.interlaced = true}));
  write("gif_placed", gif(9, 8, index, {.canvas_width = 14, .canvas_height = 12, .left = 3, .top = 2, .transparent = 4}));
  write("gif_plain_codes", gif(9, 7, index, {.plain_codes = true}));
  for (const int bits : {1, 4, 8, 16, 24, 32}) write("bmp_" + std::to_string(bits), bmp(9, 5, paint, {bits}));
  write("bmp_core", bmp(9, 5, paint, {.bits = 8, .core = true}));
  write("bmp_from_top", bmp(9, 5, paint, {.bits = 24, .from_top = true}));
  write("bmp_masks_16", bmp(9, 5, paint, {.bits = 16, .masks = true}));
  write("bmp_masks_32", bmp(9, 5, paint, {.bits = 32, .masks = true}));
  write("bmp_runs_8", run_length_bmp(4, 2, {3, 2, 0, 0, 0, 3, 1, 2, 3, 0, 0, 2, 1, 0, 0, 1}, 8));
  write("bmp_runs_4", run_length_bmp(4, 2, {3, 0x22, 0, 0, 0, 3, 0x12, 0x30, 0, 1}, 4));
}
