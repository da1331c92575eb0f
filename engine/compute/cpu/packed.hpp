// How the fast backend keeps the factors of products: sixteen matrix rows side by side, so that a register's lanes are output values and
// no lane is ever added to another. The same arrangement serves one input row and many, and takes the bytes that the file takes.
//
// A group is rows 16 g to 16 g + 15 (rows past the end are zero). Its codes come first, 32 columns at a time, then its scales, one chunk
// after the other. In codes, vector j (64 bytes) of 32 columns holds for each row the four columns 4 j to 4 j + 3, a byte each; types with
// fewer bits lay vectors over one another:
//   4 bits: vector v = vector v | vector v + 4 << 4               (4 stored vectors)
//   2 bits: vector u = four vectors from 4 u on, two bits each    (2 stored)
//   1 bit:  one vector, bit j = that of vector j                  (1 stored)
// A type of five, six or three bits is a plane of four or two low bits and one of the rest. A chunk's scales are its block's half-precision
// fields and then its byte fields, each for all sixteen rows in turn. Float types: for each column its sixteen values, no scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "engine/gguf/tensor_type.hpp"

namespace vigil::compute::cpu {

inline constexpr int64_t group_rows = 16;

struct PackedForm {
  int64_t chunk;           // columns of one block of the file
  int64_t block_bytes;     // in the file
  int64_t code_bytes;      // of a group for 32 columns
  int64_t halves, bytes;   // fields of a block that are scales
  int64_t half_at[2];      // where they are in the block
  int64_t byte_at[2], byte_count[2];
  int64_t scale_bytes() const { return (2 * halves + bytes) * group_rows; }  // of a group for one chunk
};

// Nothing for types that products take in the file's own arrangement.
std::optional<PackedForm> packed_form(gguf::TensorType type);

inline int64_t packed_code_bytes(const PackedForm& form, int64_t cols) { return cols * form.code_bytes / 32; }
// Of a group, a multiple of a cache line.
inline int64_t packed_group_bytes(const PackedForm& form, int64_t cols) {
  const int64_t bytes = packed_code_bytes(form, cols) + cols / form.chunk * form.scale_bytes();
  return (bytes + 63) / 64 * 64;
}

// Rows `first` to `first + 15` of a matrix of `rows` rows of `row_bytes` into `group` (packed_group_bytes, zeroed).
void pack_group(gguf::TensorType type, const std::byte* matrix, int64_t rows, size_t row_bytes, int64_t cols, int64_t first, std::byte* group);

}  // namespace vigil::compute::cpu
