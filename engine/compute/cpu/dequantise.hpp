// Rows of weights from the file's types to float. Block formats: ggml project, ggml-common.h (described in docs/gguf.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/gguf/tensor_type.hpp"
#include "protocol/result.hpp"

namespace vigil::compute::cpu {

// Every type that models keep weights in: all but the integer types, F64, and Q8_1 and Q8_K, which only ever held activations.
bool can_dequantise(gguf::TensorType type);

// Bytes of a row of a tensor that every backend can take: a type from above, whole blocks, and `bytes` of data for all rows. An error names the
// tensor and what is wrong with it.
Result<size_t> row_bytes_of(std::string_view tensor_name, gguf::TensorType type, int64_t rows, int64_t cols, size_t bytes);

// `row` holds `cols` weights (a multiple of the type's block length), at any alignment. Values equal the format's own to the bit.
void dequantise_row(gguf::TensorType type, const std::byte* row, int64_t cols, float* out);

}  // namespace vigil::compute::cpu
