// Projector files with random weights, of every projector that the vision child computes, with names, shapes and metadata as real ones: for
// tests and for measuring speed. They see nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/gguf/writer.hpp"
#include "protocol/result.hpp"

namespace vigil::tools {

struct RandomProjector {
  std::string projector = "gemma3";  // clip.projector_type
  gguf::TensorType type = gguf::TensorType::f16;  // of matrices; where a row is no whole number of its blocks, F16
  int64_t image_side = 32, patch_side = 8, width = 16, ff = 24, heads = 2, layers = 2, text_width = 32;
  int64_t merge = 2;           // gemma3 and idefics3
  int64_t longest = 64;        // idefics3
  int64_t window_pattern = 2;  // qwen2.5vl; 0 = no windows
  int64_t window_side = 32;
  bool class_token = true;     // mlp
  bool fused = true;           // qwen3vl: q, k and v in one matrix
  bool swapped_names = false;  // ffn_up and ffn_down as early converters named them
  uint64_t seed = 1;
};

const std::vector<std::string>& random_projectors();  // names that `projector` may have
Result<void> add_random_projector(const RandomProjector& projector, gguf::Writer& out);

}  // namespace vigil::tools
