// WebP through libwebp; of an animation the first frame on its canvas. Container format: "WebP Container Specification" (Google).
#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <memory>
#include <string>

#include "vision/image/decode.hpp"
#include "vision/image/exif.hpp"

namespace vigil::vision {
namespace {

struct EndDemux {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};

std::string status_words(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED: return "the file ends in the middle of them";
    case VP8_STATUS_OUT_OF_MEMORY: return "there is not enough memory for them";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "they use a feature that libwebp does not have";
    default: return "the data is broken";
  }
}

// [height, width, 4], or an error. The size has been checked.
Result<std::unique_ptr<uint8_t[]>> decode_frame(std::span<const uint8_t> bytes, int64_t width, int64_t height) {
  const size_t stride = static_cast<size_t>(4 * width);
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) return Error{"libwebp has another version than it was built with"};
  if (const VP8StatusCode status = WebPGetFeatures(bytes.data(), bytes.size(), &config.input); status != VP8_STATUS_OK) {
    return Error{"its pixels cannot be read: " + status_words(status)};
  }
  if (config.input.width != width || config.input.height != height) return Error{"its parts name different sizes"};
  auto pixels = std::make_unique_for_overwrite<uint8_t[]>(stride * static_cast<size_t>(height));
  config.output.colorspace = MODE_RGBA;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = pixels.get();
  config.output.u.RGBA.stride = static_cast<int>(stride);
  config.output.u.RGBA.size = stride * static_cast<size_t>(height);
  const VP8StatusCode status = WebPDecode(bytes.data(), bytes.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) return Error{"its pixels cannot be read: " + status_words(status)};
  return pixels;
}

int orientation(WebPDemuxer* demuxer) {
  WebPChunkIterator chunk;
  int found = 1;
  if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk)) found = exif_orientation({chunk.chunk.bytes, chunk.chunk.size});
  WebPDemuxReleaseChunkIterator(&chunk);
  return found;
}

}  // namespace

Result<Image> decode_webp(std::span<const uint8_t> bytes, const DecodeLimits& limits) {
  const WebPData data{bytes.data(), bytes.size()};
  const std::unique_ptr<WebPDemuxer, EndDemux> demuxer(WebPDemux(&data));
  if (!demuxer) return Error{"its header cannot be read, or the file ends in the middle of it"};
  const int64_t width = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH), height = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT);
  if (Result<void> fits = check_size(width, height, limits); !fits) return Error{fits.error()};
  WebPIterator frame;
  const bool found = WebPDemuxGetFrame(demuxer.get(), 1, &frame) != 0;
  const std::unique_ptr<WebPIterator, void (*)(WebPIterator*)> release(&frame, WebPDemuxReleaseIterator);
  if (!found || frame.complete == 0) return Error{"it has no whole frame"};
  if (frame.x_offset < 0 || frame.y_offset < 0 || frame.width < 1 || frame.height < 1 || frame.x_offset + int64_t{frame.width} > width ||
      frame.y_offset + int64_t{frame.height} > height) {
    return Error{"its first frame does not lie on its canvas"};
  }
  const auto pixels = decode_frame({frame.fragment.bytes, frame.fragment.size}, frame.width, frame.height);
  if (!pixels) return Error{pixels.error()};
  Image image(width, height);
  if (frame.width != width || frame.height != height) {
    for (int64_t y = 0; y < height; ++y) std::ranges::fill(image.row(y), uint8_t{255});
  }
  const uint8_t* from = pixels->get();
  for (int64_t y = 0; y < frame.height; ++y) {
    uint8_t* to = image.pixel(frame.x_offset, frame.y_offset + y);
    for (int64_t x = 0; x < frame.width; ++x, from += 4, to += 3) {
      for (int c = 0; c < 3; ++c) to[c] = over_white(from[c], from[3]);
    }
  }
  return upright(std::move(image), orientation(demuxer.get()));
}

}  // namespace vigil::vision
