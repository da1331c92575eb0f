// The readable CPU backend: every weight row becomes floats when it is used, every activation stays float. The measure for faster ones.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "engine/compute/backend.hpp"
#include "engine/compute/cpu/worker_team.hpp"

namespace vigil::compute::cpu {

class ReferenceBackend : public Backend {
 public:
  explicit ReferenceBackend(int threads);
  ~ReferenceBackend() override;

  std::string_view name() const override { return "reference"; }
  Result<Weight> bind(std::string_view tensor_name, gguf::TensorType type, int64_t rows, int64_t cols, std::span<const std::byte> bytes,
                      WeightUse use) override;
  bool prepare(const std::function<bool(double)>& progress, const std::function<void(std::span<const std::byte>)>& release) override;
  Rope bind_rope(RopeKind kind, std::span<const double> frequencies, double magnitude, std::span<const uint8_t> axes) override;
  Result<Buffer> allocate(int64_t floats) override;
  Result<KvCache> allocate_kv(const KvShape& shape) override;
  Result<StateCache> allocate_states(const StateShape& shape) override;
  bool copy_block(const KvCache& cache, int32_t from, int32_t to) override;
  void upload(StepData& step) override { step_ = &step; }  // host memory already: the caller leaves it alone during the run
  using Backend::run;
  RunOutcome run(const std::function<void(Ops&)>& forward, const RunKind& kind) override;
  void read(Buffer from, int64_t offset, std::span<float> out) override;
  void write(Buffer to, int64_t offset, std::span<const float> values) override;

 protected:
  friend class ReferenceOps;
  struct Freed {
    void operator()(std::byte* memory) const;
  };
  Result<std::byte*> take(uint64_t bytes);
  // Thread `index` of the team goes through the op sequence.
  virtual void forward_on(int index, const std::function<void(Ops&)>& forward);

  WorkerTeam team_;
  std::vector<std::vector<float>> scratch_;  // per thread: weight rows, or one KV block as floats
  std::vector<std::unique_ptr<std::byte, Freed>> memory_;
  std::vector<std::span<const std::byte>> bound_;  // what prepare() reads in
  std::deque<std::vector<double>> rope_tables_;
  std::deque<std::vector<uint8_t>> rope_axes_;
  StepData* step_ = nullptr;
  std::atomic<bool> saw_abort_{false};
};

}  // namespace vigil::compute::cpu
