// Shapes are compared exactly; nothing is allocated from what a header claims.
#include "engine/model/weights.hpp"

#include <algorithm>
#include <cstring>

namespace vigil::model {
namespace {

std::string shape_text(std::span<const int64_t> dims) {
  std::string text = "[";
  for (size_t i = 0; i < dims.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
  return text + "]";
}

// Tensors that writers add and that no computation needs.
bool harmless(std::string_view name) { return name.ends_with(".attn_rot_embd") || name.ends_with(".rope_freqs"); }

}  // namespace

WeightBinder::WeightBinder(const gguf::File& file, std::span<const std::byte> bytes, compute::Backend& backend)
    : file_(file), bytes_(bytes), backend_(backend), used_(file.tensors().size(), false) {}

compute::Weight WeightBinder::matrix(const std::string& name, int64_t rows, int64_t cols) {
  const gguf::Tensor* tensor = find(name, {cols, rows});
  if (tensor == nullptr) return {};
  Result<compute::Weight> weight = backend_.bind(name, tensor->type, rows, cols, data(*tensor));
  if (!weight) return fail(weight.error()), compute::Weight{};
  bound_bytes_ += tensor->bytes;
  return *weight;
}

compute::Weight WeightBinder::vector(const std::string& name, int64_t cols) {
  const gguf::Tensor* tensor = find(name, {cols});
  if (tensor == nullptr) return {};
  Result<compute::Weight> weight = backend_.bind(name, tensor->type, 1, cols, data(*tensor));
  if (!weight) return fail(weight.error()), compute::Weight{};
  bound_bytes_ += tensor->bytes;
  return *weight;
}

std::vector<float> WeightBinder::optional_floats(const std::string& name, int64_t count) {
  if (!has(name)) return {};
  const gguf::Tensor* tensor = find(name, {count});
  if (tensor == nullptr) return {};
  if (tensor->type != gguf::TensorType::f32) return fail("tensor '" + name + "' must have type F32"), std::vector<float>{};
  std::vector<float> values(static_cast<size_t>(count));
  const std::span<const std::byte> from = data(*tensor);
  if (from.size() < values.size() * sizeof(float)) return {};  // data() has kept the error
  std::memcpy(values.data(), from.data(), values.size() * sizeof(float));
  bound_bytes_ += tensor->bytes;
  return values;
}

void WeightBinder::refuse_unused() {
  for (size_t i = 0; i < used_.size(); ++i) {
    const std::string& name = file_.tensors()[i].name;
    if (!used_[i] && !harmless(name)) fail("tensor '" + name + "' has no place in this architecture as this version computes it");
  }
}

Result<void> WeightBinder::outcome() const {
  if (!error_.empty()) return Error{error_};
  return {};
}

const gguf::Tensor* WeightBinder::find(const std::string& name, std::initializer_list<int64_t> dims) {
  const gguf::Tensor* tensor = file_.tensor(name);
  if (tensor == nullptr) return fail("tensor '" + name + "' is missing"), nullptr;
  used_[static_cast<size_t>(tensor - file_.tensors().data())] = true;
  // Trailing dimensions of 1 say nothing.
  std::vector<int64_t> actual = tensor->dims;
  while (actual.size() > dims.size() && actual.back() == 1) actual.pop_back();
  if (!std::equal(actual.begin(), actual.end(), dims.begin(), dims.end())) {
    return fail("tensor '" + name + "' has shape " + shape_text(tensor->dims) + ", the configuration asks for " +
                shape_text(std::span(dims.begin(), dims.size()))),
           nullptr;
  }
  return tensor;
}

std::span<const std::byte> WeightBinder::data(const gguf::Tensor& tensor) const {
  const uint64_t size = bytes_.size(), start = file_.data_offset();
  // The header was checked against the file's size at that time; the mapping may be of a file that has shrunk since.
  if (start > size || tensor.offset > size - start || tensor.bytes > size - start - tensor.offset) return {};
  return bytes_.subspan(start + tensor.offset, tensor.bytes);
}

void WeightBinder::fail(std::string what) {
  if (error_.empty()) error_ = std::move(what);
}

}  // namespace vigil::model
