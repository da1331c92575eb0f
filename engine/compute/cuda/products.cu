// Which kernels a product takes: by the weight's type, the number of rows, and whether experts are chosen. Launches nothing itself.
#include <cassert>

#include "engine/compute/cuda/product_parts.hpp"

namespace vigil::compute::cuda {
namespace {

using gguf::TensorType;

using Launcher = void (*)(const ProductCall&);

Launcher launcher_of(TensorType type) {
  switch (type) {
    case TensorType::f32: return launch_float_product;
    case TensorType::f16: case TensorType::bf16: return launch_half_product;
    case TensorType::q4_0: case TensorType::q8_0: return launch_plain_product;
    case TensorType::q4_k: case TensorType::q5_k: case TensorType::q6_k: return launch_k_product;
    case TensorType::iq4_xs: case TensorType::iq3_xxs: case TensorType::mxfp4: return launch_named_product;
    default: return nullptr;
  }
}

size_t round_up(size_t bytes) { return (bytes + 15) / 16 * 16; }

// Sorting pays when an expert's weights meet several inputs.
bool worth_sorting(const ExpertChoice& choice) { return choice.rows * choice.used > 4 * choice.experts; }

}  // namespace

bool has_product_kernel(TensorType type) { return launcher_of(type) != nullptr; }

InputForm input_form(TensorType type) {
  switch (type) {
    case TensorType::f32: return InputForm::floats;
    case TensorType::f16: case TensorType::bf16: return InputForm::halves;
    default: return InputForm::bytes;
  }
}

size_t product_scratch_bytes(int64_t rows, int64_t cols) {
  // The widest form, and of each row's factors the most.
  const size_t values = static_cast<size_t>(rows) * static_cast<size_t>(input_parts(cols)) * value_bytes(InputForm::halves);
  return round_up(values + static_cast<size_t>(rows) * sizeof(float));
}

void product_of_prepared(cudaStream_t stream, const Matrix& weight, const std::byte* scratch, float* out, int64_t rows) {
  if (rows == 0) return;
  const Launcher launch_product = launcher_of(weight.type);
  assert(launch_product != nullptr);
  const Inputs inputs = inputs_in(scratch, input_form(weight.type), rows, weight.cols);
  launch_product({stream, weight.type, weight.address, weight.rows, weight.rows, inputs, {}, out});
}

void product(cudaStream_t stream, const Matrix& weight, const float* in, float* out, int64_t rows, std::byte* scratch) {
  prepare_input(stream, input_form(weight.type), in, rows, weight.cols, scratch);
  product_of_prepared(stream, weight, scratch, out, rows);
}

size_t expert_scratch_bytes(int64_t rows, int64_t used, int64_t experts, int64_t cols) {
  return product_scratch_bytes(rows * used, cols) + round_up(route_scratch_bytes(rows * used, experts));
}

void expert_product(cudaStream_t stream, const Matrix& experts, int64_t out_cols, const ExpertChoice& choice, const float* in, float* out, std::byte* scratch) {
  if (choice.rows == 0) return;
  const Launcher launch_product = launcher_of(experts.type);
  assert(launch_product != nullptr);
  const InputForm form = input_form(experts.type);
  const int64_t input_rows = choice.input_per_choice ? choice.rows * choice.used : choice.rows;
  prepare_input(stream, form, in, input_rows, experts.cols, scratch);
  Routes routes{choice.choice, static_cast<int>(choice.rows * choice.used), choice.input_per_choice ? 1 : static_cast<int>(choice.used)};
  if (experts.type != TensorType::f32 && worth_sorting(choice)) {
    routes = sort_routes(stream, choice, scratch + product_scratch_bytes(input_rows, experts.cols));
  }
  launch_product({stream, experts.type, experts.address, experts.rows, out_cols, inputs_in(scratch, form, input_rows, experts.cols), routes, out});
}

}  // namespace vigil::compute::cuda
