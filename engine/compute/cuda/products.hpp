// Products of activations with weights, and rows looked up from a table, on the device. Host-side functions; a kernel's faults show through the
// runtime (cudaGetLastError). All device memory is the caller's, aligned to 16 bytes.
//
// Accuracy. Integer types round an input row to signed bytes, 32 columns sharing a scale (largest magnitude / 127); the integer dot products are
// exact, float sums are in single precision. F16 and BF16 weights meet inputs as the sum of two halves under a power of two a row, which keeps 22
// bits of each value; F32 weights meet them as they are. BF16 becomes halves under a power of two a row: exact but for values below 2^-31 of the
// row's largest, which are off by at most 2^-39 of it.
//
// Determinism. Columns are summed in ascending order within chunks of 256, and chunks in ascending order, by one fixed chain of roundings, whichever
// kernel runs: a result row depends on its own input row alone, to the bit, never on how many rows a step has or where it stands among them.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "engine/gguf/tensor_type.hpp"

namespace vigil::compute::cuda {

// F32, F16, BF16, Q4_0, Q8_0, Q4_K, Q5_K, Q6_K, IQ4_XS, IQ3_XXS, MXFP4.
bool has_product_kernel(gguf::TensorType type);

// A matrix on the device, in the arrangement below.
struct Matrix {
  gguf::TensorType type = gguf::TensorType::f32;
  int64_t rows = 0, cols = 0;  // cols: a multiple of the type's block, at least 32 for quantised types; any number for F32, F16 and BF16
  const std::byte* address = nullptr;
};

// The arrangement: groups of 8 rows, one after the other, each in one piece (arrangement.hpp says what lies where in it). So a matrix can be
// arranged and copied group by group: rows from 8 n on lie from arranged_bytes(type, 8 n, cols) on.
inline constexpr int64_t group_rows = 8;
size_t arranged_bytes(gguf::TensorType type, int64_t rows, int64_t cols);  // a multiple of 16
// From the file's rows, one after the other, to arranged_bytes(type, row_count, cols) bytes at `out`. Host memory both; a last group that is not
// full is filled up with zeros, so every piece but a matrix's last must have a multiple of 8 rows.
void arrange(gguf::TensorType type, int64_t row_count, int64_t cols, const std::byte* file_rows, std::byte* out);

// Room for the input of a product with so many rows and columns of any type.
size_t product_scratch_bytes(int64_t rows, int64_t cols);
// out[rows, weight.rows] = in[rows, weight.cols] times the transposed weight. `scratch`: product_scratch_bytes(rows, weight.cols).
void product(cudaStream_t stream, const Matrix& weight, const float* in, float* out, int64_t rows, std::byte* scratch);

// The same in two steps, for several products of one input: weights that want the same form read the same scratch.
enum class InputForm { bytes, halves, floats };
InputForm input_form(gguf::TensorType type);
void prepare_input(cudaStream_t stream, InputForm form, const float* in, int64_t rows, int64_t cols, std::byte* scratch);
void product_of_prepared(cudaStream_t stream, const Matrix& weight, const std::byte* scratch, float* out, int64_t rows);

// What a routed product is: `choice`[rows, used, 2] holds an expert's index and its share, as floats (the share is not read); the input is
// in[rows, cols], or in[rows, used, cols] where each choice has its own.
struct ExpertChoice {
  const float* choice = nullptr;
  int64_t rows = 0, used = 0;
  int64_t experts = 0;  // an index above them is a fault of the caller; one below 0 is no choice, and its row of the result stays as it is
  bool input_per_choice = false;
};
size_t expert_scratch_bytes(int64_t rows, int64_t used, int64_t experts, int64_t cols);
// out[rows, used, out_cols] = the input times the transposed matrix of each chosen expert; `experts` holds one of [out_cols, cols] after the other,
// arranged as one matrix of choice.experts * out_cols rows.
void expert_product(cudaStream_t stream, const Matrix& experts, int64_t out_cols, const ExpertChoice& choice, const float* in, float* out,
                    std::byte* scratch);

// out[rows, table.cols] = the rows of the table that `ids` (device memory) name, as the file's format defines them to the bit (BF16: see above).
void embed(cudaStream_t stream, const Matrix& table, const int32_t* ids, float* out, int64_t rows);

}  // namespace vigil::compute::cuda
