// The numbers that describe a model, read from a GGUF header and checked one by one: whatever passes is safe to divide by and to index
// with. Not here: tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/gguf/file.hpp"
#include "protocol/result.hpp"

namespace vigil::model {

// Caps on claims, each far above real models.
struct ConfigLimits {
  int64_t layers = 1'024;
  int64_t width = 1 << 20;
  int64_t heads = 4'096;
  int64_t head_dim = 4'096;
  int64_t context = int64_t{1} << 30;
  int64_t experts = 65'536;
  int64_t kernel = 256;  // inputs of a convolution
};

// How rope is stretched beyond the context that a model was first trained with.
struct RopeScaling {
  enum class Kind { none, linear, yarn };
  Kind kind = Kind::none;
  double factor = 1;             // positive; YaRN at least 1
  int64_t original_context = 0;  // tokens; YaRN only, like all below
  double magnitude = 1;          // beside the usual 1 + 0.1 ln(factor)
  double fast_turns = 32, slow_turns = 1;
};

// Layers of experts; count 0 = the model has none.
struct ExpertConfig {
  int64_t count = 0;
  int64_t used = 0;       // of them for a token, 1 to count
  int64_t ff = 0;         // feed-forward length of one
  int64_t shared_ff = 0;  // of the expert that every token uses; 0 = none
};

// Gated DeltaNet layers; kernel 0 = the model has none.
struct RecurrentConfig {
  int64_t kernel = 0;
  int64_t key_heads = 0, value_heads = 0;  // the latter a multiple of the former
  int64_t key_dim = 0, value_dim = 0;      // of a head
  int64_t attention_every = 0;             // every n-th layer is attention, the others are recurrent
};

struct Config {
  std::string architecture;
  int64_t layers = 0;
  int64_t width = 0;        // embedding length
  int64_t ff = 0;           // feed-forward length; 0 in models of experts that have no other
  int64_t heads = 0;        // query heads, a multiple of kv_heads
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t rotated = 0;      // values of a head that rope turns, even, at most head_dim
  int64_t trained_context = 0;
  double epsilon = 0;       // of every RMSNorm
  double rope_base = 0;
  RopeScaling rope_scaling;
  std::vector<int64_t> rope_sections;  // pairs of a head that turn by time, height and width (M-RoPE, Wang et al. 2024), none = all turn by one position
  int64_t window = 0;             // positions that a windowed layer's attention sees; 0 = no layer has a window
  int64_t window_pattern = 0;     // every n-th layer sees everything; 0 = the architecture's own
  double window_rope_base = 0;    // of windowed layers; 0 = the architecture's own
  ExpertConfig experts;
  RecurrentConfig recurrent;
};

// Everything that a header says about a decoder model. Which parts an architecture needs or cannot have, it asks for below. Errors name
// the key.
Result<Config> read_config(const gguf::File& file, const ConfigLimits& limits = {});

Result<void> need_feed_forward(const Config& config);
Result<void> need_experts(const Config& config);
Result<void> need_recurrent(const Config& config);
Result<void> need_window(const Config& config);
Result<void> refuse_experts(const Config& config);

}  // namespace vigil::model
