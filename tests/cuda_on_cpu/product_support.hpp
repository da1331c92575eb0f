// Random weights and inputs for tests of products, and what a product must give, in double precision.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "emulation_support.hpp"
#include "engine/compute/cuda/products.hpp"

namespace products {

using Floats = std::vector<float>;

// Every type that has a kernel.
const std::vector<vigil::gguf::TensorType>& types();

Floats random_floats(int64_t count, uint64_t seed, float size = 1);

// A matrix as the file has it, as floats, and arranged on the device.
class Weights {
 public:
  Weights(vigil::gguf::TensorType type, int64_t rows, int64_t cols, uint64_t seed);
  Weights(vigil::gguf::TensorType type, int64_t rows, int64_t cols, std::vector<std::byte> file);
  // Rows of one expert, as a matrix of their own.
  Weights(const Weights& all, int64_t first_row, int64_t rows);

  vigil::compute::cuda::Matrix matrix() const;
  const Floats& values() const { return values_; }

  const vigil::gguf::TensorType type;
  const int64_t rows, cols;

 private:
  void upload();

  std::vector<std::byte> file_;
  Floats values_;
  std::optional<DeviceArray<std::byte>> arranged_;
};

// out[rows, weights.rows] on the device.
Floats product_of(const Weights& weights, const Floats& in, int64_t rows);

// The input as kernels of the type see it: rounded to bytes with a scale for each 32 columns, or as it is.
std::vector<double> seen_input(vigil::gguf::TensorType type, const Floats& in, int64_t rows, int64_t cols);

struct Reference {
  std::vector<double> values;      // [rows, weights.rows]
  std::vector<double> magnitudes;  // the sums of the terms' magnitudes: what rounding errors are measured by
};
Reference reference_of(const Weights& weights, const std::vector<double>& in, int64_t rows);

// The largest |value - reference| / magnitude; infinite where a value is none.
double worst_error(const Floats& values, const Reference& reference);

}  // namespace products
