// The op sequence of one run on the device. Private to the backend.
#pragma once

#include <algorithm>

#include "engine/compute/cuda/backend.hpp"
#include "engine/compute/cuda/products.hpp"
#include "engine/compute/cuda/step_graphs.hpp"

namespace vigil::compute::cuda {

// Bytes of scratch that a step's ops want, each kind by itself.
struct ScratchNeed {
  uint64_t products = 0, attention = 0;
};

class CudaOps final : public Ops {
 public:
  explicit CudaOps(CudaBackend& backend) : backend_(backend) {}
  // Nothing is launched: it learns what scratch the ops would want.
  CudaOps(CudaBackend& backend, ScratchNeed& rehearsal) : backend_(backend), rehearsal_(&rehearsal) {}
  // Nothing is computed: launches are recorded.
  CudaOps(CudaBackend& backend, GraphRecorder& recorder) : backend_(backend), recorder_(&recorder) {}
  bool saw_abort() const { return saw_abort_; }

  void embed(const Weight& table, Buffer out, int64_t rows) override;
  void place_pictures(Buffer pictures, Buffer into, int64_t cols, int64_t rows) override;
  void rms_norm(Buffer in, const Weight& gain, float epsilon, Buffer out, int64_t rows) override;
  void matmul(const Weight& weight, Buffer in, Buffer out, int64_t rows) override;
  void add_bias(Buffer into, const Weight& bias, int64_t rows) override;
  void rope_angles(const Rope& rope, Buffer out, int64_t rows) override;
  void rope_and_store(const Rope& rope, Buffer angles, Buffer q, Buffer k, Buffer v, const KvCache& cache, int64_t layer, int64_t heads,
                      int64_t rows) override;
  void attention(Buffer q, const KvCache& cache, int64_t layer, int64_t heads, const AttentionRule& rule, Buffer out, int64_t rows) override;
  void gate(Gate kind, Buffer gate, Buffer up, int64_t cols, int64_t rows) override;
  void sigmoid_gate(Buffer into, Buffer gate, int64_t gate_cols, int64_t cols, int64_t rows) override;
  void add(Buffer into, Buffer from, int64_t cols, int64_t rows) override;
  void scale(Buffer into, float factor, int64_t cols, int64_t rows) override;
  void split(Buffer joined, Buffer first, Buffer second, int64_t cols, int64_t count) override;
  void route(Buffer logits, int64_t experts, int64_t used, Buffer choice, int64_t rows) override;
  void find_slots(Buffer choice, Buffer slots, int64_t used, int64_t rows) override;
  void expert_matmul(const Weight& experts, int64_t out_cols, Buffer choice, int64_t used, ExpertInput kind, Buffer in, Buffer out,
                     int64_t rows) override;
  void add_expert_bias(Buffer into, const Weight& bias, Buffer choice, int64_t used, int64_t rows) override;
  void sum_experts(Buffer in, Buffer choice, int64_t used, Buffer out, int64_t cols, int64_t rows) override;
  void convolve(const Weight& kernels, const StateCache& states, int64_t layer, Buffer in, Buffer out, int64_t rows) override;
  void delta_net(const DeltaInput& input, const StateCache& states, int64_t layer, Buffer out, int64_t rows) override;
  void select_outputs(Buffer in, Buffer out, int64_t cols, int64_t outputs) override;
  void pick_best(Buffer scores, int64_t cols, int64_t count, Buffer picked, int64_t rows) override;

 private:
  // An input that products of it find in the scratch in the form that they want, until something else is put there or the input changes.
  struct Prepared {
    const float* in = nullptr;
    InputForm form = InputForm::floats;
    int64_t rows = 0, cols = 0;
    bool operator==(const Prepared&) const = default;
  };

  // Every op goes through here: the abort flag, the launches, their faults, one op counted.
  template <typename Launches>
  void issue(Launches&& launches) {
    if (rehearsal_ != nullptr || aborted()) return;
    if (recorder_ != nullptr) return recorder_->op(launches);
    launches(backend_.stream_.get());
    need(cudaGetLastError(), "a kernel's launch");
    backend_.progress_.issued();
  }
  bool aborted() {
    saw_abort_ = saw_abort_ || backend_.control_->abort.load(std::memory_order_relaxed);
    return saw_abort_;
  }
  // At least so many bytes; null in a rehearsal.
  std::byte* product_scratch(size_t bytes);

  CudaBackend& backend_;
  ScratchNeed* const rehearsal_ = nullptr;
  GraphRecorder* const recorder_ = nullptr;
  Prepared prepared_;
  bool saw_abort_ = false;
};

}  // namespace vigil::compute::cuda
