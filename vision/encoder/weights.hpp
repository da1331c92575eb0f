// The tensors of a projector file in memory. They are read, not mapped: a file that shrinks is an error, not the end of the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/byte_source.hpp"
#include "engine/gguf/file.hpp"
#include "protocol/result.hpp"

namespace vigil::vision {

// Rows of weights in the file's type, each contiguous.
struct Matrix {
  gguf::TensorType type = gguf::TensorType::f32;
  int64_t rows = 0, cols = 0;
  size_t row_bytes = 0;
  std::unique_ptr<std::byte[]> data;
  explicit operator bool() const { return data != nullptr; }
  void row(int64_t index, float* out) const;  // [cols]
};

struct Linear {
  Matrix weight;
  std::vector<float> bias;  // [rows], or empty
};

// Gain and shift of a norm; without a shift the norm has none.
struct Norm {
  std::vector<float> gain, shift;
  explicit operator bool() const { return !gain.empty(); }
};

// Each call returns an empty value after an error; the first error is kept. Shapes are compared exactly, and nothing is allocated but for
// tensors whose bytes the file has.
class TensorReader {
 public:
  TensorReader(const gguf::File& file, const gguf::ByteSource& source) : file_(file), source_(source), used_(file.tensors().size(), false) {}

  bool has(std::string_view name) const { return file_.tensor(name) != nullptr; }
  int64_t cols(std::string_view name) const { return has(name) ? file_.tensor(name)->cols() : 0; }
  // Rows and columns as the shape says, innermost (columns) first; the file's dimensions beyond the second count as rows' parts or columns'.
  Matrix matrix(const std::string& name, int64_t rows, int64_t cols);
  // A convolution kernel [rows, channels, side, side] as the matrix [rows, channels * side * side]. F32, F16 and BF16 only.
  Matrix kernel(const std::string& name, int64_t rows, int64_t channels, int64_t side);
  std::vector<float> vector(const std::string& name, int64_t count);
  std::vector<float> optional_vector(const std::string& name, int64_t count) { return has(name) ? vector(name, count) : std::vector<float>(); }
  Linear linear(const std::string& name, int64_t rows, int64_t cols);  // NAME.weight, and NAME.bias if there is one
  Norm norm(const std::string& name, int64_t width);                   // NAME.weight, and NAME.bias if there is one
  Norm optional_norm(const std::string& name, int64_t width) { return has(name + ".weight") ? norm(name, width) : Norm(); }

  void skip(std::string_view prefix);  // tensors whose names begin so have no part in the result
  void refuse_unused();                // fails for a tensor that nobody asked for: leaving it out would give wrong answers in silence
  void fail(std::string what);
  Result<void> outcome() const;
  uint64_t bytes() const { return bytes_; }

 private:
  const gguf::Tensor* find(const std::string& name, std::initializer_list<int64_t> dims);
  Matrix read(const gguf::Tensor& tensor, int64_t rows, int64_t cols);

  const gguf::File& file_;
  const gguf::ByteSource& source_;
  std::vector<bool> used_;  // by index in the file's tensors
  uint64_t bytes_ = 0;
  std::string error_;
};

}  // namespace vigil::vision
