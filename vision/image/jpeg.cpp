// JPEG through libjpeg-turbo. Its errors are longjmps: the functions that they may leave hold nothing that has a destructor, everything else
// belongs to the caller's Job. A file that ends in the middle of its pixels is refused, where the library would fill up with grey.
#include <cstdio>
#include <csetjmp>
#include <memory>
#include <string>

#include <jpeglib.h>
#include <jerror.h>

#include "vision/image/decode.hpp"
#include "vision/image/exif.hpp"

namespace vigil::vision {
namespace {

// A progressive file may refine the same pixels again and again: this bounds the time that a small file can take.
constexpr int scans_max = 200;
constexpr unsigned app1_bytes_max = 0xffff;

struct Job {
  jpeg_decompress_struct jpeg{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  jmp_buf leave{};
  std::string error;
  Image image;
  std::unique_ptr<uint8_t[]> line;  // [width, 4], only for CMYK
  bool made = false;

  ~Job() {
    if (made) jpeg_destroy_decompress(&jpeg);
  }
};

Job& job_of(j_common_ptr common) { return *static_cast<Job*>(common->client_data); }

[[noreturn]] void on_error(j_common_ptr common) {
  char words[JMSG_LENGTH_MAX];
  common->err->format_message(common, words);
  job_of(common).error.assign(words);
  std::longjmp(job_of(common).leave, 1);
}

// A warning is data that the library can go on from. With these two what follows would be made up.
void on_message(j_common_ptr common, int level) {
  if (level >= 0) return;
  if (common->err->msg_code == JWRN_JPEG_EOF || common->err->msg_code == JWRN_HIT_MARKER) {
    job_of(common).error.assign("the file ends or breaks off in the middle of them");
    std::longjmp(job_of(common).leave, 1);
  }
}

void on_progress(j_common_ptr common) {
  if (reinterpret_cast<j_decompress_ptr>(common)->input_scan_number <= scans_max) return;
  job_of(common).error.assign("it has more than " + std::to_string(scans_max) + " scans");
  std::longjmp(job_of(common).leave, 1);
}

// May be left by longjmp.
bool read_header(Job& job, std::span<const uint8_t> bytes) {
  if (setjmp(job.leave)) return false;
  jpeg_create_decompress(&job.jpeg);
  job.made = true;
  job.progress.progress_monitor = on_progress;
  job.jpeg.progress = &job.progress;
  jpeg_mem_src(&job.jpeg, bytes.data(), bytes.size());
  jpeg_save_markers(&job.jpeg, JPEG_APP0 + 1, app1_bytes_max);
  jpeg_read_header(&job.jpeg, TRUE);
  return true;
}

// May be left by longjmp.
bool start(Job& job) {
  if (setjmp(job.leave)) return false;
  const J_COLOR_SPACE kind = job.jpeg.jpeg_color_space;
  job.jpeg.out_color_space = kind == JCS_CMYK || kind == JCS_YCCK ? JCS_CMYK : JCS_RGB;
  job.jpeg.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&job.jpeg);
  return true;
}

// Adobe writes ink the other way round: 255 is none. Then red is C * K / 255, and so on.
void cmyk_to_rgb(const uint8_t* from, bool inverted, int64_t width, uint8_t* to) {
  for (int64_t x = 0; x < width; ++x, from += 4, to += 3) {
    const int key = inverted ? from[3] : 255 - from[3];
    for (int c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>(((inverted ? from[c] : 255 - from[c]) * key + 127) / 255);
  }
}

// May be left by longjmp.
bool read_pixels(Job& job) {
  if (setjmp(job.leave)) return false;
  while (job.jpeg.output_scanline < job.jpeg.output_height) {
    uint8_t* const to = job.image.row(job.jpeg.output_scanline).data();
    JSAMPROW row = job.line ? job.line.get() : to;
    jpeg_read_scanlines(&job.jpeg, &row, 1);
    if (job.line) cmyk_to_rgb(job.line.get(), job.jpeg.saw_Adobe_marker != 0, job.image.width(), to);
  }
  return true;
}

int orientation(const jpeg_decompress_struct& jpeg) {
  for (const jpeg_marker_struct* marker = jpeg.marker_list; marker != nullptr; marker = marker->next) {
    constexpr std::string_view exif("Exif\0\0", 6);
    if (marker->marker != JPEG_APP0 + 1 || marker->data_length < exif.size()) continue;
    if (std::string_view(reinterpret_cast<const char*>(marker->data), exif.size()) == exif) return exif_orientation({marker->data, marker->data_length});
  }
  return 1;
}

}  // namespace

Result<Image> decode_jpeg(std::span<const uint8_t> bytes, const DecodeLimits& limits) {
  Job job;
  job.jpeg.err = jpeg_std_error(&job.errors);
  job.errors.error_exit = on_error;
  job.errors.emit_message = on_message;
  job.jpeg.client_data = &job;
  if (!read_header(job, bytes)) return Error{"its header cannot be read: " + job.error};
  if (Result<void> fits = check_size(job.jpeg.image_width, job.jpeg.image_height, limits); !fits) return Error{fits.error()};
  if (!start(job)) return Error{"its pixels cannot be read: " + job.error};
  if (job.jpeg.output_components != (job.jpeg.out_color_space == JCS_CMYK ? 4 : 3)) return Error{"its pixels cannot be read: an unknown layout"};
  job.image = Image(job.jpeg.output_width, job.jpeg.output_height);
  if (job.jpeg.out_color_space == JCS_CMYK) job.line = std::make_unique<uint8_t[]>(size_t{4} * job.jpeg.output_width);
  if (!read_pixels(job)) return Error{"its pixels cannot be read: " + job.error};
  return upright(std::move(job.image), orientation(job.jpeg));
}

}  // namespace vigil::vision
