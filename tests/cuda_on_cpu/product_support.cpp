// Reference arithmetic for products; slow and plain.
#include "product_support.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "engine/compute/cpu/dequantise.hpp"
#include "engine/sample/random.hpp"
#include "tools/random_model.hpp"

namespace products {

using namespace vigil;
using compute::cuda::InputForm;
using gguf::TensorType;

const std::vector<TensorType>& types() {
  using T = TensorType;
  static const std::vector<T> all{T::f32, T::f16, T::bf16, T::q4_0, T::q8_0, T::q4_k, T::q5_k, T::q6_k, T::iq4_xs, T::iq3_xxs, T::mxfp4};
  return all;
}

Floats random_floats(int64_t count, uint64_t seed, float size) {
  sample::Random random(seed);
  Floats values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(random.uniform() * 2 - 1) * size;
  return values;
}

Weights::Weights(TensorType kind, int64_t row_count, int64_t col_count, uint64_t seed)
    : Weights(kind, row_count, col_count, *tools::random_tensor(kind, row_count, col_count, 0.05, 0, seed)) {}

Weights::Weights(TensorType kind, int64_t row_count, int64_t col_count, std::vector<std::byte> file)
    : type(kind), rows(row_count), cols(col_count), file_(std::move(file)) {
  upload();
}

Weights::Weights(const Weights& all, int64_t first_row, int64_t row_count) : type(all.type), rows(row_count), cols(all.cols) {
  const int64_t row_bytes = static_cast<int64_t>(all.file_.size()) / all.rows;
  file_.assign(all.file_.begin() + first_row * row_bytes, all.file_.begin() + (first_row + rows) * row_bytes);
  upload();
}

void Weights::upload() {
  const size_t row_bytes = file_.size() / static_cast<size_t>(rows);
  values_.resize(static_cast<size_t>(rows * cols));
  for (int64_t i = 0; i < rows; ++i) compute::cpu::dequantise_row(type, file_.data() + static_cast<size_t>(i) * row_bytes, cols, values_.data() + i * cols);
  // In pieces, as a backend does.
  std::vector<std::byte> arranged(compute::cuda::arranged_bytes(type, rows, cols));
  constexpr int64_t piece = 2 * compute::cuda::group_rows;
  for (int64_t first = 0; first < rows; first += piece) {
    compute::cuda::arrange(type, std::min(piece, rows - first), cols, file_.data() + static_cast<size_t>(first) * row_bytes,
                           arranged.data() + compute::cuda::arranged_bytes(type, first, cols));
  }
  arranged_.emplace(arranged);
}

compute::cuda::Matrix Weights::matrix() const { return {type, rows, cols, arranged_->get()}; }

Floats product_of(const Weights& weights, const Floats& in, int64_t rows) {
  const DeviceArray<float> from(in), to(static_cast<size_t>(rows * weights.rows));
  const DeviceArray<std::byte> scratch(compute::cuda::product_scratch_bytes(rows, weights.cols));
  compute::cuda::product(nullptr, weights.matrix(), from.get(), to.get(), rows, scratch.get());
  return to.to_host();
}

std::vector<double> seen_input(TensorType type, const Floats& in, int64_t rows, int64_t cols) {
  std::vector<double> seen(in.begin(), in.end());
  if (compute::cuda::input_form(type) != InputForm::bytes) return seen;
  for (int64_t part = 0; part < rows * cols / 32; ++part) {
    const float* from = in.data() + part * 32;
    float largest = 0;
    for (int64_t i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(from[i]));
    const double scale = static_cast<double>(largest / 127.0f);
    const float inverse = largest > 0 ? 127.0f / largest : 0.0f;
    for (int64_t i = 0; i < 32; ++i) seen[static_cast<size_t>(part * 32 + i)] = scale * std::nearbyint(from[i] * inverse);
  }
  return seen;
}

Reference reference_of(const Weights& weights, const std::vector<double>& in, int64_t rows) {
  Reference reference;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t w = 0; w < weights.rows; ++w) {
      double sum = 0, magnitude = 0;
      for (int64_t c = 0; c < weights.cols; ++c) {
        const double term = in[static_cast<size_t>(r * weights.cols + c)] * static_cast<double>(weights.values()[static_cast<size_t>(w * weights.cols + c)]);
        sum += term;
        magnitude += std::fabs(term);
      }
      reference.values.push_back(sum);
      reference.magnitudes.push_back(magnitude);
    }
  }
  return reference;
}

double worst_error(const Floats& values, const Reference& reference) {
  double worst = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const double error = std::fabs(static_cast<double>(values[i]) - reference.values[i]) / (reference.magnitudes[i] + 1e-30);
    worst = std::isfinite(values[i]) ? std::max(worst, error) : std::numeric_limits<double>::infinity();
    if (std::isinf(worst)) break;
  }
  return worst;
}

}  // namespace products
