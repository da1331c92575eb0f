// Codes are taken out of the file's blocks four columns at a time, as bytes of a word. Block layouts: see dequantise_simple.cpp and
// dequantise_k.cpp, which say where each field lies.
#include "engine/compute/cpu/packed.hpp"

#include <array>
#include <cstring>

#include "engine/compute/cpu/blocks.hpp"

namespace vigil::compute::cpu {
namespace {

using gguf::TensorType;

constexpr uint32_t every_byte = 0x01010101u;

// Four bits become the lowest bits of four bytes.
uint32_t spread(uint32_t bits) { return ((bits & 15u) * 0x00204081u) & every_byte; }

// 16 bytes of nibbles for 32 columns, the low ones first.
uint32_t nibbles(const std::byte* codes, int64_t quad) { return load_u32(codes + 4 * (quad % 4)) >> (quad / 4 * 4) & 0x0f0f0f0fu; }

// The codes of columns 32 `part` + 4 `quad` to + 3 of a block.
template <TensorType type>
uint32_t codes_of(const std::byte* block, int64_t part, int64_t quad) {
  if constexpr (type == TensorType::q4_0 || type == TensorType::iq4_nl) return nibbles(block + 2, quad);
  if constexpr (type == TensorType::q4_1) return nibbles(block + 4, quad);
  if constexpr (type == TensorType::mxfp4) return nibbles(block + 1, quad);
  if constexpr (type == TensorType::iq4_xs) return nibbles(block + 8 + 16 * part, quad);
  if constexpr (type == TensorType::q5_0) return nibbles(block + 6, quad) | spread(load_u32(block + 2) >> (4 * quad)) << 4;
  if constexpr (type == TensorType::q5_1) return nibbles(block + 8, quad) | spread(load_u32(block + 4) >> (4 * quad)) << 4;
  if constexpr (type == TensorType::q8_0) return load_u32(block + 2 + 4 * quad) ^ 0x80808080u;
  if constexpr (type == TensorType::q2_k) return load_u32(block + 16 + part / 4 * 32 + 4 * quad) >> (part % 4 * 2) & 0x03030303u;
  if constexpr (type == TensorType::q3_k) {
    const uint32_t low = load_u32(block + 32 + part / 4 * 32 + 4 * quad) >> (part % 4 * 2) & 0x03030303u;
    return low | (load_u32(block + 4 * quad) >> part & every_byte) << 2;
  }
  if constexpr (type == TensorType::q4_k) return load_u32(block + 16 + part / 2 * 32 + 4 * quad) >> (part % 2 * 4) & 0x0f0f0f0fu;
  if constexpr (type == TensorType::q5_k) {
    const uint32_t low = load_u32(block + 48 + part / 2 * 32 + 4 * quad) >> (part % 2 * 4) & 0x0f0f0f0fu;
    return low | (load_u32(block + 16 + 4 * quad) >> part & every_byte) << 4;
  }
  if constexpr (type == TensorType::q6_k) {
    const int64_t half = part / 4, quarter = part % 4;
    const uint32_t low = load_u32(block + half * 64 + quarter % 2 * 32 + 4 * quad) >> (quarter / 2 * 4) & 0x0f0f0f0fu;
    return low | (load_u32(block + 128 + half * 32 + 4 * quad) >> (2 * quarter) & 0x03030303u) << 4;
  }
}

using Words = std::array<uint32_t, 8>;  // one row's codes of 32 columns: first whole, then laid over one another

enum class Planes { eight, four, four_one, four_two, two, two_one };

constexpr Planes planes_of(TensorType type) {
  switch (type) {
    case TensorType::q8_0: return Planes::eight;
    case TensorType::q5_0: case TensorType::q5_1: case TensorType::q5_k: return Planes::four_one;
    case TensorType::q6_k: return Planes::four_two;
    case TensorType::q2_k: return Planes::two;
    case TensorType::q3_k: return Planes::two_one;
    default: return Planes::four;
  }
}

uint32_t plane_of_two(const Words& codes, size_t first, int shift) {
  uint32_t word = 0;
  for (size_t f = 0; f < 4; ++f) word |= (codes[first + f] >> shift & 0x03030303u) << (2 * f);
  return word;
}

uint32_t plane_of_one(const Words& codes, int shift) {
  uint32_t word = 0;
  for (size_t j = 0; j < 8; ++j) word |= (codes[j] >> shift & every_byte) << j;
  return word;
}

// Returns how many words are stored.
template <Planes planes>
size_t lay_over(const Words& codes, Words& out) {
  if constexpr (planes == Planes::eight) {
    out = codes;
    return 8;
  }
  size_t count = 0;
  if constexpr (planes == Planes::two || planes == Planes::two_one) {
    out[count++] = plane_of_two(codes, 0, 0);
    out[count++] = plane_of_two(codes, 4, 0);
    if constexpr (planes == Planes::two_one) out[count++] = plane_of_one(codes, 2);
  } else {
    for (size_t v = 0; v < 4; ++v) out[count++] = (codes[v] & 0x0f0f0f0fu) | (codes[v + 4] & 0x0f0f0f0fu) << 4;
    if constexpr (planes == Planes::four_one) out[count++] = plane_of_one(codes, 4);
    if constexpr (planes == Planes::four_two) {
      out[count++] = plane_of_two(codes, 0, 4);
      out[count++] = plane_of_two(codes, 4, 4);
    }
  }
  return count;
}

constexpr int64_t word_bytes = 4;

template <TensorType type>
void pack_codes(const PackedForm& form, const std::byte* row, int64_t cols, int64_t lane, std::byte* group) {
  for (int64_t chunk = 0; chunk < cols / form.chunk; ++chunk) {
    const std::byte* block = row + chunk * form.block_bytes;
    for (int64_t part = 0; part < form.chunk / 32; ++part) {
      Words codes, words;
      for (int64_t quad = 0; quad < 8; ++quad) codes[static_cast<size_t>(quad)] = codes_of<type>(block, part, quad);
      const size_t count = lay_over<planes_of(type)>(codes, words);
      std::byte* to = group + (chunk * (form.chunk / 32) + part) * form.code_bytes + lane * word_bytes;
      for (size_t w = 0; w < count; ++w) std::memcpy(to + static_cast<int64_t>(w) * group_rows * word_bytes, &words[w], sizeof words[w]);
    }
  }
}

void pack_scales(const PackedForm& form, const std::byte* row, int64_t cols, int64_t lane, std::byte* scales) {
  for (int64_t chunk = 0; chunk < cols / form.chunk; ++chunk) {
    const std::byte* block = row + chunk * form.block_bytes;
    std::byte* to = scales + chunk * form.scale_bytes();
    for (int64_t h = 0; h < form.halves; ++h, to += 2 * group_rows) std::memcpy(to + 2 * lane, block + form.half_at[h], 2);
    for (int64_t field = 0; field < 2; ++field) {
      for (int64_t i = 0; i < form.byte_count[field]; ++i, to += group_rows) to[lane] = block[form.byte_at[field] + i];
    }
  }
}

void pack_floats(int64_t element, const std::byte* row, int64_t cols, int64_t lane, std::byte* group) {
  for (int64_t c = 0; c < cols; ++c) {
    std::memcpy(group + (c * group_rows + lane) * element, row + c * element, static_cast<size_t>(element));
  }
}

using CodePacker = void (*)(const PackedForm&, const std::byte*, int64_t, int64_t, std::byte*);

CodePacker code_packer(TensorType type) {
  switch (type) {
    case TensorType::q4_0: return pack_codes<TensorType::q4_0>;
    case TensorType::q4_1: return pack_codes<TensorType::q4_1>;
    case TensorType::q5_0: return pack_codes<TensorType::q5_0>;
    case TensorType::q5_1: return pack_codes<TensorType::q5_1>;
    case TensorType::q8_0: return pack_codes<TensorType::q8_0>;
    case TensorType::q2_k: return pack_codes<TensorType::q2_k>;
    case TensorType::q3_k: return pack_codes<TensorType::q3_k>;
    case TensorType::q4_k: return pack_codes<TensorType::q4_k>;
    case TensorType::q5_k: return pack_codes<TensorType::q5_k>;
    case TensorType::q6_k: return pack_codes<TensorType::q6_k>;
    case TensorType::iq4_nl: return pack_codes<TensorType::iq4_nl>;
    case TensorType::iq4_xs: return pack_codes<TensorType::iq4_xs>;
    case TensorType::mxfp4: return pack_codes<TensorType::mxfp4>;
    default: return nullptr;
  }
}

}  // namespace

std::optional<PackedForm> packed_form(TensorType type) {
  switch (type) {
    case TensorType::f32: return PackedForm{1, 4, 32 * 64, 0, 0, {}, {}, {}};
    case TensorType::f16: case TensorType::bf16: return PackedForm{1, 2, 32 * 32, 0, 0, {}, {}, {}};
    case TensorType::q4_0: case TensorType::iq4_nl: return PackedForm{32, 18, 256, 1, 0, {0}, {}, {}};
    case TensorType::q4_1: return PackedForm{32, 20, 256, 2, 0, {0, 2}, {}, {}};
    case TensorType::q5_0: return PackedForm{32, 22, 320, 1, 0, {0}, {}, {}};
    case TensorType::q5_1: return PackedForm{32, 24, 320, 2, 0, {0, 2}, {}, {}};
    case TensorType::q8_0: return PackedForm{32, 34, 512, 1, 0, {0}, {}, {}};
    case TensorType::q2_k: return PackedForm{256, 84, 128, 2, 16, {80, 82}, {0}, {16}};
    case TensorType::q3_k: return PackedForm{256, 110, 192, 1, 12, {108}, {96}, {12}};
    case TensorType::q4_k: return PackedForm{256, 144, 256, 2, 12, {0, 2}, {4}, {12}};
    case TensorType::q5_k: return PackedForm{256, 176, 320, 2, 12, {0, 2}, {4}, {12}};
    case TensorType::q6_k: return PackedForm{256, 210, 384, 1, 16, {208}, {192}, {16}};
    case TensorType::iq4_xs: return PackedForm{256, 136, 256, 1, 6, {0}, {2, 4}, {2, 4}};
    case TensorType::mxfp4: return PackedForm{32, 17, 256, 0, 1, {}, {0}, {1}};
    default: return std::nullopt;
  }
}

void pack_group(TensorType type, const std::byte* matrix, int64_t rows, size_t row_bytes, int64_t cols, int64_t first, std::byte* group) {
  const PackedForm form = *packed_form(type);
  const CodePacker pack = code_packer(type);
  for (int64_t lane = 0; lane < group_rows && first + lane < rows; ++lane) {
    const std::byte* row = matrix + static_cast<size_t>(first + lane) * row_bytes;
    if (pack == nullptr) {
      pack_floats(form.block_bytes, row, cols, lane, group);
      continue;
    }
    pack(form, row, cols, lane, group);
    pack_scales(form, row, cols, lane, group + packed_code_bytes(form, cols));
  }
}

}  // namespace vigil::compute::cpu
