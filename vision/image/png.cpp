// PNG through libpng. Its errors are longjmps: the functions that they may leave hold nothing that has a destructor, everything else belongs
// to the caller's Job. Transparency is put over white here and not by libpng, which would ask for the file's gamma.
#include <png.h>

#include <csetjmp>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "vision/image/byte_reader.hpp"
#include "vision/image/decode.hpp"
#include "vision/image/exif.hpp"

namespace vigil::vision {
namespace {

struct Job {
  std::span<const uint8_t> bytes;
  size_t at = 0;
  const DecodeLimits* limits = nullptr;
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string error;
  Image image;
  std::unique_ptr<uint8_t[]> with_alpha;  // [height, width, 4], only for pictures that may be transparent; not cleared, as Image
  std::vector<png_bytep> rows;
  int orientation = 1;

  ~Job() {
    if (png != nullptr) png_destroy_read_struct(&png, info != nullptr ? &info : nullptr, nullptr);
  }
};

void on_error(png_structp png, png_const_charp words) {
  static_cast<Job*>(png_get_error_ptr(png))->error.assign(words);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep into, size_t count) {
  Job& job = *static_cast<Job*>(png_get_io_ptr(png));
  if (count > job.bytes.size() - job.at) png_error(png, "the file ends in the middle of it");
  std::memcpy(into, job.bytes.data() + job.at, count);
  job.at += count;
}

// Texts, profiles and palettes that nothing here uses are passed over, neither unpacked nor kept: a file of 8 MB can hold a thousand of them, each
// of 8 MB when unpacked.
void skip_what_is_not_used(png_structp png) {
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // -1: the known ones too, but for those that pixels need
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_AS_DEFAULT, reinterpret_cast<png_const_bytep>("eXIf"), 1);  // the orientation
}

// May be left by longjmp.
bool read_header(Job& job) {
  if (setjmp(png_jmpbuf(job.png))) return false;
  png_set_read_fn(job.png, &job, read_bytes);
  png_set_user_limits(job.png, 0x7fffffff, 0x7fffffff);  // check_size judges, with words of its own
  png_set_chunk_malloc_max(job.png, job.bytes.size());   // of what is left no chunk grows when it is read, and chunks_fit holds it within the file
  skip_what_is_not_used(job.png);
  png_read_info(job.png, job.info);
  return true;
}

// Everything becomes 8-bit RGB or RGBA. May be left by longjmp.
bool set_up(Job& job, bool& alpha, int& passes) {
  if (setjmp(png_jmpbuf(job.png))) return false;
  png_set_expand(job.png);
  png_set_scale_16(job.png);
  png_set_gray_to_rgb(job.png);
  passes = png_set_interlace_handling(job.png);
  png_read_update_info(job.png, job.info);
  alpha = png_get_channels(job.png, job.info) == 4;
  return png_get_bit_depth(job.png, job.info) == 8 && (alpha || png_get_channels(job.png, job.info) == 3);
}

// May be left by longjmp.
bool read_pixels(Job& job) {
  if (setjmp(png_jmpbuf(job.png))) return false;
  png_read_image(job.png, job.rows.data());
  png_read_end(job.png, job.info);
  png_bytep exif = nullptr;
  png_uint_32 exif_bytes = 0;
  if (png_get_eXIf_1(job.png, job.info, &exif_bytes, &exif) != 0) job.orientation = exif_orientation({exif, exif_bytes});
  return true;
}

void put_over_white(const uint8_t* from, Image& into) {
  for (int64_t y = 0; y < into.height(); ++y) {
    uint8_t* to = into.row(y).data();
    for (int64_t x = 0; x < into.width(); ++x, from += 4, to += 3) {
      for (int c = 0; c < 3; ++c) to[c] = over_white(from[c], from[3]);
    }
  }
}

// Every chunk lies within the file. libpng takes memory for what a chunk's length claims before it reads it.
bool chunks_fit(std::span<const uint8_t> bytes) {
  constexpr size_t mark_bytes = 8, around = 12;  // a chunk's length, name and checksum
  for (size_t at = mark_bytes; at < bytes.size();) {
    if (bytes.size() - at < around) return false;
    const size_t length = big32(bytes, at);
    if (length > bytes.size() - at - around) return false;
    if (big32(bytes, at + 4) == 0x49454e44) return true;  // IEND; what stands behind it is nobody's
    at += around + length;
  }
  return false;
}

}  // namespace

Result<Image> decode_png(std::span<const uint8_t> bytes, const DecodeLimits& limits) {
  constexpr size_t header_bytes = 33;  // the mark and IHDR, whose size is told first
  if (bytes.size() >= header_bytes && big32(bytes, 12) == 0x49484452) {  // IHDR
    if (Result<void> fits = check_size(big32(bytes, 16), big32(bytes, 20), limits); !fits) return Error{fits.error()};
  }
  if (!chunks_fit(bytes)) return Error{"the file ends in the middle of it, or a length in it is wrong"};
  Job job;
  job.bytes = bytes;
  job.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, on_error, on_warning);
  if (job.png != nullptr) job.info = png_create_info_struct(job.png);
  if (job.info == nullptr) return Error{"there is not enough memory for it"};
  if (!read_header(job)) return Error{"its header cannot be read: " + job.error};
  const int64_t width = png_get_image_width(job.png, job.info), height = png_get_image_height(job.png, job.info);
  if (Result<void> fits = check_size(width, height, limits); !fits) return Error{fits.error()};
  bool alpha = false;
  int passes = 0;
  if (!set_up(job, alpha, passes)) return Error{"its pixels cannot be read: " + (job.error.empty() ? "an unknown layout" : job.error)};
  job.image = Image(width, height);
  if (alpha) job.with_alpha = std::make_unique_for_overwrite<uint8_t[]>(static_cast<size_t>(4 * width * height));
  job.rows.resize(static_cast<size_t>(height));
  for (int64_t y = 0; y < height; ++y) {
    job.rows[static_cast<size_t>(y)] = alpha ? job.with_alpha.get() + 4 * width * y : job.image.row(y).data();
  }
  if (!read_pixels(job)) return Error{"its pixels cannot be read: " + job.error};
  if (alpha) put_over_white(job.with_alpha.get(), job.image);
  return upright(std::move(job.image), job.orientation);
}

}  // namespace vigil::vision
