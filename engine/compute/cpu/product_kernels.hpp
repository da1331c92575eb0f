// Products of packed weights and rounded or float inputs. Every result is summed in one order, blocks of 32 columns ascending, however
// many rows are computed at once. Included by the kernel files alone.
#pragma once

#include "engine/compute/cpu/codebooks.hpp"
#include "engine/compute/cpu/fast_kernels.hpp"
#include "engine/compute/cpu/simd.hpp"

namespace vigil::compute::cpu::VIGIL_ISA {

using gguf::TensorType;

VIGIL_INLINE int32_t load_word(const int8_t* from) {
  int32_t word;
  __builtin_memcpy(&word, from, sizeof word);
  return word;
}

VIGIL_INLINE const uint8_t* bytes_at(const std::byte* from) { return reinterpret_cast<const uint8_t*>(from); }
VIGIL_INLINE Floats halves_at(const uint8_t* from) { return load_halves(reinterpret_cast<const uint16_t*>(from)); }
VIGIL_INLINE Ints low_nibbles(Ints a) { return bit_and(a, all(int32_t{0x0f0f0f0f})); }
VIGIL_INLINE Ints high_nibbles(Ints a) { return bit_and(shift_right<4>(a), all(int32_t{0x0f0f0f0f})); }

// What the kernels must know of a type: the columns that share scales, how codes are stored (packed.hpp), the power of two that codes are
// offset by (-1: none), whether 32 columns have two scales, and whether there are offsets beside the scales.
struct TypeTraits {
  int64_t chunk, code_bytes, scale_bytes;
  int offset_bits;
  bool halves, offsets;
};

constexpr TypeTraits traits_of(TensorType type) {
  switch (type) {
    case TensorType::q4_0: return {32, 256, 32, 3, false, false};
    case TensorType::q4_1: return {32, 256, 64, -1, false, true};
    case TensorType::q5_0: return {32, 320, 32, 4, false, false};
    case TensorType::q5_1: return {32, 320, 64, -1, false, true};
    case TensorType::q8_0: return {32, 512, 32, 7, false, false};
    case TensorType::q2_k: return {256, 128, 320, -1, true, true};
    case TensorType::q3_k: return {256, 192, 224, 2, true, false};
    case TensorType::q4_k: return {256, 256, 256, -1, false, true};
    case TensorType::q5_k: return {256, 320, 256, -1, false, true};
    case TensorType::q6_k: return {256, 384, 288, 5, true, false};
    case TensorType::iq4_nl: return {32, 256, 32, 7, false, false};
    case TensorType::iq4_xs: return {256, 256, 128, 7, false, false};
    case TensorType::mxfp4: return {32, 256, 16, 7, false, false};
    default: return {0, 0, 0, 0, false, false};
  }
}

template <int offset_bits>
VIGIL_INLINE Ints begin_codes(const int32_t* negative_sum) {
  if constexpr (offset_bits < 0) return zero_ints();
  else return begin_dot<offset_bits>(negative_sum);
}
template <int offset_bits>
VIGIL_INLINE Ints dot_codes(Ints sum, Ints weights, Ints activations) {
  if constexpr (offset_bits < 0) return dot_bytes(sum, weights, activations);
  else return dot_offset_bytes<offset_bits>(sum, weights, activations);
}

// Calls f(j, bytes) for the eight vectors of 32 columns.
template <TensorType type, typename Take>
VIGIL_INLINE void each_vector(const uint8_t* codes, Table table, Take&& f) {
  if constexpr (type == TensorType::q8_0) {
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) f(j, load_ints(codes + 64 * j));
  } else if constexpr (type == TensorType::q2_k || type == TensorType::q3_k) {
    const Ints two = all(int32_t{0x03030303}), third = all(int32_t{0x04040404});
    const Ints high = type == TensorType::q3_k ? load_ints(codes + 128) : zero_ints();
#pragma GCC unroll 2
    for (int u = 0; u < 2; ++u) {
      const Ints low = load_ints(codes + 64 * u);
      const auto with_third = [&](Ints code, Ints bit) {
        if constexpr (type == TensorType::q3_k) return bit_or(code, bit_and(bit, third));
        else return code;
      };
      f(4 * u + 0, with_third(bit_and(low, two), u == 0 ? shift_left<2>(high) : shift_right<2>(high)));
      f(4 * u + 1, with_third(bit_and(shift_right<2>(low), two), u == 0 ? shift_left<1>(high) : shift_right<3>(high)));
      f(4 * u + 2, with_third(bit_and(shift_right<4>(low), two), u == 0 ? high : shift_right<4>(high)));
      f(4 * u + 3, with_third(bit_and(shift_right<6>(low), two), u == 0 ? shift_right<1>(high) : shift_right<5>(high)));
    }
  } else if constexpr (type == TensorType::q6_k) {
    const Ints mask = all(int32_t{0x30303030});
    const Ints first = load_ints(codes + 256), second = load_ints(codes + 320);
    const Ints tops[8] = {shift_left<4>(first),  shift_left<2>(first),  first,  shift_right<2>(first),
                          shift_left<4>(second), shift_left<2>(second), second, shift_right<2>(second)};
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const Ints both = load_ints(codes + 64 * v);
      f(v, bit_or(low_nibbles(both), bit_and(tops[v], mask)));
      f(v + 4, bit_or(high_nibbles(both), bit_and(tops[v + 4], mask)));
    }
  } else if constexpr (type == TensorType::q5_0 || type == TensorType::q5_1 || type == TensorType::q5_k) {
    const Ints mask = all(int32_t{0x10101010});
    const Ints top = load_ints(codes + 256);
    const Ints tops[8] = {shift_left<4>(top), shift_left<3>(top),  shift_left<2>(top),  shift_left<1>(top),
                          top,                shift_right<1>(top), shift_right<2>(top), shift_right<3>(top)};
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const Ints both = load_ints(codes + 64 * v);
      f(v, bit_or(low_nibbles(both), bit_and(tops[v], mask)));
      f(v + 4, bit_or(high_nibbles(both), bit_and(tops[v + 4], mask)));
    }
  } else {
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) {
      const Ints both = load_ints(codes + 64 * v);
      if constexpr (type == TensorType::iq4_nl || type == TensorType::iq4_xs || type == TensorType::mxfp4) {
        f(v, look_up(table, low_nibbles(both)));
        f(v + 4, look_up(table, high_nibbles(both)));
      } else {
        f(v, low_nibbles(both));
        f(v + 4, high_nibbles(both));
      }
    }
  }
}

// The levels that nibbles stand for, plus 128.
template <TensorType type>
VIGIL_INLINE Table table_for() {
  alignas(16) uint8_t levels[16];
  for (size_t i = 0; i < 16; ++i) {
    levels[i] = static_cast<uint8_t>((type == TensorType::mxfp4 ? codebook_fp4_doubled[i] : codebook_iq4_nl[i]) + 128);
  }
  return load_table(levels);
}

// Scales and negated offsets of one chunk, as floats: [chunk / 32][1 or 2].
template <TensorType type>
struct Scales {
  static constexpr TypeTraits traits = traits_of(type);
  static constexpr int64_t count = traits.chunk / 32 * (traits.halves ? 2 : 1);
  Floats scale[count];
  Floats offset[traits.offsets ? count : 1];
};

// Q4_K and Q5_K: see dequantise_k.cpp for the twelve bytes.
template <TensorType type>
VIGIL_INLINE void read_six_bit_pairs(const uint8_t* from, Scales<type>& out) {
  const Floats scale = halves_at(from), offset = subtract(zero_floats(), halves_at(from + 32));
  const uint8_t* packed = from + 64;
  const Ints six = all(int32_t{63}), four = all(int32_t{15}), top = all(int32_t{48});
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Ints a = load_bytes_unsigned(packed + 16 * i), b = load_bytes_unsigned(packed + 16 * (i + 4)), c = load_bytes_unsigned(packed + 16 * (i + 8));
    out.scale[i] = multiply(scale, to_floats(bit_and(a, six)));
    out.offset[i] = multiply(offset, to_floats(bit_and(b, six)));
    out.scale[i + 4] = multiply(scale, to_floats(bit_or(bit_and(c, four), bit_and(shift_right<2>(a), top))));
    out.offset[i + 4] = multiply(offset, to_floats(bit_or(shift_right<4>(c), bit_and(shift_right<2>(b), top))));
  }
}

template <TensorType type>
VIGIL_INLINE void read_scales(const uint8_t* from, Scales<type>& out) {
  if constexpr (type == TensorType::q4_k || type == TensorType::q5_k) {
    read_six_bit_pairs(from, out);
  } else if constexpr (type == TensorType::q6_k) {
    const Floats scale = halves_at(from);
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) out.scale[i] = multiply(scale, to_floats(load_bytes_signed(from + 32 + 16 * i)));
  } else if constexpr (type == TensorType::q2_k) {
    const Floats scale = halves_at(from), offset = subtract(zero_floats(), halves_at(from + 32));
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      const Ints both = load_bytes_unsigned(from + 64 + 16 * i);
      out.scale[i] = multiply(scale, to_floats(bit_and(both, all(int32_t{15}))));
      out.offset[i] = multiply(offset, to_floats(shift_right<4>(both)));
    }
  } else if constexpr (type == TensorType::q3_k) {
    const Floats scale = halves_at(from);
    const uint8_t* packed = from + 32;
    const Ints four = all(int32_t{15}), two = all(int32_t{3}), middle = all(int32_t{32});
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const Ints a = load_bytes_unsigned(packed + 16 * i), b = load_bytes_unsigned(packed + 16 * (i + 4)), c = load_bytes_unsigned(packed + 16 * (i + 8));
      const auto scaled = [&](Ints low, Ints high) { return multiply(scale, to_floats(subtract(bit_or(low, shift_left<4>(high)), middle))); };
      out.scale[i] = scaled(bit_and(a, four), bit_and(c, two));
      out.scale[i + 4] = scaled(bit_and(b, four), bit_and(shift_right<2>(c), two));
      out.scale[i + 8] = scaled(shift_right<4>(a), bit_and(shift_right<4>(c), two));
      out.scale[i + 12] = scaled(shift_right<4>(b), bit_and(shift_right<6>(c), two));
    }
  } else if constexpr (type == TensorType::iq4_xs) {
    const Floats scale = halves_at(from);
    const uint8_t* tops = from + 32;
    const uint8_t* lows = from + 64;
    const Ints four = all(int32_t{15}), top = all(int32_t{48}), middle = all(int32_t{32});
    const auto scaled = [&](Ints low, Ints high) { return multiply(scale, to_floats(subtract(bit_or(low, bit_and(high, top)), middle))); };
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const Ints both = load_bytes_unsigned(lows + 16 * i);
      const Ints pair = load_bytes_unsigned(tops + 16 * (i / 2));  // four pairs of bits: parts 4 (i / 2) to + 3
      const Ints even = i % 2 == 0 ? shift_left<4>(pair) : pair, odd = i % 2 == 0 ? shift_left<2>(pair) : shift_right<2>(pair);
      out.scale[2 * i] = scaled(bit_and(both, four), even);
      out.scale[2 * i + 1] = scaled(shift_right<4>(both), odd);
    }
  } else if constexpr (type == TensorType::mxfp4) {
    // 2^(e - 127), halved since the table is doubled
    out.scale[0] = multiply(as_bits_of_floats(shift_left<23>(load_bytes_unsigned(from))), all(0.5f));
  } else {
    out.scale[0] = halves_at(from);
    if constexpr (traits_of(type).offsets) out.offset[0] = halves_at(from + 32);
  }
}

// Adds block b of `count` (a constant) rows. `vectors` calls its argument for the eight vectors of codes.
template <TypeTraits traits, int count, typename Vectors>
VIGIL_INLINE void add_block(const ProductRow* rows, int64_t b, const Floats* scale, const Floats* offset, Vectors&& vectors, Floats* sums) {
  if constexpr (!traits.halves) {
    Ints dots[count];
    for (int n = 0; n < count; ++n) dots[n] = begin_codes<traits.offset_bits>(rows[n].quantised.negative_sums + b);
    vectors([&](int j, Ints codes) {
      for (int n = 0; n < count; ++n) dots[n] = dot_codes<traits.offset_bits>(dots[n], codes, all(load_word(rows[n].quantised.codes + 32 * b + 4 * j)));
    });
    for (int n = 0; n < count; ++n) sums[n] = fma(to_floats(dots[n]), multiply(scale[0], all(rows[n].quantised.scales[b])), sums[n]);
    if constexpr (traits.offsets) {
      for (int n = 0; n < count; ++n) sums[n] = fma(offset[0], all(rows[n].quantised.sums[b]), sums[n]);
    }
  } else {
    Ints dots[2][count];
    for (int n = 0; n < count; ++n) {
      for (int h = 0; h < 2; ++h) dots[h][n] = begin_codes<traits.offset_bits>(rows[n].quantised.negative_halves + 2 * b + h);
    }
    vectors([&](int j, Ints codes) {
      for (int n = 0; n < count; ++n) {
        Ints& dot = dots[j / 4][n];
        dot = dot_codes<traits.offset_bits>(dot, codes, all(load_word(rows[n].quantised.codes + 32 * b + 4 * j)));
      }
    });
    for (int n = 0; n < count; ++n) {
      const Floats row_scale = all(rows[n].quantised.scales[b]);
      for (int h = 0; h < 2; ++h) sums[n] = fma(to_floats(dots[h][n]), multiply(scale[h], row_scale), sums[n]);
      if constexpr (traits.offsets) {
        for (int h = 0; h < 2; ++h) {
          const Floats sum = multiply(row_scale, to_floats(subtract(zero_ints(), all(rows[n].quantised.negative_halves[2 * b + h]))));
          sums[n] = fma(offset[h], sum, sums[n]);
        }
      }
    }
  }
}

// Codes ahead that are asked for: the memory's latency at its full rate.
constexpr int64_t prefetch_bytes = 2048;

// One pass over a group runs as fast as the memory, and asks for codes a little ahead. Of several only the first would wait for memory:
// instead they share out the next group among them, pass `number` of `count` asking for every count-th block of it.
struct Pass {
  int64_t number, count;
};

template <TensorType type, int count, bool alone>
void few_rows(const std::byte* group, int64_t cols, const ProductRow* rows, int64_t first, int64_t lanes, const Pass& pass) {
  constexpr TypeTraits traits = traits_of(type);
  const uint8_t* codes = bytes_at(group);
  const uint8_t* scales = codes + cols / 32 * traits.code_bytes;
  const Table table = table_for<type>();
  Floats sums[count];
  for (int n = 0; n < count; ++n) sums[n] = zero_floats();
  Scales<type> unpacked;
  constexpr int64_t parts = traits.chunk / 32, per_part = traits.halves ? 2 : 1;
  const int64_t group_bytes = cols / 32 * traits.code_bytes + cols / traits.chunk * traits.scale_bytes;
  int64_t due = pass.number;
  for (int64_t chunk = 0; chunk < cols / traits.chunk; ++chunk) {
    read_scales<type>(scales + chunk * traits.scale_bytes, unpacked);
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t b = chunk * parts + part;
      const uint8_t* at = codes + b * traits.code_bytes;
      if (alone || b == due) {
        for (int64_t line = 0; line < traits.code_bytes; line += 64) __builtin_prefetch(at + (alone ? prefetch_bytes : group_bytes) + line, 0, 3);
        due += pass.count;
      }
      add_block<traits, count>(rows, b, unpacked.scale + part * per_part, unpacked.offset + (traits.offsets ? part * per_part : 0),
                               [&](auto&& take) { each_vector<type>(at, table, take); }, sums);
    }
  }
  for (int n = 0; n < count; ++n) store_some(rows[n].out + first, sums[n], lanes);
}

template <TensorType type>
void unpack_group(const std::byte* group, int64_t cols, Panel& panel) {
  constexpr TypeTraits traits = traits_of(type);
  const uint8_t* codes = bytes_at(group);
  const uint8_t* scales = codes + cols / 32 * traits.code_bytes;
  const Table table = table_for<type>();
  Scales<type> unpacked;
  constexpr int64_t parts = traits.chunk / 32;
  constexpr bool in_place = type == TensorType::q8_0;
  panel.codes = in_place ? codes : panel.room;
  for (int64_t chunk = 0; chunk < cols / traits.chunk; ++chunk) {
    read_scales<type>(scales + chunk * traits.scale_bytes, unpacked);
    for (int64_t i = 0; i < Scales<type>::count; ++i) {
      store(panel.scales + (chunk * Scales<type>::count + i) * 16, unpacked.scale[i]);
      if constexpr (traits.offsets) store(panel.offsets + (chunk * Scales<type>::count + i) * 16, unpacked.offset[i]);
    }
    for (int64_t part = 0; part < parts && !in_place; ++part) {
      const int64_t b = chunk * parts + part;
      each_vector<type>(codes + b * traits.code_bytes, table, [&](int j, Ints bytes) { store_ints(panel.room + b * 512 + 64 * j, bytes); });
    }
  }
}

// `count` rows times `width` unpacked groups, both constants: as many sums as the registers hold. Meanwhile `next` comes, a piece a block.
template <TypeTraits traits, int count, int width>
VIGIL_INLINE void panel_tile(const Panel* panels, int64_t cols, const ProductRow* rows, int64_t first, int64_t lanes, const NextGroups& next) {
  const int64_t piece = (next.bytes / 64 + cols / 32 - 1) / (cols / 32) * 64;
  const std::byte* ahead = next.from;
  const std::byte* const ahead_end = next.from + next.bytes;
  Floats sums[width][count];
  for (int w = 0; w < width; ++w) {
    for (int n = 0; n < count; ++n) sums[w][n] = zero_floats();
  }
  constexpr int64_t per_block = traits.halves ? 2 : 1;
  for (int64_t b = 0; b < cols / 32; ++b) {
    for (const std::byte* const end = ahead_end - ahead < piece ? ahead_end : ahead + piece; ahead < end; ahead += 64) __builtin_prefetch(ahead, 0, 2);
    if constexpr (!traits.halves) {
      Ints dots[width][count];
      for (int n = 0; n < count; ++n) {
        const Ints begun = begin_codes<traits.offset_bits>(rows[n].quantised.negative_sums + b);
        for (int w = 0; w < width; ++w) dots[w][n] = begun;
      }
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) {
        Ints codes[width];
        for (int w = 0; w < width; ++w) codes[w] = load_ints(panels[w].codes + b * 512 + 64 * j);
        for (int n = 0; n < count; ++n) {
          const Ints values = all(load_word(rows[n].quantised.codes + 32 * b + 4 * j));
          for (int w = 0; w < width; ++w) dots[w][n] = dot_codes<traits.offset_bits>(dots[w][n], codes[w], values);
        }
      }
      for (int w = 0; w < width; ++w) {
        const Floats scale = load(panels[w].scales + b * 16);
        for (int n = 0; n < count; ++n) sums[w][n] = fma(to_floats(dots[w][n]), multiply(scale, all(rows[n].quantised.scales[b])), sums[w][n]);
        if constexpr (traits.offsets) {
          const Floats offset = load(panels[w].offsets + b * 16);
          for (int n = 0; n < count; ++n) sums[w][n] = fma(offset, all(rows[n].quantised.sums[b]), sums[w][n]);
        }
      }
    } else {
      for (int w = 0; w < width; ++w) {
        Floats scale[2], offset[2];
        for (int h = 0; h < 2; ++h) {
          scale[h] = load(panels[w].scales + (b * per_block + h) * 16);
          if constexpr (traits.offsets) offset[h] = load(panels[w].offsets + (b * per_block + h) * 16);
        }
        add_block<traits, count>(rows, b, scale, offset,
                                 [&](auto&& take) {
#pragma GCC unroll 8
                                   for (int j = 0; j < 8; ++j) take(j, load_ints(panels[w].codes + b * 512 + 64 * j));
                                 },
                                 sums[w]);
      }
    }
  }
  for (int w = 0; w < width; ++w) {
    for (int n = 0; n < count; ++n) store_some(rows[n].out + first + 16 * w, sums[w][n], lanes - 16 * w);
  }
}

inline constexpr int few_at_once = registers >= 32 ? 4 : 2;
inline constexpr int many_at_once = registers >= 32 ? 6 : 2;
inline constexpr int panel_width = registers >= 32 ? 2 : 1;

template <TensorType type>
void few_any(const std::byte* group, int64_t cols, const ProductRow* rows, int64_t count, int64_t first, int64_t lanes) {
  Pass pass{0, (count + few_at_once - 1) / few_at_once};
  in_tiles<few_at_once>(count, [&](auto size, int64_t row) {
    if (pass.count == 1) few_rows<type, size.value, true>(group, cols, rows + row, first, lanes, pass);
    else few_rows<type, size.value, false>(group, cols, rows + row, first, lanes, pass);
    ++pass.number;
  });
}

template <TypeTraits traits>
void many_any(const Panel* panels, int64_t cols, const ProductRow* rows, int64_t count, int64_t first, int64_t lanes, const NextGroups& next) {
  const int64_t passes = (count + many_at_once - 1) / many_at_once * (2 / panel_width);
  const int64_t share = (next.bytes / 64 + passes - 1) / passes * 64;
  NextGroups part{next.from, 0};
  for (int w = 0; w < 2; w += panel_width) {
    if (16 * w >= lanes) return;
    in_tiles<many_at_once>(count, [&](auto size, int64_t row) {
      part.bytes = next.from + next.bytes - part.from < share ? next.from + next.bytes - part.from : share;
      panel_tile<traits, size.value, panel_width>(panels + w, cols, rows + row, first + 16 * w, lanes - 16 * w, part);
      part.from += part.bytes;
    });
  }
}

// Float weights: partial sums of 32 columns, then their sum, in ascending order.
template <TensorType type>
VIGIL_INLINE Floats float_weights(const std::byte* group, int64_t column) {
  if constexpr (type == TensorType::f32) return load(reinterpret_cast<const float*>(group) + 16 * column);
  else if constexpr (type == TensorType::f16) return load_halves(reinterpret_cast<const uint16_t*>(group) + 16 * column);
  else return load_bfloats(reinterpret_cast<const uint16_t*>(group) + 16 * column);
}

template <TensorType type, int count>
void float_rows(const std::byte* group, int64_t cols, const ProductRow* rows, int64_t first, int64_t lanes) {
  Floats sums[count];
  for (int n = 0; n < count; ++n) sums[n] = zero_floats();
  constexpr int64_t ahead = prefetch_bytes / (type == TensorType::f32 ? 64 : 32);
  for (int64_t block = 0; block < cols; block += 32) {
    const int64_t end = block + 32 < cols ? block + 32 : cols;
    Floats part[count];
    for (int n = 0; n < count; ++n) part[n] = zero_floats();
    for (int64_t c = block; c < end; ++c) {
      __builtin_prefetch(reinterpret_cast<const uint8_t*>(group) + (c + ahead) * (type == TensorType::f32 ? 64 : 32), 0, 3);
      const Floats weights = float_weights<type>(group, c);
      for (int n = 0; n < count; ++n) part[n] = fma(weights, all(rows[n].floats[c]), part[n]);
    }
    for (int n = 0; n < count; ++n) sums[n] = add(sums[n], part[n]);
  }
  for (int n = 0; n < count; ++n) store_some(rows[n].out + first, sums[n], lanes);
}

inline constexpr int floats_at_once = registers >= 32 ? 12 : 3;

template <TensorType type>
void few_floats(const std::byte* group, int64_t cols, const ProductRow* rows, int64_t count, int64_t first, int64_t lanes) {
  in_tiles<floats_at_once>(count, [&](auto size, int64_t row) { float_rows<type, size.value>(group, cols, rows + row, first, lanes); });
}

void few(TensorType type, const std::byte* group, int64_t cols, const ProductRow* rows, int64_t count, int64_t first, int64_t lanes) {
  switch (type) {
    case TensorType::f32: return few_floats<TensorType::f32>(group, cols, rows, count, first, lanes);
    case TensorType::f16: return few_floats<TensorType::f16>(group, cols, rows, count, first, lanes);
    case TensorType::bf16: return few_floats<TensorType::bf16>(group, cols, rows, count, first, lanes);
    case TensorType::q4_0: return few_any<TensorType::q4_0>(group, cols, rows, count, first, lanes);
    case TensorType::q4_1: return few_any<TensorType::q4_1>(group, cols, rows, count, first, lanes);
    case TensorType::q5_0: return few_any<TensorType::q5_0>(group, cols, rows, count, first, lanes);
    case TensorType::q5_1: return few_any<TensorType::q5_1>(group, cols, rows, count, first, lanes);
    case TensorType::q8_0: return few_any<TensorType::q8_0>(group, cols, rows, count, first, lanes);
    case TensorType::q2_k: return few_any<TensorType::q2_k>(group, cols, rows, count, first, lanes);
    case TensorType::q3_k: return few_any<TensorType::q3_k>(group, cols, rows, count, first, lanes);
    case TensorType::q4_k: return few_any<TensorType::q4_k>(group, cols, rows, count, first, lanes);
    case TensorType::q5_k: return few_any<TensorType::q5_k>(group, cols, rows, count, first, lanes);
    case TensorType::q6_k: return few_any<TensorType::q6_k>(group, cols, rows, count, first, lanes);
    case TensorType::iq4_nl: return few_any<TensorType::iq4_nl>(group, cols, rows, count, first, lanes);
    case TensorType::iq4_xs: return few_any<TensorType::iq4_xs>(group, cols, rows, count, first, lanes);
    case TensorType::mxfp4: return few_any<TensorType::mxfp4>(group, cols, rows, count, first, lanes);
    default: return;
  }
}

// Measured with Q8_0, Q4_0, Q4_K and Q6_K: products of the last, with two scales in 32 columns, gain less.
int64_t many_from(TensorType type) {
  if (traits_of(type).chunk == 0) return 8;  // straight from the file
  if constexpr (registers < 32) return 40;
  return traits_of(type).halves ? 24 : 12;
}

void unpack(TensorType type, const std::byte* group, int64_t cols, Panel& panel) {
  switch (type) {
    case TensorType::q4_0: return unpack_group<TensorType::q4_0>(group, cols, panel);
    case TensorType::q4_1: return unpack_group<TensorType::q4_1>(group, cols, panel);
    case TensorType::q5_0: return unpack_group<TensorType::q5_0>(group, cols, panel);
    case TensorType::q5_1: return unpack_group<TensorType::q5_1>(group, cols, panel);
    case TensorType::q8_0: return unpack_group<TensorType::q8_0>(group, cols, panel);
    case TensorType::q2_k: return unpack_group<TensorType::q2_k>(group, cols, panel);
    case TensorType::q3_k: return unpack_group<TensorType::q3_k>(group, cols, panel);
    case TensorType::q4_k: return unpack_group<TensorType::q4_k>(group, cols, panel);
    case TensorType::q5_k: return unpack_group<TensorType::q5_k>(group, cols, panel);
    case TensorType::q6_k: return unpack_group<TensorType::q6_k>(group, cols, panel);
    case TensorType::iq4_nl: return unpack_group<TensorType::iq4_nl>(group, cols, panel);
    case TensorType::iq4_xs: return unpack_group<TensorType::iq4_xs>(group, cols, panel);
    case TensorType::mxfp4: return unpack_group<TensorType::mxfp4>(group, cols, panel);
    default: return;
  }
}

// What of the traits a panel still shows.
template <TensorType type>
void many_of(const Panel* panels, int64_t cols, const ProductRow* rows, int64_t count, int64_t first, int64_t lanes, const NextGroups& next) {
  constexpr TypeTraits traits = traits_of(type);
  many_any<TypeTraits{0, 0, 0, traits.offset_bits, traits.halves, traits.offsets}>(panels, cols, rows, count, first, lanes, next);
}

void many(TensorType type, const Panel panels[2], int64_t cols, const ProductRow* rows, int64_t count, int64_t first, int64_t lanes, const NextGroups& next) {
  switch (type) {
    case TensorType::q4_0: return many_of<TensorType::q4_0>(panels, cols, rows, count, first, lanes, next);
    case TensorType::q5_0: return many_of<TensorType::q5_0>(panels, cols, rows, count, first, lanes, next);
    case TensorType::q8_0: case TensorType::iq4_nl: case TensorType::iq4_xs: case TensorType::mxfp4: case TensorType::iq1_s:
    case TensorType::iq2_xxs: case TensorType::iq3_xxs: case TensorType::iq3_s: case TensorType::q1_0: case TensorType::q2_0:
    case TensorType::tq1_0: case TensorType::tq2_0:
      return many_of<TensorType::q8_0>(panels, cols, rows, count, first, lanes, next);
    case TensorType::q4_1: case TensorType::q5_1: case TensorType::q4_k: case TensorType::q5_k:
      return many_of<TensorType::q4_k>(panels, cols, rows, count, first, lanes, next);
    case TensorType::iq1_m: case TensorType::iq2_xs: case TensorType::iq2_s: case TensorType::nvfp4:
      return many_any<TypeTraits{0, 0, 0, 7, true, false}>(panels, cols, rows, count, first, lanes, next);
    case TensorType::q2_k: return many_of<TensorType::q2_k>(panels, cols, rows, count, first, lanes, next);
    case TensorType::q3_k: return many_of<TensorType::q3_k>(panels, cols, rows, count, first, lanes, next);
    case TensorType::q6_k: return many_of<TensorType::q6_k>(panels, cols, rows, count, first, lanes, next);
    default: return;
  }
}

}  // namespace vigil::compute::cpu::VIGIL_ISA
