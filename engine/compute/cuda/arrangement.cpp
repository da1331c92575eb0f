// The host side of the device's arrangement of weights: takes the file's blocks apart (layouts: ggml project, ggml-common.h, as described in
// engine/compute/cpu/dequantise_*.cpp) and lays their fields out as arrangement.hpp says.
#include "engine/compute/cuda/arrangement.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "engine/compute/cpu/blocks.hpp"
#include "engine/compute/cuda/products.hpp"

namespace vigil::compute::cuda {
namespace {

using cpu::load_u16;
using cpu::load_u32;
using cpu::load_u8;
using gguf::TensorType;

// One row of a group, and where its pieces go.
class RowOfGroup {
 public:
  RowOfGroup(Streams streams, size_t parts, size_t row, std::byte* group) : streams_(streams), layout_(streams, parts), row_(row), group_(group) {}

  // `bytes` of the row's codes from byte `first` on: pieces of 16.
  void codes(size_t first, const void* from, size_t bytes) { pieces(0, first, from, bytes); }
  void extras(size_t chunk, size_t first, const void* from, size_t bytes) {
    pieces(layout_.extras, chunk * static_cast<size_t>(streams_.extra_bytes) + first, from, bytes);
  }
  void scales(size_t chunk, size_t first, const void* from, size_t bytes) {
    std::memcpy(group_ + layout_.scales + (chunk * 8 + row_) * static_cast<size_t>(streams_.scale_bytes) + first, from, bytes);
  }
  void factor(size_t chunk, const std::byte* half) { std::memcpy(group_ + layout_.factors + (chunk * 8 + row_) * 2, half, 2); }

 private:
  void pieces(size_t stream, size_t first, const void* from, size_t bytes) {
    std::memcpy(group_ + stream + (first / 16 * 8 + row_) * 16 + first % 16, from, bytes);
  }

  Streams streams_;
  GroupLayout layout_;
  size_t row_;
  std::byte* group_;
};

using Nibbles = std::array<uint8_t, 32>;  // of a part, in column order

void put_nibbles(RowOfGroup& to, size_t part, const Nibbles& nibbles) {
  uint8_t bytes[16];
  for (size_t j = 0; j < 16; ++j) bytes[j] = static_cast<uint8_t>(nibbles[j] | nibbles[j + 16] << 4);
  to.codes(part * 16, bytes, 16);
}

void put_codebook_nibbles(RowOfGroup& to, size_t part, const Nibbles& nibbles) {
  uint8_t bytes[16];
  for (size_t k = 0; k < 4; ++k) {
    for (size_t i = 0; i < 2; ++i) {
      bytes[4 * k + i] = static_cast<uint8_t>(nibbles[4 * k + 2 * i] | nibbles[4 * k + 2 * i + 1] << 4);
      bytes[4 * k + 2 + i] = static_cast<uint8_t>(nibbles[16 + 4 * k + 2 * i] | nibbles[16 + 4 * k + 2 * i + 1] << 4);
    }
  }
  to.codes(part * 16, bytes, 16);
}

// Sixteen bytes that hold column j and j + 16.
Nibbles split_nibbles(const std::byte* bytes) {
  Nibbles nibbles;
  for (size_t j = 0; j < 16; ++j) {
    nibbles[j] = load_u8(bytes + j) & 15u;
    nibbles[j + 16] = static_cast<uint8_t>(load_u8(bytes + j) >> 4);
  }
  return nibbles;
}

// Thirty-two bytes of which a part has the low or the high halves.
Nibbles one_side(const std::byte* bytes, unsigned shift) {
  Nibbles nibbles;
  for (size_t j = 0; j < 32; ++j) nibbles[j] = static_cast<uint8_t>(load_u8(bytes + j) >> shift & 15u);
  return nibbles;
}

void put_small_blocks(TensorType type, RowOfGroup& to, size_t parts, const std::byte* row) {
  for (size_t part = 0; part < parts; ++part) {
    const size_t chunk = part / 8, place = part % 8;
    if (type == TensorType::q4_0) {
      const std::byte* block = row + part * 18;
      put_nibbles(to, part, split_nibbles(block + 2));
      to.scales(chunk, place * 2, block, 2);
    } else if (type == TensorType::q8_0) {
      const std::byte* block = row + part * 34;
      to.codes(part * 32, block + 2, 16);
      to.codes(part * 32 + 16, block + 18, 16);
      to.scales(chunk, place * 2, block, 2);
    } else {  // MXFP4
      const std::byte* block = row + part * 17;
      put_codebook_nibbles(to, part, split_nibbles(block + 1));
      to.scales(chunk, place, block, 1);
    }
  }
}

// Twelve bytes of six-bit pairs: see six_bit_pair in dequantise_k.cpp.
SixBits six_bits(const std::byte* block) {
  const auto byte = [&](size_t i) -> uint64_t { return load_u8(block + 4 + i); };
  uint64_t scales = 0, offsets = 0;
  for (size_t p = 0; p < 8; ++p) {
    const uint64_t scale = p < 4 ? byte(p) & 63u : (byte(p + 4) & 15u) | byte(p - 4) >> 6 << 4;
    const uint64_t offset = p < 4 ? byte(p + 4) & 63u : byte(p + 4) >> 4 | byte(p) >> 6 << 4;
    scales |= scale << (6 * p);
    offsets |= offset << (6 * p);
  }
  return {load_u32(block), static_cast<uint32_t>(scales), static_cast<uint32_t>(offsets), static_cast<uint32_t>(scales >> 32 | offsets >> 32 << 16)};
}

void put_q4_k(RowOfGroup& to, size_t chunk, const std::byte* block) {
  const SixBits bits = six_bits(block);
  to.scales(chunk, 0, &bits, sizeof bits);
  for (size_t p = 0; p < 8; ++p) put_nibbles(to, chunk * 8 + p, one_side(block + 16 + p / 2 * 32, p % 2 * 4));
}

void put_q5_k(RowOfGroup& to, size_t chunk, const std::byte* block) {
  const SixBits bits = six_bits(block);
  to.scales(chunk, 0, &bits, sizeof bits);
  for (size_t p = 0; p < 8; ++p) {
    put_nibbles(to, chunk * 8 + p, one_side(block + 48 + p / 2 * 32, p % 2 * 4));
    uint32_t fifth = 0;
    for (size_t k = 0; k < 8; ++k) fifth |= (load_u32(block + 16 + 4 * k) >> p & 0x01010101u) << k;
    to.extras(chunk, p * 4, &fifth, 4);
  }
}

void put_q6_k(RowOfGroup& to, size_t chunk, const std::byte* block) {
  to.scales(chunk, 0, block + 192, 16);
  to.factor(chunk, block + 208);
  for (size_t p = 0; p < 8; ++p) {
    const size_t half = p / 4, quarter = p % 4;
    put_nibbles(to, chunk * 8 + p, one_side(block + half * 64 + quarter % 2 * 32, static_cast<unsigned>(quarter / 2 * 4)));
    uint32_t upper[2] = {0, 0};
    for (size_t k = 0; k < 8; ++k) upper[k / 4] |= (load_u32(block + 128 + half * 32 + 4 * k) >> (2 * quarter) & 0x03030303u) << (k % 4 * 2);
    to.extras(chunk, p * 8, upper, 8);
  }
}

void put_iq4_xs(RowOfGroup& to, size_t chunk, const std::byte* block) {
  to.scales(chunk, 0, block, 8);
  for (size_t p = 0; p < 8; ++p) put_codebook_nibbles(to, chunk * 8 + p, split_nibbles(block + 8 + p * 16));
}

void put_iq3_xxs(RowOfGroup& to, size_t chunk, const std::byte* block) {
  to.factor(chunk, block);
  for (size_t p = 0; p < 8; ++p) {
    to.codes((chunk * 8 + p) * 8, block + 2 + p * 8, 8);
    to.extras(chunk, p * 4, block + 66 + p * 4, 4);
  }
}

void put_superblocks(TensorType type, RowOfGroup& to, size_t parts, const std::byte* row) {
  for (size_t chunk = 0; chunk < parts / 8; ++chunk) {
    switch (type) {
      case TensorType::q4_k: put_q4_k(to, chunk, row + chunk * 144); break;
      case TensorType::q5_k: put_q5_k(to, chunk, row + chunk * 176); break;
      case TensorType::q6_k: put_q6_k(to, chunk, row + chunk * 210); break;
      case TensorType::iq4_xs: put_iq4_xs(to, chunk, row + chunk * 136); break;
      default: put_iq3_xxs(to, chunk, row + chunk * 98); break;
    }
  }
}

size_t parts_of(int64_t cols) { return static_cast<size_t>(cols + part_columns - 1) / part_columns; }

// A BF16 value over 2^(exponent - 127), as a half. Common values need no arithmetic: three bits more of mantissa and another exponent.
uint16_t scaled_half(uint16_t bits, int exponent) {
  const int own = bits >> 7 & 255, scaled = own - exponent + 15;
  if (own > 0 && scaled >= 1 && scaled <= 30) return static_cast<uint16_t>((bits & 0x8000) | scaled << 10 | (bits & 127) << 3);
  return cpu::float_to_half(std::ldexp(cpu::bfloat_to_float(bits), 127 - exponent));
}

void put_halves(TensorType type, size_t row, int64_t cols, const std::byte* from, std::byte* group) {
  float factor = 1;
  int exponent = 127;
  if (type == TensorType::bf16) {
    uint16_t largest = 0;
    for (int64_t i = 0; i < cols; ++i) largest = std::max(largest, static_cast<uint16_t>(load_u16(from + 2 * i) & 0x7fff));
    // The largest comes to lie between 2^14 and 2^15; without a finite one there is nothing to scale.
    if (largest > 0 && largest < 0x7f80) exponent = std::max((largest >> 7) - 14, 1);
    factor = std::bit_cast<float>(static_cast<uint32_t>(exponent) << 23);
  }
  for (size_t first = 0; first < static_cast<size_t>(cols); first += part_columns) {
    uint16_t halves[part_columns] = {};
    const size_t count = std::min<size_t>(part_columns, static_cast<size_t>(cols) - first);
    std::memcpy(halves, from + 2 * first, 2 * count);
    if (type == TensorType::bf16) {
      for (size_t i = 0; i < count; ++i) halves[i] = scaled_half(halves[i], exponent);
    }
    std::memcpy(group + (first / part_columns * 8 + row) * 64, halves, sizeof halves);
  }
  std::memcpy(group + parts_of(cols) * 512 + row * 4, &factor, 4);
}

void put_floats(size_t row, int64_t cols, const std::byte* from, std::byte* group) {
  for (size_t i = 0; i < static_cast<size_t>(cols); i += 4) {
    std::memcpy(group + (i / 4 * 8 + row) * 16, from + 4 * i, 4 * std::min<size_t>(4, static_cast<size_t>(cols) - i));
  }
}

size_t group_bytes(TensorType type, int64_t cols) {
  const size_t parts = parts_of(cols);
  switch (type) {
    case TensorType::f16: case TensorType::bf16: return parts * 512 + 32;
    case TensorType::f32: return parts * 1024;
    default: return GroupLayout(streams_of(type), parts).bytes;
  }
}

}  // namespace

size_t arranged_bytes(TensorType type, int64_t rows, int64_t cols) {
  return static_cast<size_t>((rows + group_rows - 1) / group_rows) * group_bytes(type, cols);
}

void arrange(TensorType type, int64_t row_count, int64_t cols, const std::byte* file_rows, std::byte* out) {
  const auto info = *gguf::type_info(type);
  const size_t row_bytes = static_cast<size_t>(cols) / info.block_elements * info.block_bytes, parts = parts_of(cols);
  std::memset(out, 0, arranged_bytes(type, row_count, cols));
  for (int64_t i = 0; i < row_count; ++i) {
    const std::byte* row = file_rows + static_cast<size_t>(i) * row_bytes;
    std::byte* group = out + static_cast<size_t>(i / group_rows) * group_bytes(type, cols);
    const size_t place = static_cast<size_t>(i % group_rows);
    RowOfGroup to(streams_of(type), parts, place, group);
    switch (type) {
      case TensorType::f32: put_floats(place, cols, row, group); break;
      case TensorType::f16: case TensorType::bf16: put_halves(type, place, cols, row, group); break;
      case TensorType::q4_0: case TensorType::q8_0: case TensorType::mxfp4: put_small_blocks(type, to, parts, row); break;
      default: put_superblocks(type, to, parts, row); break;
    }
  }
}

}  // namespace vigil::compute::cuda
