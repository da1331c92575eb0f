// What a projector file says about its encoder: the keys of "clip.vision.*", checked. Nothing in it is trusted. Key names: ggml project,
// gguf-py/gguf/constants.py; what each projector takes for granted where its files say nothing: llama.cpp, tools/mtmd. Not here: tensors.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "engine/gguf/file.hpp"
#include "protocol/result.hpp"
#include "vision/preprocess/preprocess.hpp"

namespace vigil::vision {

// clip.projector_type
enum class Projector {
  gemma3,    // SigLIP, square means over patches, RMSNorm, one matrix
  mlp,       // LLaVA 1.5: CLIP without its last layer, two matrices
  idefics3,  // SigLIP, pixel shuffle, one matrix; also SmolVLM
  qwen25vl,  // two-frame patches, rotary positions, windows, 2 x 2 merger
  qwen3vl,   // two-frame patches, positions from a table stretched to the picture and rotary ones, 2 x 2 merger; no deepstack
};

enum class Activation {
  gelu,        // tanh form
  quick_gelu,  // x / (1 + exp(-1.702 x))
  silu,        // gated: silu(gate) * up
};

// Where CLIP's class token stands in the sequence. Its own place is in front (Radford et al. 2021). The reference appends it behind the patches,
// whose positions then begin one too early, and still leaves out the first row of the result; other programs' embeddings of LLaVA files, the golden
// ones too, are made so.
enum class ClassToken { last, first };

struct EncoderConfig {
  Projector projector = Projector::gemma3;
  std::string projector_name;
  int64_t image_side = 0, patch_side = 0;
  int64_t width = 0, ff = 0, heads = 0, layers = 0;  // layers that run: LLaVA's last one does not
  int64_t out_width = 0;                             // floats of an embedding: the text model's width
  double epsilon = 0;
  Activation activation = Activation::gelu;
  ClassToken class_token = ClassToken::last;
  int64_t merge = 1;           // patches that become one embedding, along each side
  int64_t window_pattern = 0;  // every so many layers one that sees everything, the others see windows; 0 = all see everything
  int64_t window_side = 0;     // pixels
  Preprocessing preprocessing;

  int64_t head_width() const { return width / heads; }
  int64_t grid_side() const { return image_side / patch_side; }  // patches along a side of a square tile
  bool two_frames() const { return projector == Projector::qwen25vl || projector == Projector::qwen3vl; }
  bool by_cells() const { return two_frames(); }  // patches in order of the cells that the merger joins
};

struct EncoderChoices {
  int64_t tokens = 4096;  // most embeddings that qwen's sizes give for one picture: --image-tokens
  ClassToken class_token = ClassToken::last;  // --class-token
};

// Errors name the key.
Result<EncoderConfig> read_encoder_config(const gguf::File& file, const EncoderChoices& choices);

}  // namespace vigil::vision
