// The table from type to decoder, and the plain types. Built without contraction of a * b + c: a fused result would differ from the
// reference in the last bit.
#include "engine/compute/cpu/dequantise.hpp"

#include <cassert>
#include <cstring>
#include <string>

#include "engine/compute/cpu/blocks.hpp"

namespace vigil::compute::cpu {
namespace {

void f32_row(const std::byte* row, int64_t cols, float* out) { std::memcpy(out, row, static_cast<size_t>(cols) * sizeof(float)); }

void f16_row(const std::byte* row, int64_t cols, float* out) {
  for (int64_t i = 0; i < cols; ++i) out[i] = half_to_float(load_u16(row + 2 * i));
}

void bf16_row(const std::byte* row, int64_t cols, float* out) {
  for (int64_t i = 0; i < cols; ++i) out[i] = bfloat_to_float(load_u16(row + 2 * i));
}

// Null for a type that holds no weights, such as I32 and the two that only carry activations (Q8_1, Q8_K).
RowDecoder decoder_of(gguf::TensorType type) {
  using T = gguf::TensorType;
  switch (type) {
    case T::f32: return f32_row;
    case T::f16: return f16_row;
    case T::bf16: return bf16_row;
    case T::q4_0: return q4_0_row;
    case T::q4_1: return q4_1_row;
    case T::q5_0: return q5_0_row;
    case T::q5_1: return q5_1_row;
    case T::q8_0: return q8_0_row;
    case T::q1_0: return q1_0_row;
    case T::q2_0: return q2_0_row;
    case T::q2_k: return q2_k_row;
    case T::q3_k: return q3_k_row;
    case T::q4_k: return q4_k_row;
    case T::q5_k: return q5_k_row;
    case T::q6_k: return q6_k_row;
    case T::iq1_s: return iq1_s_row;
    case T::iq1_m: return iq1_m_row;
    case T::iq2_xxs: return iq2_xxs_row;
    case T::iq2_xs: return iq2_xs_row;
    case T::iq2_s: return iq2_s_row;
    case T::iq3_xxs: return iq3_xxs_row;
    case T::iq3_s: return iq3_s_row;
    case T::iq4_nl: return iq4_nl_row;
    case T::iq4_xs: return iq4_xs_row;
    case T::tq1_0: return tq1_0_row;
    case T::tq2_0: return tq2_0_row;
    case T::mxfp4: return mxfp4_row;
    case T::nvfp4: return nvfp4_row;
    case T::q8_1: case T::q8_k: case T::i8: case T::i16: case T::i32: case T::i64: case T::f64: return nullptr;
  }
  return nullptr;
}

}  // namespace

Result<size_t> row_bytes_of(std::string_view tensor_name, gguf::TensorType type, int64_t rows, int64_t cols, size_t bytes) {
  const auto info = gguf::type_info(type);
  const std::string name(tensor_name);
  if (!info || !can_dequantise(type)) {
    return Error{"tensor '" + name + "' has type " + (info ? std::string(info->name) : "unknown") + ", in which no weights can be kept"};
  }
  if (rows < 1 || cols < 1 || cols % info->block_elements != 0) {
    return Error{"tensor '" + name + "': a row of " + std::to_string(cols) + " is no whole number of " + std::string(info->name) + " blocks"};
  }
  const size_t row_bytes = static_cast<size_t>(cols / info->block_elements) * info->block_bytes;
  if (bytes / row_bytes < static_cast<size_t>(rows)) return Error{"tensor '" + name + "': its data is shorter than its shape"};
  return row_bytes;
}

bool can_dequantise(gguf::TensorType type) { return decoder_of(type) != nullptr; }

void dequantise_row(gguf::TensorType type, const std::byte* row, int64_t cols, float* out) {
  const RowDecoder decode = decoder_of(type);
  assert(decode != nullptr && "bind() refuses every other type");
  decode(row, cols, out);
}

}  // namespace vigil::compute::cpu
