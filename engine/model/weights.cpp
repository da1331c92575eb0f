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

std::span<const std::byte> data_of(const FilePart& part, const gguf::Tensor& tensor) {
  const uint64_t size = part.bytes.size(), start = part.file->data_offset();
  // The header was checked against the file's size at that time; the mapping may be of a file that has shrunk since.
  if (start > size || tensor.offset > size - start || tensor.bytes > size - start - tensor.offset) return {};
  return part.bytes.subspan(start + tensor.offset, tensor.bytes);
}

}  // namespace

WeightBinder::WeightBinder(const Files& files, compute::Backend& backend) : files_(files), backend_(backend) {
  for (const FilePart& part : files.parts()) used_.emplace_back(part.file->tensors().size(), false);
}

compute::Weight WeightBinder::matrix(const std::string& name, int64_t rows, int64_t cols) {
  return bind(name, {cols, rows}, rows, cols, compute::WeightUse::product);
}

compute::Weight WeightBinder::table(const std::string& name, int64_t rows, int64_t cols) {
  return bind(name, {cols, rows}, rows, cols, compute::WeightUse::lookup);
}

compute::Weight WeightBinder::values(const std::string& name, int64_t rows, int64_t cols) {
  return bind(name, {cols, rows}, rows, cols, compute::WeightUse::values);
}

compute::Weight WeightBinder::vector(const std::string& name, int64_t cols) { return bind(name, {cols}, 1, cols, compute::WeightUse::values); }

compute::Weight WeightBinder::experts(const std::string& name, int64_t experts, int64_t rows, int64_t cols) {
  return bind(name, {cols, rows, experts}, experts * rows, cols, compute::WeightUse::product);
}

compute::Weight WeightBinder::bind(const std::string& name, std::initializer_list<int64_t> dims, int64_t rows, int64_t cols,
                                   compute::WeightUse use) {
  const Found found = find(name, dims);
  if (found.tensor == nullptr) return {};
  Result<compute::Weight> weight = backend_.bind(name, found.tensor->type, rows, cols, found.data, use);
  if (!weight) return fail(weight.error()), compute::Weight{};
  if (found.first_use) bound_bytes_ += found.tensor->bytes;
  return *weight;
}

std::vector<float> WeightBinder::optional_floats(const std::string& name, int64_t count) {
  if (!has(name)) return {};
  const Found found = find(name, {count});
  if (found.tensor == nullptr) return {};
  if (found.tensor->type != gguf::TensorType::f32) return fail("tensor '" + name + "' must have type F32"), std::vector<float>{};
  std::vector<float> values(static_cast<size_t>(count));
  if (found.data.size() < values.size() * sizeof(float)) return fail("tensor '" + name + "': its data is shorter than its shape"), std::vector<float>{};
  std::memcpy(values.data(), found.data.data(), values.size() * sizeof(float));
  bound_bytes_ += found.tensor->bytes;
  return values;
}

void WeightBinder::refuse_unused() {
  for (size_t p = 0; p < used_.size(); ++p) {
    for (size_t i = 0; i < used_[p].size(); ++i) {
      const std::string& name = files_.parts()[p].file->tensors()[i].name;
      if (!used_[p][i] && !harmless(name)) fail("tensor '" + name + "' has no place in this architecture as this version computes it");
    }
  }
}

Result<void> WeightBinder::outcome() const {
  if (!error_.empty()) return Error{error_};
  return {};
}

WeightBinder::Found WeightBinder::find(const std::string& name, std::initializer_list<int64_t> dims) {
  for (size_t p = 0; p < used_.size(); ++p) {
    const FilePart& part = files_.parts()[p];
    const gguf::Tensor* tensor = part.file->tensor(name);
    if (tensor == nullptr) continue;
    std::vector<bool>::reference used = used_[p][static_cast<size_t>(tensor - part.file->tensors().data())];
    const bool first_use = !used;
    used = true;
    // Trailing dimensions of 1 say nothing.
    std::vector<int64_t> actual = tensor->dims;
    while (actual.size() > dims.size() && actual.back() == 1) actual.pop_back();
    while (actual.size() < dims.size()) actual.push_back(1);
    if (std::equal(actual.begin(), actual.end(), dims.begin(), dims.end())) return {tensor, data_of(part, *tensor), first_use};
    fail("tensor '" + name + "' has shape " + shape_text(tensor->dims) + ", the configuration asks for " +
         shape_text(std::span(dims.begin(), dims.size())));
    return {};
  }
  fail("tensor '" + name + "' is missing");
  return {};
}

void WeightBinder::fail(std::string what) {
  if (error_.empty()) error_ = std::move(what);
}

}  // namespace vigil::model
