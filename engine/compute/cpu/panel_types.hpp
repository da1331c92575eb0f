// Weight types whose codes are indexes into tables or digits of one number: packing would make them larger, so the fast backend takes them
// from the file as they are and makes bytes and scales of sixteen rows at a time when it multiplies (Panel in fast_kernels.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/compute/cpu/fast_kernels.hpp"
#include "engine/gguf/tensor_type.hpp"

namespace vigil::compute::cpu {

bool is_panel_type(gguf::TensorType type);
// Whether 32 columns have two scales.
bool panel_has_halves(gguf::TensorType type);
// Rows `first` to `first + 15` of a matrix of `rows` rows as the file has it; rows past its end become zero. Codes are signed bytes plus 128.
void unpack_rows(gguf::TensorType type, const std::byte* matrix, int64_t rows, size_t row_bytes, int64_t cols, int64_t first, const Panel& panel);

}  // namespace vigil::compute::cpu
