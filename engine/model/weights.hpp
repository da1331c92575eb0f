// Finds the tensors of a model, holds their shapes against the configuration and binds them to a backend.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/compute/backend.hpp"
#include "engine/model/files.hpp"
#include "protocol/result.hpp"

namespace vigil::model {

class WeightBinder {
 public:
  // The files' bytes must outlive the backend.
  WeightBinder(const Files& files, compute::Backend& backend);

  // Each returns an empty handle after an error; the first error is kept.
  compute::Weight matrix(const std::string& name, int64_t rows, int64_t cols);  // for products
  compute::Weight table(const std::string& name, int64_t rows, int64_t cols);   // whose rows are looked up by the step's ids
  compute::Weight values(const std::string& name, int64_t rows, int64_t cols);  // that ops use one by one
  compute::Weight vector(const std::string& name, int64_t cols);
  // One matrix for each expert, in turn: rows = experts * rows of one.
  compute::Weight experts(const std::string& name, int64_t experts, int64_t rows, int64_t cols);
  // Absent tensors are no error here: the handle says so.
  compute::Weight optional_vector(const std::string& name, int64_t cols) { return has(name) ? vector(name, cols) : compute::Weight{}; }
  // F32 values of a small tensor that is read on the host; empty when the file has none.
  std::vector<float> optional_floats(const std::string& name, int64_t count);
  bool has(std::string_view name) const { return files_.has(name); }

  // Fails for a tensor that nobody asked for: ignoring a bias would give wrong answers in silence.
  void refuse_unused();
  Result<void> outcome() const;
  // Bytes of all tensors that were bound.
  uint64_t bound_bytes() const { return bound_bytes_; }

 private:
  struct Found {
    const gguf::Tensor* tensor;
    std::span<const std::byte> data;
    bool first_use;  // an embedding that is the output too is found twice
  };
  Found find(const std::string& name, std::initializer_list<int64_t> dims);
  compute::Weight bind(const std::string& name, std::initializer_list<int64_t> dims, int64_t rows, int64_t cols, compute::WeightUse use);
  void fail(std::string what);

  const Files& files_;
  compute::Backend& backend_;
  std::vector<std::vector<bool>> used_;  // by part, then by index in its tensors
  uint64_t bound_bytes_ = 0;
  std::string error_;
};

}  // namespace vigil::model
