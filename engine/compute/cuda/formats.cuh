// How kernels read quantised weights: for each type, the codes of a part as words of four signed bytes, and its scale and offset. Where the bytes lie:
// arrangement.hpp; what they mean: engine/compute/cpu/dequantise_*.cpp. A weight is scale * code - offset, by these very roundings.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "engine/compute/cpu/codebook_iq3_xxs.hpp"
#include "engine/compute/cuda/arrangement.hpp"

namespace vigil::compute::cuda {

using gguf::TensorType;

// One row of a group: its 16-byte pieces of a stream are 128 bytes apart.
struct RowPlace {
  const unsigned char* group;
  int row;    // 0 to 7
  int parts;  // of the whole row

  __device__ __forceinline__ const unsigned char* piece(size_t stream, int index) const { return group + stream + (index * 8 + row) * 16; }
};

__device__ __forceinline__ float half_bits(unsigned bits) { return __half2float(__ushort_as_half(static_cast<unsigned short>(bits))); }

template <typename Word>
__device__ __forceinline__ Word load(const void* from) {
  return *static_cast<const Word*>(from);
}

// Word `index` of four, where the index may be known only when the kernel runs.
__device__ __forceinline__ unsigned word_of(const uint4& words, int index) {
  const unsigned low = index & 1 ? words.y : words.x, high = index & 1 ? words.w : words.z;
  return index & 2 ? high : low;
}

// The bytes 0 to 15 of a table, named by the nibbles 0 to 3 of `names`.
__device__ __forceinline__ unsigned four_of_sixteen(const uint4& table, unsigned names) {
  const unsigned places = names & 0x7777u;
  const unsigned low = __byte_perm(table.x, table.y, places), high = __byte_perm(table.z, table.w, places);
  return __byte_perm(low, high, 0x3210u | (names & 0x8888u) >> 1);
}

// Codes of a part as the file's nibbles give them, by word.
struct Nibbles {
  __device__ __forceinline__ static unsigned low(unsigned word) { return word & 0x0f0f0f0fu; }
  __device__ __forceinline__ static unsigned high(unsigned word) { return word >> 4 & 0x0f0f0f0fu; }
};

template <TensorType type>
__device__ __forceinline__ GroupLayout layout_of(int parts) {
  constexpr Streams streams = streams_of(type);
  return GroupLayout(streams, static_cast<size_t>(parts));
}

// What each type says:
//   Codes, codes(place, part)       the bytes of a whole part, as few wide loads
//   words(codes, word)              all eight code words
//   Fragment, fragment(place, part, t), pair(fragment, t, low, high)
//                                   the same for words t and t + 4 alone: what a lane of a tensor-core operand holds
//   Scales, scales(place, chunk)    of a chunk; scale(scales, part), offset(scales, part): part is 0 to 7
//   has_offsets                     offset() is not zero
//   two_scales                      words 4 to 7 have a scale of their own, second_scale()
template <TensorType type>
struct Format;

template <TensorType type>
struct NibbleFormat {
  using Codes = uint4;
  static constexpr bool has_offsets = false, two_scales = false;

  __device__ __forceinline__ static Codes codes(const RowPlace& at, int part) { return load<uint4>(at.piece(0, part)); }
  __device__ __forceinline__ static void words(const Codes& codes, unsigned (&word)[8]) {
    const unsigned from[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      word[k] = Nibbles::low(from[k]);
      word[k + 4] = Nibbles::high(from[k]);
    }
  }
  using Fragment = unsigned;
  __device__ __forceinline__ static Fragment fragment(const RowPlace& at, int part, int t) { return load<unsigned>(at.piece(0, part) + 4 * t); }
  __device__ __forceinline__ static void pair(const Fragment& both, int, unsigned& low, unsigned& high) {
    low = Nibbles::low(both);
    high = Nibbles::high(both);
  }
};

// Eight halves a chunk.
template <TensorType type>
struct HalfScales {
  using Scales = uint4;
  __device__ __forceinline__ static Scales scales(const RowPlace& at, int chunk) { return load<uint4>(at.piece(layout_of<type>(at.parts).scales, chunk)); }
  __device__ __forceinline__ static float scale(const Scales& scales, int part) { return half_bits(word_of(scales, part / 2) >> (part % 2 * 16)); }
  __device__ __forceinline__ static float offset(const Scales&, int) { return 0; }
};

// Codes 0 to 15 less 8.
template <>
struct Format<TensorType::q4_0> : NibbleFormat<TensorType::q4_0>, HalfScales<TensorType::q4_0> {
  static constexpr bool has_offsets = true;
  __device__ __forceinline__ static float offset(const Scales& scales, int part) { return __fmul_rn(8.0f, scale(scales, part)); }  // exact
};

template <>
struct Format<TensorType::q8_0> : HalfScales<TensorType::q8_0> {
  static constexpr bool has_offsets = false, two_scales = false;
  struct Codes {
    uint4 first, second;
  };
  __device__ __forceinline__ static Codes codes(const RowPlace& at, int part) {
    return {load<uint4>(at.piece(0, 2 * part)), load<uint4>(at.piece(0, 2 * part + 1))};
  }
  __device__ __forceinline__ static void words(const Codes& codes, unsigned (&word)[8]) {
    word[0] = codes.first.x, word[1] = codes.first.y, word[2] = codes.first.z, word[3] = codes.first.w;
    word[4] = codes.second.x, word[5] = codes.second.y, word[6] = codes.second.z, word[7] = codes.second.w;
  }
  using Fragment = uint2;
  __device__ __forceinline__ static Fragment fragment(const RowPlace& at, int part, int t) {
    return make_uint2(load<unsigned>(at.piece(0, 2 * part) + 4 * t), load<unsigned>(at.piece(0, 2 * part + 1) + 4 * t));
  }
  __device__ __forceinline__ static void pair(const Fragment& from, int, unsigned& low, unsigned& high) {
    low = from.x;
    high = from.y;
  }
};

// Scale and offset of a part are six-bit multiples of the chunk's: SixBits.
template <TensorType type>
struct SixBitScales {
  static constexpr bool has_offsets = true;
  using Scales = uint4;
  __device__ __forceinline__ static Scales scales(const RowPlace& at, int chunk) { return load<uint4>(at.piece(layout_of<type>(at.parts).scales, chunk)); }
  __device__ __forceinline__ static float scale(const Scales& from, int part) {
    return __fmul_rn(half_bits(from.x & 0xffffu), six(from.y, from.w & 0xffffu, part));
  }
  __device__ __forceinline__ static float offset(const Scales& from, int part) { return __fmul_rn(half_bits(from.x >> 16), six(from.z, from.w >> 16, part)); }

 private:
  __device__ __forceinline__ static float six(unsigned low, unsigned high, int part) {
    const unsigned long long bits = static_cast<unsigned long long>(high) << 32 | low;
    return static_cast<float>(static_cast<unsigned>(bits >> (6 * part)) & 63u);
  }
};

template <>
struct Format<TensorType::q4_k> : NibbleFormat<TensorType::q4_k>, SixBitScales<TensorType::q4_k> {
  using SixBitScales<TensorType::q4_k>::has_offsets;
};

template <>
struct Format<TensorType::q5_k> : SixBitScales<TensorType::q5_k> {
  static constexpr bool two_scales = false;
  struct Codes {
    uint4 low;
    unsigned fifth;
  };
  __device__ __forceinline__ static unsigned fifth_bits(const RowPlace& at, int part) {
    return load<unsigned>(at.piece(layout_of<TensorType::q5_k>(at.parts).extras, part / 4) + part % 4 * 4);
  }
  __device__ __forceinline__ static unsigned fifth(unsigned bits, int word) { return (bits >> word & 0x01010101u) << 4; }
  __device__ __forceinline__ static Codes codes(const RowPlace& at, int part) { return {load<uint4>(at.piece(0, part)), fifth_bits(at, part)}; }
  __device__ __forceinline__ static void words(const Codes& codes, unsigned (&word)[8]) {
    const unsigned from[4] = {codes.low.x, codes.low.y, codes.low.z, codes.low.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      word[k] = Nibbles::low(from[k]) | fifth(codes.fifth, k);
      word[k + 4] = Nibbles::high(from[k]) | fifth(codes.fifth, k + 4);
    }
  }
  using Fragment = uint2;  // nibbles, fifth bits
  __device__ __forceinline__ static Fragment fragment(const RowPlace& at, int part, int t) {
    return make_uint2(load<unsigned>(at.piece(0, part) + 4 * t), fifth_bits(at, part));
  }
  __device__ __forceinline__ static void pair(const Fragment& from, int t, unsigned& low, unsigned& high) {
    low = Nibbles::low(from.x) | fifth(from.y, t);
    high = Nibbles::high(from.x) | fifth(from.y, t + 4);
  }
};

template <>
struct Format<TensorType::q6_k> {
  static constexpr bool has_offsets = false, two_scales = true;
  struct Codes {
    uint4 low;
    uint2 upper;
  };
  __device__ __forceinline__ static uint2 upper_bits(const RowPlace& at, int part) {
    return load<uint2>(at.piece(layout_of<TensorType::q6_k>(at.parts).extras, part / 2) + part % 2 * 8);
  }
  // 0 to 63 less 32, in each byte: no carry leaves its byte.
  __device__ __forceinline__ static unsigned centred(unsigned low, unsigned upper, int word) {
    return ((low | (upper >> (2 * word) & 0x03030303u) << 4) + 0x60606060u) ^ 0x80808080u;
  }
  __device__ __forceinline__ static Codes codes(const RowPlace& at, int part) { return {load<uint4>(at.piece(0, part)), upper_bits(at, part)}; }
  __device__ __forceinline__ static void words(const Codes& codes, unsigned (&word)[8]) {
    const unsigned from[4] = {codes.low.x, codes.low.y, codes.low.z, codes.low.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      word[k] = centred(Nibbles::low(from[k]), codes.upper.x, k);
      word[k + 4] = centred(Nibbles::high(from[k]), codes.upper.y, k);
    }
  }
  struct Fragment {
    unsigned nibbles;
    uint2 upper;
  };
  __device__ __forceinline__ static Fragment fragment(const RowPlace& at, int part, int t) {
    return {load<unsigned>(at.piece(0, part) + 4 * t), upper_bits(at, part)};
  }
  __device__ __forceinline__ static void pair(const Fragment& from, int t, unsigned& low, unsigned& high) {
    low = centred(Nibbles::low(from.nibbles), from.upper.x, t);
    high = centred(Nibbles::high(from.nibbles), from.upper.y, t);
  }

  struct Scales {
    uint4 bytes;
    float factor;
  };
  __device__ __forceinline__ static Scales scales(const RowPlace& at, int chunk) {
    const GroupLayout layout = layout_of<TensorType::q6_k>(at.parts);
    return {load<uint4>(at.piece(layout.scales, chunk)), half_bits(load<unsigned short>(at.group + layout.factors + (chunk * 8 + at.row) * 2))};
  }
  __device__ __forceinline__ static float scale(const Scales& from, int part) { return sixteenth(from, 2 * part); }
  __device__ __forceinline__ static float second_scale(const Scales& from, int part) { return sixteenth(from, 2 * part + 1); }
  __device__ __forceinline__ static float offset(const Scales&, int) { return 0; }
  __device__ __forceinline__ static float sixteenth(const Scales& from, int index) {
    const unsigned byte = word_of(from.bytes, index / 4) >> (index % 4 * 8);
    return __fmul_rn(from.factor, static_cast<float>(static_cast<signed char>(byte & 255u)));
  }
};

// Nibbles that name one of sixteen values; the low half of a word makes word k, the high half word k + 4.
template <TensorType type>
struct NamedFormat {
  using Codes = uint4;
  static constexpr bool has_offsets = false, two_scales = false;
  // The values in ascending order of their names, as cpu::codebook_iq4_nl and cpu::codebook_fp4_doubled have them.
  __device__ __forceinline__ static uint4 table() {
    return type == TensorType::mxfp4 ? make_uint4(0x03020100u, 0x0c080604u, 0xfdfeff00u, 0xf4f8fafcu) : make_uint4(0xbfad9881u, 0xf6eaddcfu, 0x26190d01u, 0x71594535u);
  }
  __device__ __forceinline__ static Codes codes(const RowPlace& at, int part) { return load<uint4>(at.piece(0, part)); }
  __device__ __forceinline__ static void words(const Codes& codes, unsigned (&word)[8]) {
    const unsigned from[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      word[k] = four_of_sixteen(table(), from[k]);
      word[k + 4] = four_of_sixteen(table(), from[k] >> 16);
    }
  }
  using Fragment = unsigned;
  __device__ __forceinline__ static Fragment fragment(const RowPlace& at, int part, int t) { return load<unsigned>(at.piece(0, part) + 4 * t); }
  __device__ __forceinline__ static void pair(const Fragment& both, int, unsigned& low, unsigned& high) {
    low = four_of_sixteen(table(), both);
    high = four_of_sixteen(table(), both >> 16);
  }
};

// Eight bytes a chunk.
template <TensorType type>
__device__ __forceinline__ uint2 eight_scale_bytes(const RowPlace& at, int chunk) {
  return load<uint2>(at.group + layout_of<type>(at.parts).scales + (chunk * 8 + at.row) * 8);
}

template <>
struct Format<TensorType::iq4_xs> : NamedFormat<TensorType::iq4_xs> {
  using Scales = uint2;
  __device__ __forceinline__ static Scales scales(const RowPlace& at, int chunk) { return eight_scale_bytes<TensorType::iq4_xs>(at, chunk); }
  __device__ __forceinline__ static float scale(const Scales& from, int part) {
    const unsigned low = from.y >> (4 * part) & 15u, high = from.x >> (16 + 2 * part) & 3u;
    return __fmul_rn(half_bits(from.x & 0xffffu), static_cast<float>(static_cast<int>(low | high << 4) - 32));
  }
  __device__ __forceinline__ static float offset(const Scales&, int) { return 0; }
};

template <>
struct Format<TensorType::mxfp4> : NamedFormat<TensorType::mxfp4> {
  using Scales = uint2;
  __device__ __forceinline__ static Scales scales(const RowPlace& at, int chunk) { return eight_scale_bytes<TensorType::mxfp4>(at, chunk); }
  // 2^(exponent - 128), half of what the format says: the table is doubled. The two smallest are subnormal.
  __device__ __forceinline__ static float scale(const Scales& from, int part) {
    const unsigned exponent = (part & 4 ? from.y : from.x) >> (part % 4 * 8) & 255u;
    return __uint_as_float(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
  }
  __device__ __forceinline__ static float offset(const Scales&, int) { return 0; }
};

struct PointTable {
  unsigned points[256];
};
constexpr PointTable iq3_xxs_points() {
  PointTable table{};
  const auto book = cpu::unpack_iq3_xxs();
  for (size_t i = 0; i < 256; ++i) {
    for (size_t b = 0; b < 4; ++b) table.points[i] |= static_cast<unsigned>(book[i][b]) << (8 * b);
  }
  return table;
}
static __device__ const PointTable iq3_xxs_table = iq3_xxs_points();

template <>
struct Format<TensorType::iq3_xxs> {
  static constexpr bool has_offsets = false, two_scales = false;
  struct Codes {
    uint2 indexes;
    unsigned signs;
  };
  __device__ __forceinline__ static unsigned sign_word(const RowPlace& at, int part) {
    return load<unsigned>(at.piece(layout_of<TensorType::iq3_xxs>(at.parts).extras, part / 4) + part % 4 * 4);
  }
  __device__ __forceinline__ static Codes codes(const RowPlace& at, int part) {
    return {load<uint2>(at.piece(0, part / 2) + part % 2 * 8), sign_word(at, part)};
  }
  // Words 2 i and 2 i + 1 share seven stored signs; the eighth makes their number even. No point has a zero, so no carry leaves its byte.
  __device__ __forceinline__ static unsigned point(unsigned index, unsigned signs, int word) {
    const unsigned seven = signs >> (word / 2 * 7) & 127u, eight = seven | (static_cast<unsigned>(__popc(seven)) & 1u) << 7;
    const unsigned four = eight >> (word % 2 * 4) & 15u, negative = four * 0x00204081u & 0x01010101u;
    return (iq3_xxs_table.points[index & 255u] ^ negative * 255u) + negative;
  }
  __device__ __forceinline__ static void words(const Codes& codes, unsigned (&word)[8]) {
#pragma unroll
    for (int k = 0; k < 8; ++k) word[k] = point((k < 4 ? codes.indexes.x : codes.indexes.y) >> (k % 4 * 8), codes.signs, k);
  }
  using Fragment = Codes;
  __device__ __forceinline__ static Fragment fragment(const RowPlace& at, int part, int) { return codes(at, part); }
  __device__ __forceinline__ static void pair(const Fragment& from, int t, unsigned& low, unsigned& high) {
    low = point(from.indexes.x >> (8 * t), from.signs, t);
    high = point(from.indexes.y >> (8 * t), from.signs, t + 4);
  }

  // The scale's four bits stand above the signs; a chunk's two pieces of words are read once more for them.
  struct Scales {
    uint4 first, second;
    float factor;
  };
  __device__ __forceinline__ static Scales scales(const RowPlace& at, int chunk) {
    const GroupLayout layout = layout_of<TensorType::iq3_xxs>(at.parts);
    return {load<uint4>(at.piece(layout.extras, 2 * chunk)), load<uint4>(at.piece(layout.extras, 2 * chunk + 1)),
            half_bits(load<unsigned short>(at.group + layout.factors + (chunk * 8 + at.row) * 2))};
  }
  __device__ __forceinline__ static float scale(const Scales& from, int part) {
    const unsigned word = part & 4 ? word_of(from.second, part % 4) : word_of(from.first, part % 4);
    return __fmul_rn(__fmul_rn(from.factor, __fadd_rn(0.5f, static_cast<float>(word >> 28))), 0.5f);
  }
  __device__ __forceinline__ static float offset(const Scales&, int) { return 0; }
};

}  // namespace vigil::compute::cuda
