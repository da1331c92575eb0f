// Where the bytes of a group of 8 weight rows lie on the device: facts that the host side (arrangement.cpp) and the kernels (formats.cuh) share.
//
// A row is cut into parts of 32 columns and chunks of 8 parts (256 columns; the last may be shorter). Fields of the file's blocks are taken apart
// into streams; in each, the 8 rows' pieces stand side by side, so that 8 lanes that read one field of 8 rows read neighbouring memory:
//   codes    [part or pair of parts][piece][8 rows][16 bytes]
//   extras   [chunk][piece][8 rows][16 bytes]        further bits of codes
//   scales   [chunk][8 rows][scale_bytes]
//   factors  [chunk][8 rows][2 bytes]                a half where it does not fit into scales
// Code words: word k of a part, 0 to 7, is its columns 4 k to 4 k + 3. Four-bit codes: byte j of the 16 holds column j (low) and j + 16 (high);
// codebook types (IQ4_XS, MXFP4) instead keep word k's four nibbles in bytes 4 k and 4 k + 1, word k + 4's in the two after them, first column lowest.
//
//   type      codes                     extras                                          scales                                    factors
//   Q4_0      16 bytes a part                                                           8 halves
//   Q8_0      two pieces of 16 a part                                                   8 halves
//   Q4_K      16 a part                                                                 scale, offset (halves), 48 bits of scales and of
//                                                                                       offsets: see SixBits
//   Q5_K      16 a part                 a word a part: bit 8 b + k for byte b, word k   as Q4_K
//   Q6_K      16 a part                 8 bytes a part: bits 8 b + 2 k of word k < 4    16 signed bytes                           scale
//                                       in the first four, of word k - 4 in the others
//   IQ4_XS    16 a part                                                                 scale, upper bits, lower bits, as in the file
//   IQ3_XXS   8 indexes a part          a word a part: four 7-bit signs, scale          none                                      scale
//   MXFP4     16 a part                                                                 8 exponents
//   F16, BF16 [part][8 rows][64 bytes] halves, then a float a row that all of it is multiplied by
//   F32       [piece of 4 columns][8 rows][16 bytes], filled up with zeros to whole parts
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "engine/gguf/tensor_type.hpp"

namespace vigil::compute::cuda {

inline constexpr int part_columns = 32, chunk_parts = 8;

// Bytes of one row.
struct Streams {
  int code_bytes = 0;    // a part
  int extra_bytes = 0;   // a chunk
  int scale_bytes = 0;   // a chunk
  int factor_bytes = 0;  // a chunk
};

__host__ __device__ constexpr Streams streams_of(gguf::TensorType type) {
  using T = gguf::TensorType;
  switch (type) {
    case T::q4_0: return {16, 0, 16, 0};
    case T::q8_0: return {32, 0, 16, 0};
    case T::q4_k: return {16, 0, 16, 0};
    case T::q5_k: return {16, 32, 16, 0};
    case T::q6_k: return {16, 64, 16, 2};
    case T::iq4_xs: return {16, 0, 8, 0};
    case T::iq3_xxs: return {8, 32, 0, 2};
    case T::mxfp4: return {16, 0, 8, 0};
    default: return {};
  }
}

// Offsets of the streams in a group, and its size.
struct GroupLayout {
  size_t extras, scales, factors, bytes;
  __host__ __device__ constexpr GroupLayout(Streams streams, size_t parts)
      : extras(parts * static_cast<size_t>(streams.code_bytes) * 8),
        scales(extras + (parts + chunk_parts - 1) / chunk_parts * static_cast<size_t>(streams.extra_bytes) * 8),
        factors(scales + (parts + chunk_parts - 1) / chunk_parts * static_cast<size_t>(streams.scale_bytes) * 8),
        bytes(factors + (parts + chunk_parts - 1) / chunk_parts * static_cast<size_t>(streams.factor_bytes) * 8) {}
};

// Sixteen bytes of a Q4_K or Q5_K chunk: x = scale | offset << 16 (halves); y and z the low 32 bits of the parts' six-bit scales and offsets, part p
// from bit 6 p on; w the upper 16 bits of both.
struct SixBits {
  uint32_t x, y, z, w;
};

}  // namespace vigil::compute::cuda
