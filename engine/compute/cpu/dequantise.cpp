// Built without contraction of a * b + c: a fused result would differ from the reference in the last bit.
#include "engine/compute/cpu/dequantise.hpp"

#include <cassert>
#include <cstring>

#include "engine/compute/cpu/half.hpp"

namespace vigil::compute::cpu {
namespace {

uint16_t load_u16(const std::byte* from) {
  uint16_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void from_f16(const std::byte* row, int64_t cols, float* out) {
  for (int64_t i = 0; i < cols; ++i) out[i] = half_to_float(load_u16(row + 2 * i));
}

void from_bf16(const std::byte* row, int64_t cols, float* out) {
  for (int64_t i = 0; i < cols; ++i) out[i] = bfloat_to_float(load_u16(row + 2 * i));
}

// Block of 32: a half-precision scale, then 32 signed bytes; weight = scale * byte.
void from_q8_0(const std::byte* row, int64_t cols, float* out) {
  constexpr int64_t block_elements = 32, block_bytes = 34;
  for (int64_t block = 0; block < cols / block_elements; ++block) {
    const std::byte* at = row + block * block_bytes;
    const float scale = half_to_float(load_u16(at));
    int8_t codes[block_elements];
    std::memcpy(codes, at + 2, sizeof codes);
    for (int64_t i = 0; i < block_elements; ++i) out[block * block_elements + i] = scale * static_cast<float>(codes[i]);
  }
}

}  // namespace

bool can_dequantise(gguf::TensorType type) {
  switch (type) {
    case gguf::TensorType::f32:
    case gguf::TensorType::f16:
    case gguf::TensorType::bf16:
    case gguf::TensorType::q8_0: return true;
    default: return false;
  }
}

void dequantise_row(gguf::TensorType type, const std::byte* row, int64_t cols, float* out) {
  switch (type) {
    case gguf::TensorType::f32: std::memcpy(out, row, static_cast<size_t>(cols) * sizeof(float)); return;
    case gguf::TensorType::f16: from_f16(row, cols, out); return;
    case gguf::TensorType::bf16: from_bf16(row, cols, out); return;
    case gguf::TensorType::q8_0: from_q8_0(row, cols, out); return;
    default: assert(!"bind() refuses every other type");
  }
}

}  // namespace vigil::compute::cpu
