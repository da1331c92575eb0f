// The backend on one NVIDIA GPU: ops are launches on one stream, in the order of the forward pass; the host runs a little ahead of the device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/compute/backend.hpp"
#include "engine/compute/cuda/device.hpp"
#include "engine/compute/cuda/progress.hpp"
#include "engine/compute/cuda/step_graphs.hpp"
#include "engine/compute/cuda/step_view.hpp"
#include "engine/compute/cuda/weight_store.hpp"

namespace vigil::compute::cuda {

class CudaBackend final : public Backend {
 public:
  // An error says why no device can be used, and what to do about it.
  static Result<std::unique_ptr<Backend>> make(const GpuOptions& options = {}, Clock clock = std::chrono::steady_clock::now);
  ~CudaBackend() override;

  std::string_view name() const override { return name_; }
  bool on_gpu() const override { return true; }
  Result<Weight> bind(std::string_view tensor_name, gguf::TensorType type, int64_t rows, int64_t cols, std::span<const std::byte> bytes,
                      WeightUse use) override;
  bool prepare(const std::function<bool(double)>& progress, const std::function<void(std::span<const std::byte>)>& release) override;
  Result<Weight> bind_slots(std::string_view tensor_name, gguf::TensorType type, int64_t slots, int64_t rows, int64_t cols, WeightUse use) override;
  void fill_slots(const Weight& slots, int64_t first_row, std::span<const std::byte> bytes) override;
  Rope bind_rope(RopeKind kind, std::span<const double> frequencies, double magnitude, std::span<const uint8_t> axes) override;
  Result<Buffer> allocate(int64_t floats) override;
  Result<KvCache> allocate_kv(const KvShape& shape) override;
  Result<StateCache> allocate_states(const StateShape& shape) override;
  uint64_t bytes_kept(gguf::TensorType type, int64_t rows, int64_t cols, WeightUse use) const override;
  std::optional<uint64_t> own_memory() override;
  Result<void> reserve(const std::function<void(Ops&)>& forward) override;
  bool copy_block(const KvCache& cache, int32_t from, int32_t to) override;
  void upload(StepData& step) override;
  using Backend::run;
  RunOutcome run(const std::function<void(Ops&)>& forward, const RunKind& kind) override;
  RunOutcome start(const std::function<void(Ops&)>& forward, const RunKind& kind) override;
  void finish() override;
  void read(Buffer from, int64_t offset, std::span<float> out) override;
  int64_t picks() const override { return most_picked; }
  void write(Buffer to, int64_t offset, std::span<const float> values) override;
  void write_rows(Buffer to, int64_t cols, std::span<const int64_t> rows, std::span<const float> values) override;

 private:
  friend class CudaOps;
  CudaBackend(const DeviceInfo& device, const GpuOptions& options, Clock clock);

  void be_current();    // makes the device this thread's current one: others may have been in between
  void try_a_kernel();  // throws DeviceLost where this build has no code for the device
  Result<std::byte*> take(uint64_t bytes);
  // A copy through pinned memory, a piece at a time, done when it returns.
  void copy_in(void* to, const void* from, size_t bytes);
  void copy_out(void* to, const void* from, size_t bytes);

  // The graph of a step, or a part of one, that came before, recorded now where it is the second of its kind; null where it is to be launched op by op.
  const StepGraph* graph_of(const std::function<void(Ops&)>& forward, const RunKind& kind);
  RunOutcome replay(const StepGraph& graph);

  // Memory that ops of a step use one after the other; it never shrinks.
  struct Scratch {
    DeviceMemory memory;
    Result<void> grow(uint64_t bytes);
  };

  const int device_;
  const std::string name_;
  const Clock clock_;
  Stream stream_;
  Progress progress_;
  PinnedMemory pinned_;
  WeightStore weights_;
  std::vector<DeviceMemory> memory_;
  uint64_t buffer_bytes_ = 0;  // of activations
  Scratch products_, attention_;
  DeviceMemory step_words_;
  StepView step_;
  StepGraphs graphs_;
};

}  // namespace vigil::compute::cuda
