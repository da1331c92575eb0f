// Rows of weights from the file's types to float. Block formats: ggml project, ggml-common.h (described in docs/gguf.md).
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/gguf/tensor_type.hpp"

namespace vigil::compute::cpu {

// F32, F16, BF16 and Q8_0.
bool can_dequantise(gguf::TensorType type);

// `row` holds `cols` weights (a multiple of the type's block length), at any alignment. Each value is rounded at most once.
void dequantise_row(gguf::TensorType type, const std::byte* row, int64_t cols, float* out);

}  // namespace vigil::compute::cpu
