// Each type gives 32 columns as four words of eight signed bytes and one or two scales; block layouts: dequantise_iq.cpp and
// dequantise_simple.cpp, which say where each field lies.
#include "engine/compute/cpu/panel_types.hpp"

#include <array>
#include <cmath>
#include <cstring>

#include "engine/compute/cpu/blocks.hpp"
#include "engine/compute/cpu/codebooks.hpp"
#include "engine/compute/cpu/packed.hpp"

namespace vigil::compute::cpu {
namespace {

using gguf::TensorType;

struct Part {
  uint64_t bytes[4];  // signed, eight columns each
  float scales[2];    // of the first and the second 16 columns
  void scale_all(float scale) { scales[0] = scales[1] = scale; }
};

// Eight bits as eight bytes of all zeros or all ones.
constexpr std::array<uint64_t, 256> byte_masks = [] {
  std::array<uint64_t, 256> masks{};
  for (uint64_t bits = 0; bits < 256; ++bits) {
    for (uint64_t i = 0; i < 8; ++i) masks[bits] |= (bits >> i & 1) != 0 ? uint64_t{0xff} << (8 * i) : 0;
  }
  return masks;
}();

constexpr uint64_t ones = 0x0101010101010101u;

// Negative where the bit is set. No magnitude is zero, so no carry leaves its byte.
uint64_t with_signs(uint64_t magnitudes, uint32_t signs) {
  const uint64_t mask = byte_masks[signs & 255u];
  return (magnitudes ^ mask) + (mask & ones);
}

template <typename Point>
uint64_t word_of(const Point& point) {
  uint64_t word = 0;
  std::memcpy(&word, point.data(), sizeof point);
  return word;
}

uint64_t two_points(const std::array<uint8_t, 4>& low, const std::array<uint8_t, 4>& high) { return word_of(low) | word_of(high) << 32; }

float iq2_scale(float scale, uint32_t code) { return scale * (0.5f + static_cast<float>(code)) * 0.25f; }

// Points of -1, 0 and 1 moved by an eighth: eight times as large they are whole numbers.
uint64_t iq1_bytes(uint32_t index, bool down) {
  std::array<int8_t, 8> values = codebook_iq1_s[index];
  for (int8_t& value : values) value = static_cast<int8_t>(8 * value + (down ? -1 : 1));
  return word_of(values);
}

// Eight two-bit codes less one: `pairs` holds them in order.
uint64_t two_bit_bytes(uint32_t pairs) {
  uint64_t word = 0;
  for (uint32_t i = 0; i < 8; ++i) word |= static_cast<uint64_t>(static_cast<uint8_t>((pairs >> (2 * i) & 3u) - 1u)) << (8 * i);
  return word;
}

template <TensorType type>
void read_part(const std::byte* block, int64_t part, Part& out);

template <>
void read_part<TensorType::iq2_xxs>(const std::byte* block, int64_t part, Part& out) {
  const std::byte* at = block + 2 + part * 8;
  const uint32_t word = load_u32(at + 4);
  out.scale_all(iq2_scale(load_half(block), word >> 28));
  for (int64_t i = 0; i < 4; ++i) out.bytes[i] = with_signs(word_of(codebook_iq2_xxs[load_u8(at + i)]), eight_signs(word >> (7 * i) & 127u));
}

template <>
void read_part<TensorType::iq2_xs>(const std::byte* block, int64_t part, Part& out) {
  const uint32_t codes = load_u8(block + 66 + part);
  out.scales[0] = iq2_scale(load_half(block), codes & 15u);
  out.scales[1] = iq2_scale(load_half(block), codes >> 4);
  for (int64_t i = 0; i < 4; ++i) {
    const uint32_t word = load_u16(block + 2 + (part * 4 + i) * 2);
    out.bytes[i] = with_signs(word_of(codebook_iq2_xs[word & 511u]), eight_signs(word >> 9));
  }
}

template <>
void read_part<TensorType::iq2_s>(const std::byte* block, int64_t part, Part& out) {
  const uint32_t codes = load_u8(block + 74 + part), high = load_u8(block + 66 + part);
  out.scales[0] = iq2_scale(load_half(block), codes & 15u);
  out.scales[1] = iq2_scale(load_half(block), codes >> 4);
  for (int64_t i = 0; i < 4; ++i) {
    const uint32_t index = load_u8(block + 2 + part * 4 + i) | (high >> (2 * i) & 3u) << 8;
    out.bytes[i] = with_signs(word_of(codebook_iq2_s[index]), load_u8(block + 34 + part * 4 + i));
  }
}

template <>
void read_part<TensorType::iq3_xxs>(const std::byte* block, int64_t part, Part& out) {
  const uint32_t word = load_u32(block + 66 + part * 4);
  out.scale_all(load_half(block) * (0.5f + static_cast<float>(word >> 28)) * 0.5f);
  const std::byte* at = block + 2 + part * 8;
  for (int64_t i = 0; i < 4; ++i) {
    const uint64_t points = two_points(codebook_iq3_xxs[load_u8(at + 2 * i)], codebook_iq3_xxs[load_u8(at + 2 * i + 1)]);
    out.bytes[i] = with_signs(points, eight_signs(word >> (7 * i) & 127u));
  }
}

template <>
void read_part<TensorType::iq3_s>(const std::byte* block, int64_t part, Part& out) {
  const uint32_t code = load_u8(block + 106 + part / 2) >> (part % 2 * 4) & 15u, high = load_u8(block + 66 + part);
  out.scale_all(load_half(block) * static_cast<float>(1 + 2 * code));
  const std::byte* at = block + 2 + part * 8;
  for (int64_t i = 0; i < 4; ++i) {
    const uint32_t top = high >> (2 * i);
    const uint64_t points = two_points(codebook_iq3_s[load_u8(at + 2 * i) | (top & 1u) << 8], codebook_iq3_s[load_u8(at + 2 * i + 1) | (top >> 1 & 1u) << 8]);
    out.bytes[i] = with_signs(points, load_u8(block + 74 + part * 4 + i));
  }
}

template <>
void read_part<TensorType::iq1_s>(const std::byte* block, int64_t part, Part& out) {
  const uint32_t word = load_u16(block + 34 + part * 2);
  out.scale_all(load_half(block) * static_cast<float>(2 * (word >> 12 & 7u) + 1) * 0.125f);
  for (int64_t i = 0; i < 4; ++i) {
    out.bytes[i] = iq1_bytes(load_u8(block + 2 + part * 4 + i) | (word >> (3 * i) & 7u) << 8, (word & 0x8000u) != 0);
  }
}

template <>
void read_part<TensorType::iq1_m>(const std::byte* block, int64_t part, Part& out) {
  uint32_t scale_bits = 0;
  for (int64_t i = 0; i < 4; ++i) scale_bits |= static_cast<uint32_t>(load_u16(block + 48 + i * 2) >> 12) << (4 * i);
  const float scale = half_to_float(static_cast<uint16_t>(scale_bits));
  const uint32_t codes = static_cast<uint32_t>(load_u16(block + 48 + part / 2 * 2)) >> (part % 2 * 6);
  out.scales[0] = scale * static_cast<float>(2 * (codes & 7u) + 1) * 0.125f;
  out.scales[1] = scale * static_cast<float>(2 * (codes >> 3 & 7u) + 1) * 0.125f;
  for (int64_t i = 0; i < 4; ++i) {
    const uint32_t nibble = load_u8(block + 32 + part * 2 + i / 2) >> (i % 2 * 4) & 15u;
    out.bytes[i] = iq1_bytes(load_u8(block + part * 4 + i) | (nibble & 7u) << 8, (nibble & 8u) != 0);
  }
}

template <>
void read_part<TensorType::q1_0>(const std::byte* block, int64_t part, Part& out) {
  out.scale_all(load_half(block));
  for (int64_t i = 0; i < 4; ++i) out.bytes[i] = with_signs(ones, ~static_cast<uint32_t>(load_u8(block + 2 + part * 4 + i)));
}

template <>
void read_part<TensorType::q2_0>(const std::byte* block, int64_t part, Part& out) {
  out.scale_all(load_half(block));
  for (int64_t i = 0; i < 4; ++i) out.bytes[i] = two_bit_bytes(load_u16(block + 2 + part * 8 + i * 2));
}

template <>
void read_part<TensorType::tq2_0>(const std::byte* block, int64_t part, Part& out) {
  out.scale_all(load_half(block + 64));
  const std::byte* at = block + part / 4 * 32;
  for (int64_t i = 0; i < 4; ++i) {
    uint64_t codes;
    std::memcpy(&codes, at + 8 * i, sizeof codes);
    codes = codes >> (part % 4 * 2) & 3 * ones;
    out.bytes[i] = ((codes | 0x80 * ones) - ones) ^ 0x80 * ones;  // less one in each byte, without borrows
  }
}

template <>
void read_part<TensorType::tq1_0>(const std::byte* block, int64_t part, Part& out) {
  constexpr uint32_t powers[5] = {1, 3, 9, 27, 81};
  out.scale_all(load_half(block + 52));
  for (int64_t i = 0; i < 32; ++i) {
    // Columns 0 to 159: five digits of 32 bytes; 160 to 239: five of 16; then four of 4.
    const int64_t column = part * 32 + i, second = column - 160, third = column - 240;
    const int64_t byte = column < 160 ? column % 32 : third < 0 ? 32 + second % 16 : 48 + third % 4;
    const int64_t digit = column < 160 ? column / 32 : third < 0 ? second / 16 : third / 4;
    const uint32_t fraction = (load_u8(block + byte) * powers[digit]) & 255u;
    reinterpret_cast<int8_t*>(out.bytes)[i] = static_cast<int8_t>(static_cast<int32_t>(fraction * 3 >> 8) - 1);
  }
}

template <>
void read_part<TensorType::nvfp4>(const std::byte* block, int64_t part, Part& out) {
  for (int64_t h = 0; h < 2; ++h) {
    const int64_t sub = part * 2 + h;
    out.scales[h] = unsigned_e4m3(load_u8(block + sub)) * 0.5f;
    for (int64_t j = 0; j < 8; ++j) {
      const uint32_t both = load_u8(block + 4 + sub * 8 + j);
      reinterpret_cast<int8_t*>(out.bytes)[16 * h + j] = codebook_fp4_doubled[both & 15u];
      reinterpret_cast<int8_t*>(out.bytes)[16 * h + j + 8] = codebook_fp4_doubled[both >> 4];
    }
  }
}

template <TensorType type>
void unpack_one(const std::byte* row, int64_t cols, int64_t lane, const Panel& panel) {
  const auto info = *gguf::type_info(type);
  const int64_t parts = static_cast<int64_t>(info.block_elements) / 32, scales = panel_has_halves(type) ? 2 : 1;
  for (int64_t b = 0; b < cols / 32; ++b) {
    Part part;
    read_part<type>(row + b / parts * static_cast<int64_t>(info.block_bytes), b % parts, part);
    uint8_t* codes = panel.room + b * 512 + lane * 4;
    for (int64_t i = 0; i < 4; ++i) {
      const uint64_t word = part.bytes[i] ^ 0x80 * ones;
      const uint32_t low = static_cast<uint32_t>(word), high = static_cast<uint32_t>(word >> 32);
      std::memcpy(codes + 2 * i * 64, &low, sizeof low);
      std::memcpy(codes + (2 * i + 1) * 64, &high, sizeof high);
    }
    for (int64_t h = 0; h < scales; ++h) panel.scales[(b * scales + h) * group_rows + lane] = part.scales[h];
  }
}

using RowUnpacker = void (*)(const std::byte*, int64_t, int64_t, const Panel&);

RowUnpacker unpacker_of(TensorType type) {
  switch (type) {
    case TensorType::iq1_s: return unpack_one<TensorType::iq1_s>;
    case TensorType::iq1_m: return unpack_one<TensorType::iq1_m>;
    case TensorType::iq2_xxs: return unpack_one<TensorType::iq2_xxs>;
    case TensorType::iq2_xs: return unpack_one<TensorType::iq2_xs>;
    case TensorType::iq2_s: return unpack_one<TensorType::iq2_s>;
    case TensorType::iq3_xxs: return unpack_one<TensorType::iq3_xxs>;
    case TensorType::iq3_s: return unpack_one<TensorType::iq3_s>;
    case TensorType::q1_0: return unpack_one<TensorType::q1_0>;
    case TensorType::q2_0: return unpack_one<TensorType::q2_0>;
    case TensorType::tq1_0: return unpack_one<TensorType::tq1_0>;
    case TensorType::tq2_0: return unpack_one<TensorType::tq2_0>;
    case TensorType::nvfp4: return unpack_one<TensorType::nvfp4>;
    default: return nullptr;
  }
}

}  // namespace

bool is_panel_type(TensorType type) { return unpacker_of(type) != nullptr; }

bool panel_has_halves(TensorType type) {
  return type == TensorType::iq2_xs || type == TensorType::iq2_s || type == TensorType::iq1_m || type == TensorType::nvfp4;
}

void unpack_rows(TensorType type, const std::byte* matrix, int64_t rows, size_t row_bytes, int64_t cols, int64_t first, const Panel& panel) {
  const RowUnpacker unpack = unpacker_of(type);
  const int64_t count = rows - first < group_rows ? rows - first : group_rows;
  for (int64_t lane = 0; lane < count; ++lane) unpack(matrix + static_cast<size_t>(first + lane) * row_bytes, cols, lane, panel);
  for (int64_t lane = count; lane < group_rows; ++lane) {
    for (int64_t j = 0; j < cols / 4; ++j) std::memset(panel.room + j * 64 + lane * 4, 128, 4);
    for (int64_t s = 0; s < cols / 32 * (panel_has_halves(type) ? 2 : 1); ++s) panel.scales[s * group_rows + lane] = 0;
  }
}

}  // namespace vigil::compute::cpu
