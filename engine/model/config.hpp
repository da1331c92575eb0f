// The numbers that describe a model, read from a GGUF header and checked one by one: whatever passes is safe to divide by and to index
// with. Not here: tensors.
#pragma once

#include <cstdint>
#include <string>

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
};

struct Config {
  std::string architecture;
  int64_t layers = 0;
  int64_t width = 0;        // embedding length
  int64_t ff = 0;           // feed-forward length
  int64_t heads = 0;        // query heads, a multiple of kv_heads
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t rotated = 0;      // values of a head that rope turns, even, at most head_dim
  int64_t trained_context = 0;
  double epsilon = 0;       // of every RMSNorm
  double rope_base = 0;
  double rope_divisor = 1;  // linear scaling: positions are divided by it
};

// The fields that decoder models share. Errors name the key.
Result<Config> read_config(const gguf::File& file, const ConfigLimits& limits = {});

}  // namespace vigil::model
