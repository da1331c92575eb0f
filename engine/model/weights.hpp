// Finds the tensors of a model file, holds their shapes against the configuration and binds them to a backend.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/compute/backend.hpp"
#include "engine/gguf/file.hpp"
#include "protocol/result.hpp"

namespace vigil::model {

class WeightBinder {
 public:
  // `bytes` is the whole file; it must outlive the backend.
  WeightBinder(const gguf::File& file, std::span<const std::byte> bytes, compute::Backend& backend);

  // Each returns an empty handle after an error; the first error is kept.
  compute::Weight matrix(const std::string& name, int64_t rows, int64_t cols);
  compute::Weight vector(const std::string& name, int64_t cols);
  // F32 values of a small tensor that is read on the host; empty when the file has none.
  std::vector<float> optional_floats(const std::string& name, int64_t count);
  bool has(std::string_view name) const { return file_.tensor(name) != nullptr; }

  // Fails for a tensor that nobody asked for: ignoring a bias would give wrong answers in silence.
  void refuse_unused();
  Result<void> outcome() const;
  // Bytes of all tensors that were bound.
  uint64_t bound_bytes() const { return bound_bytes_; }

 private:
  const gguf::Tensor* find(const std::string& name, std::initializer_list<int64_t> dims);
  std::span<const std::byte> data(const gguf::Tensor& tensor) const;
  void fail(std::string what);

  const gguf::File& file_;
  std::span<const std::byte> bytes_;
  compute::Backend& backend_;
  std::vector<bool> used_;  // by index in file_.tensors()
  uint64_t bound_bytes_ = 0;
  std::string error_;
};

}  // namespace vigil::model
