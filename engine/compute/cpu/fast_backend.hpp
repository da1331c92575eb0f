// The CPU backend for speed: weights packed for products (packed.hpp), inputs rounded to eight bits where the weights are integers, kernels
// for the processor at hand. What it does not do faster it does as the reference backend does.
#pragma once

#include <memory>
#include <vector>

#include "engine/compute/cpu/fast_kernels.hpp"
#include "engine/compute/cpu/huge_memory.hpp"
#include "engine/compute/cpu/reference_backend.hpp"

namespace vigil::compute::cpu {

class FastBackend final : public ReferenceBackend {
 public:
  FastBackend(int threads, const FastKernels& kernels);
  ~FastBackend() override;

  std::string_view name() const override { return name_; }
  Result<Weight> bind(std::string_view tensor_name, gguf::TensorType type, int64_t rows, int64_t cols, std::span<const std::byte> bytes,
                      WeightUse use) override;
  bool prepare(const std::function<bool(double)>& progress, const std::function<void(std::span<const std::byte>)>& release) override;

 private:
  friend class FastOps;
  struct Packing {
    Weight weight;
    std::byte* packed;
    std::span<const std::byte> bytes;  // of the file
  };
  struct Copy {
    std::byte* to;
    std::span<const std::byte> from;
  };
  // What a thread keeps for itself.
  struct Workspace {
    std::vector<float> floats;  // panels, accumulators
    std::vector<std::byte> quantised;  // a few input rows
    std::vector<ProductRow> rows;
    std::vector<int32_t> places, begins;  // choices of experts in the experts' order
  };
  void forward_on(int index, const std::function<void(Ops&)>& forward) override;

  const FastKernels& kernels_;
  const std::string name_;
  HugeMemory weights_;
  std::vector<Packing> packings_;  // until prepare()
  std::vector<Copy> copies_;       // until prepare()
  std::vector<Workspace> workspaces_;
  std::vector<std::byte> quantised_;  // input rows that all threads share
};

}  // namespace vigil::compute::cpu
