// What ops work on: weights, activation buffers, the KV cache, recurrent state and rope tables, as handles into a backend's memory. Addresses are
// meaningful only to the backend that made them; everything lives as long as that backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "engine/gguf/tensor_type.hpp"

namespace vigil::compute {

// A matrix in the file's own type: `rows` rows of `cols` weights, each row contiguous. A vector is one row.
struct Weight {
  gguf::TensorType type = gguf::TensorType::f32;
  int64_t rows = 0, cols = 0;
  size_t row_bytes = 0;
  const std::byte* address = nullptr;
  const std::byte* packed = nullptr;  // the backend's own arrangement of the same matrix, where it made one
  explicit operator bool() const { return address != nullptr; }  // whether there is one: biases and the like may be absent
};

// Float activations, row-major; ops state the shape that they read it as.
struct Buffer {
  float* address = nullptr;
  int64_t floats = 0;
};

// q8_0 and q4_0 as the weight types of these names: 32 values of a head with one half-precision scale.
enum class KvType { f16, f32, q8_0, q4_0 };
inline bool is_quantised(KvType type) { return type == KvType::q8_0 || type == KvType::q4_0; }
std::string_view name_of(KvType type);
std::optional<KvType> kv_type_named(std::string_view name);

// Positions in a KV block. A block id stands for the same 64 positions in every layer and KV head of its cache.
inline constexpr int64_t kv_block_positions = 64;

// Layers that see everything and those with a window have a cache each, and a sequence a block table for each: blocks that a window has left behind are
// let go, and -1 stands in their places, which no op reads.
enum class BlockTable { whole, window };
inline constexpr int64_t block_tables = 2;

struct KvShape {
  KvType type = KvType::f16;
  int64_t layers = 0, kv_heads = 0, head_dim = 0;
  int64_t blocks = 0;
  BlockTable table = BlockTable::whole;  // of a step, in which its blocks stand
  // Values that a head takes at one position, in whole vectors of 16.
  int64_t head_width() const { return (head_dim + 15) / 16 * 16; }
  // K, or V, of a head at one position; quantised types need a head_dim that is a multiple of 32.
  size_t row_bytes() const {
    switch (type) {
      case KvType::f16: return static_cast<size_t>(head_width()) * 2;
      case KvType::f32: return static_cast<size_t>(head_width()) * 4;
      case KvType::q8_0: return static_cast<size_t>(head_dim / 32) * 34;
      case KvType::q4_0: return static_cast<size_t>(head_dim / 32) * 18;
    }
    return 0;
  }
  // One layer and one KV head of a block: K of 64 positions, then V. How the values lie within each is the backend's own.
  size_t part_bytes() const { return static_cast<size_t>(2 * kv_block_positions) * row_bytes(); }
  // Every layer and head of a block.
  size_t block_bytes() const { return part_bytes() * static_cast<size_t>(layers * kv_heads); }
  size_t bytes() const { return block_bytes() * static_cast<size_t>(blocks); }
};

// Part (block, layer, head) starts at ((block * layers + layer) * kv_heads + head) * part_bytes().
struct KvCache {
  KvShape shape;
  std::byte* address = nullptr;
};

// Layers that remember by a state of fixed size (gated DeltaNet) instead of a growing cache. A slot is the state of every such layer after some
// token of one sequence: for each layer the last `kernel - 1` inputs of the convolution [kernel - 1, channels], oldest first, then for each
// value head a matrix [key_dim, value_dim].
struct StateShape {
  int64_t layers = 0;  // 0 = the model has none
  int64_t kernel = 1, key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0;
  int64_t slots = 0;
  int64_t channels() const { return 2 * key_heads * key_dim + value_heads * value_dim; }  // queries, keys, values in turn
  int64_t convolution_floats() const { return (kernel - 1) * channels(); }
  int64_t layer_floats() const { return convolution_floats() + value_heads * key_dim * value_dim; }
  uint64_t slot_bytes() const { return static_cast<uint64_t>(layers * layer_floats()) * sizeof(float); }
};

// Layer l of slot s starts at (s * layers + l) * layer_floats().
struct StateCache {
  StateShape shape;
  float* address = nullptr;
};

// What a forward pass reads and writes beside its activations.
struct Caches {
  KvCache kv;         // of layers that see everything
  KvCache window_kv;  // of layers with a window
  StateCache states;
};

// Which two values of a head are turned together: neighbours 2i and 2i+1 (llama files), or i and i + rotated/2 (qwen, gemma, gpt-oss).
enum class RopeKind { adjacent, half_split };

struct Rope {
  RopeKind kind = RopeKind::adjacent;
  int64_t rotated = 0;                  // values of a head that are turned, even; the rest passes through
  const double* frequencies = nullptr;  // [rotated / 2], radians per position
  double magnitude = 1;                 // cosines and sines are multiplied by it (YaRN)
  const uint8_t* axes = nullptr;        // [rotated / 2], which of the step's shifts a pair's position has (M-RoPE); null = none has any
};

}  // namespace vigil::compute
