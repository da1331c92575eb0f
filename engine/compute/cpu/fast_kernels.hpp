// The arithmetic of the fast backend, once for each instruction set: a table of functions on plain arrays. All instruction sets give the
// same bits. Not here: threads, handles, and the arrangement of weights (packed.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/compute/cpu/kernels.hpp"
#include "engine/compute/ops.hpp"
#include "engine/gguf/tensor_type.hpp"

namespace vigil::compute::cpu {

// One input row, rounded to eight bits in blocks of 32 columns, each with its own scale: value = code * scale. Negated sums of the codes take
// the offset of unsigned weight codes away; `sums` (scale * sum of codes) multiply the offsets that some weight types have.
struct QuantisedRow {
  int8_t* codes;            // [cols]
  float* scales;            // [cols / 32]
  float* sums;              // [cols / 32]
  int32_t* negative_sums;   // [cols / 32]
  int32_t* negative_halves; // [cols / 16]
};
// Rows lie `quantised_row_bytes` apart, aligned to a cache line.
inline int64_t quantised_row_bytes(int64_t cols) { return (cols + cols / 32 * 12 + cols / 16 * 4 + 63) / 64 * 64; }
inline QuantisedRow quantised_row(std::byte* memory, int64_t cols) {
  QuantisedRow row;
  row.codes = reinterpret_cast<int8_t*>(memory);
  row.scales = reinterpret_cast<float*>(memory + cols);
  row.sums = row.scales + cols / 32;
  row.negative_sums = reinterpret_cast<int32_t*>(row.sums + cols / 32);
  row.negative_halves = row.negative_sums + cols / 32;
  return row;
}

// One row of a product: its input in the form that the weights need, and where its results begin.
struct ProductRow {
  QuantisedRow quantised;  // for integer types
  const float* floats;     // for float types
  float* out;              // of the first row of weights
};

// A group of sixteen weight rows, unpacked: bytes and float scales, for products of many rows. `halves` types have two scales in 32 columns.
struct Panel {
  uint8_t* room;         // for codes that must be made
  const uint8_t* codes;  // [cols / 32][8][64], in `room` or, where the packed form has the same order, in the packed group itself
  float* scales;    // [cols / 32][1 or 2][16]
  float* offsets;   // as scales; null without
};
inline int64_t panel_floats(int64_t cols) { return cols / 32 * 128 + cols / 32 * 64; }  // room for codes, scales and offsets
inline Panel panel_in(float* memory, int64_t cols) {
  uint8_t* room = reinterpret_cast<uint8_t*>(memory);
  return {room, room, memory + cols / 32 * 128, memory + cols / 32 * 160};
}

// Where the weights lie that will be unpacked next; none at a matrix's end.
struct NextGroups {
  const std::byte* from = nullptr;
  int64_t bytes = 0;
};

// K is kept [head_dim][64], V [64][head_dim rounded up to 16], so that lanes are positions for scores and dimensions for sums. Quantised
// types: first the half-precision scales, [head_dim / 32][64] of K and [64][head_dim / 32] of V, then the codes: signed bytes in the same
// order, or nibbles less 8, two sixteens of a block's 32 dimensions in one byte: K [head_dim / 32][16][64], V [64][head_dim / 32][16].
// V follows K.
struct KvBlock {
  const std::byte* keys;
  const std::byte* values;
  const std::byte* next = nullptr;  // the keys of the block after this one; null for the last
};

// K or V of a block as floats.
inline int64_t widened_floats(int64_t head_dim) { return kv_block_positions * ((head_dim + 15) / 16 * 16); }

// One query head of one row, on its way through the KV blocks.
struct Query {
  const float* values;  // [head_dim]
  float* sum;           // [head_dim rounded up to 16], the accumulator
  float maximum, weight;
  int64_t oldest, end;  // positions that it may see
};
inline constexpr int64_t queries_in_tile = 64;  // their accumulators stay in the first-level cache

// Some channels of a causal convolution.
struct Convolution {
  int64_t taps, channels, lanes;
  const float* kernel;  // [taps][16], the newest input's last
};
inline constexpr int64_t max_taps = 8;

struct FastKernels {
  const char* name;

  void (*quantise_row)(const float* in, int64_t cols, const QuantisedRow& out);
  // out[first to first + lanes - 1] of each row = the group's rows times the input, for types that packed_form() knows.
  void (*few)(gguf::TensorType type, const std::byte* group, int64_t cols, const ProductRow* rows, int64_t count, int64_t first, int64_t lanes);
  // The same with rows as the file has them, for codebook types; false for others. `lanes` rows follow one another.
  bool (*few_from_file)(gguf::TensorType type, const std::byte* matrix, int64_t row_bytes, int64_t cols, const ProductRow* rows, int64_t count,
                        int64_t first, int64_t lanes);
  // Input rows from which unpacking pays, as measured, for a type that few() or few_from_file() takes.
  int64_t (*many_from)(gguf::TensorType type);
  void (*unpack)(gguf::TensorType type, const std::byte* group, int64_t cols, Panel& panel);
  // Rows as the file has them, where that can be done faster than by unpack_rows() (panel_types.hpp); false elsewhere.
  bool (*unpack_from_file)(gguf::TensorType type, const std::byte* matrix, int64_t row_bytes, int64_t cols, int64_t lanes, const Panel& panel);
  // The same for two adjacent unpacked groups of an integer type: lanes is at most 32. `next` is asked of the memory meanwhile.
  void (*many)(gguf::TensorType type, const Panel panels[2], int64_t cols, const ProductRow* rows, int64_t count, int64_t first, int64_t lanes,
               const NextGroups& next);

  void (*rms_norm_row)(const float* in, const float* gain, float epsilon, int64_t cols, float* out);
  void (*gate_row)(Gate kind, float* gate, const float* up, int64_t cols);
  void (*add_row)(float* into, const float* from, int64_t cols);
  // `count` queries (1 to queries_in_tile) meet the 64 positions from `start` on. `widened` has room for widened_floats(head_dim).
  void (*attend_block)(KvType type, const KvBlock& block, int64_t head_dim, int64_t start, float scale, Query* queries, int64_t count, float* widened);
  void (*store_kv)(KvType type, const float* key, const float* value, int64_t head_dim, int64_t place, std::byte* keys, std::byte* values);
  // out[rows] = silu of the convolution of work.lanes channels (ops.hpp); `before` and `after` are [taps - 1] inputs, the first null at a
  // sequence's beginning. All but the kernel lie work.channels apart from row to row.
  void (*convolve_channels)(const Convolution& work, int64_t rows, const float* before, float* after, const float* in, float* out);
  void (*delta_step)(float* state, const float* q, const float* k, const float* v, DeltaGates gates, int64_t key_dim, int64_t value_dim,
                     float* scratch, float* out);
};

// Each has what those before it have. avx2: with FMA and F16C. avx512: F, BW, VL, DQ, VNNI. avx512_vbmi: VBMI, GFNI, BMI2.
enum class InstructionSet : uint8_t { avx2, avx512, avx512_vbmi };

// For the widest that this processor has, `most` at most; null when it has not even AVX2.
const FastKernels* fast_kernels(InstructionSet most = InstructionSet::avx512_vbmi);

}  // namespace vigil::compute::cpu
