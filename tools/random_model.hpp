// Models with random weights, of every architecture and weight type that the engine computes, with names, shapes and metadata as real ones:
// for tests and for measuring speed. They know no language.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/gguf/writer.hpp"
#include "protocol/result.hpp"

namespace vigil::tools {

struct RandomModel {
  std::string architecture = "llama";
  gguf::TensorType type = gguf::TensorType::f16;  // of matrices; where a row is no whole number of its blocks, F16
  int64_t layers = 2, width = 64, ff = 96, heads = 4, kv_heads = 2, head_dim = 16, vocabulary = 97, context = 512;
  int64_t experts = 4, experts_used = 2;          // where the architecture has them; ff is one expert's
  int64_t window = 16;                            // where it has one
  int64_t state_dim = 16, key_heads = 2, value_heads = 4, attention_every = 2;  // where it has recurrent layers
  bool tied = false;
  // As quantisers mix types: the output is Q6_K, and with Q4_K so are the values' and the second feed-forward matrices of half the layers.
  bool mixed = false;
  uint64_t seed = 1;
};

// Names that RandomModel::architecture may have: those of the engine.
const std::vector<std::string>& random_architectures();
// Metadata and tensors, without a vocabulary. The same description gives the same bytes on every machine. Errors name what cannot be made.
Result<void> add_random_model(const RandomModel& model, gguf::Writer& out);
// One tensor's data: `rows` rows of `cols`, near normal around `mean` with about the deviation. Nothing for types without weights and for
// rows that are no whole number of blocks.
Result<std::vector<std::byte>> random_tensor(gguf::TensorType type, int64_t rows, int64_t cols, double deviation, double mean, uint64_t seed);

}  // namespace vigil::tools
