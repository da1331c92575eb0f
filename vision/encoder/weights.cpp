// See weights.hpp.
#include "vision/encoder/weights.hpp"

#include <algorithm>
#include <cmath>

#include "engine/compute/cpu/dequantise.hpp"

namespace vigil::vision {
namespace {

std::string shape_text(const std::vector<int64_t>& dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  return text + "]";
}

}  // namespace

void Matrix::row(int64_t index, float* out) const {
  compute::cpu::dequantise_row(type, data.get() + static_cast<size_t>(index) * row_bytes, cols, out);
}

const gguf::Tensor* TensorReader::find(const std::string& name, std::initializer_list<int64_t> wanted) {
  if (!error_.empty()) return nullptr;
  const gguf::Tensor* tensor = file_.tensor(name);
  if (tensor == nullptr) return fail("tensor '" + name + "' is missing"), nullptr;
  used_[static_cast<size_t>(tensor - file_.tensors().data())] = true;
  // Dimensions of 1 at the end say nothing.
  std::vector<int64_t> dims = tensor->dims, asked(wanted);
  while (dims.size() > 1 && dims.back() == 1) dims.pop_back();
  while (asked.size() > 1 && asked.back() == 1) asked.pop_back();
  if (dims == asked) return tensor;
  fail("tensor '" + name + "' has shape " + shape_text(tensor->dims) + ", the configuration asks for " + shape_text(std::vector<int64_t>(wanted)));
  return nullptr;
}

Matrix TensorReader::read(const gguf::Tensor& tensor, int64_t rows, int64_t cols) {
  const auto info = gguf::type_info(tensor.type);
  if (!compute::cpu::can_dequantise(tensor.type) || !info) return fail("tensor '" + tensor.name + "': its type is none that weights have"), Matrix();
  Matrix matrix;
  matrix.type = tensor.type;
  matrix.rows = rows;
  matrix.cols = cols;
  if (cols % info->block_elements != 0) return fail("tensor '" + tensor.name + "': a row is no whole number of its type's blocks"), Matrix();
  matrix.row_bytes = static_cast<size_t>(cols) / info->block_elements * info->block_bytes;
  if (matrix.row_bytes * static_cast<size_t>(rows) != tensor.bytes) return fail("tensor '" + tensor.name + "': its data has another size than its shape"), Matrix();
  matrix.data = std::make_unique_for_overwrite<std::byte[]>(tensor.bytes);
  const Result<void> done = source_.read(file_.data_offset() + tensor.offset, {matrix.data.get(), tensor.bytes});
  if (!done) return fail("tensor '" + tensor.name + "': " + done.error()), Matrix();
  bytes_ += tensor.bytes;
  return matrix;
}

Matrix TensorReader::matrix(const std::string& name, int64_t rows, int64_t cols) {
  const gguf::Tensor* tensor = find(name, {cols, rows});
  return tensor == nullptr ? Matrix() : read(*tensor, rows, cols);
}

Matrix TensorReader::kernel(const std::string& name, int64_t rows, int64_t channels, int64_t side) {
  const gguf::Tensor* tensor = find(name, {side, side, channels, rows});
  if (tensor == nullptr) return {};
  const auto info = gguf::type_info(tensor->type);
  if (!info || info->block_elements != 1) return fail("tensor '" + name + "' must have type F32, F16 or BF16"), Matrix();
  return read(*tensor, rows, channels * side * side);
}

std::vector<float> TensorReader::vector(const std::string& name, int64_t count) {
  const gguf::Tensor* tensor = find(name, {count});
  if (tensor == nullptr) return {};
  const Matrix row = read(*tensor, 1, count);
  if (!row) return {};
  std::vector<float> values(static_cast<size_t>(count));
  row.row(0, values.data());
  if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) fail("tensor '" + name + "' holds numbers that are not finite");
  return values;
}

Linear TensorReader::linear(const std::string& name, int64_t rows, int64_t cols) {
  Linear made;
  made.weight = matrix(name + ".weight", rows, cols);
  made.bias = optional_vector(name + ".bias", rows);
  return made;
}

Norm TensorReader::norm(const std::string& name, int64_t width) {
  Norm made;
  made.gain = vector(name + ".weight", width);
  made.shift = optional_vector(name + ".bias", width);
  return made;
}

void TensorReader::skip(std::string_view prefix) {
  for (size_t i = 0; i < used_.size(); ++i) {
    if (file_.tensors()[i].name.starts_with(prefix)) used_[i] = true;
  }
}

void TensorReader::refuse_unused() {
  for (size_t i = 0; i < used_.size(); ++i) {
    if (!used_[i]) return fail("tensor '" + file_.tensors()[i].name + "' has no place in this projector as this version computes it");
  }
}

void TensorReader::fail(std::string what) {
  if (error_.empty()) error_ = std::move(what);
}

Result<void> TensorReader::outcome() const {
  if (!error_.empty()) return Error{error_};
  return {};
}

}  // namespace vigil::vision
