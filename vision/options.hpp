// Command line of vigil-vision.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "protocol/result.hpp"
#include "vision/encoder/config.hpp"
#include "vision/image/decode.hpp"

namespace vigil::vision {

inline constexpr std::string_view usage_text =
    "usage: vigil-vision --mmproj FILE.gguf [--model FILE.gguf] [--threads N] [--image-pixels N] [--image-bytes N] [--image-tokens N]\n"
    "                    [--class-token last|first]\n"
    "  --mmproj FILE      the projector: encoder of pictures and what fits it to the text model\n"
    "  --model FILE       the text model: its width is checked, and marks between tiles are taken from it\n"
    "  --threads N        0 = one for each core that this process may use (default)\n"
    "  --image-pixels N   largest picture, width times height (default 67108864)\n"
    "  --image-bytes N    largest picture file (default 1073741824; the daemon has a lower limit of its own, vision.image_bytes)\n"
    "  --image-tokens N   most embeddings of a picture with projectors that keep its size (default 4096)\n"
    "  --class-token W    where CLIP's class token stands with projector mlp: last as the reference has it (default), first as in CLIP itself\n";

struct Options {
  std::string projector, model;
  int threads = 0;
  int64_t image_bytes = int64_t{1} << 30;
  DecodeLimits decode;
  EncoderChoices encoder;
};

// Errors name the flag.
Result<Options> parse_options(std::span<const std::string_view> arguments);

}  // namespace vigil::vision
