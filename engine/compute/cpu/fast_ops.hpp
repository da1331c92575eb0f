// One thread's view of the op sequence on the fast backend: how the costly ops are split over the team and given to the kernels. The others
// are the reference's. Private to the backend.
#pragma once

#include "engine/compute/cpu/fast_backend.hpp"
#include "engine/compute/cpu/reference_ops.hpp"

namespace vigil::compute::cpu {

class FastOps final : public ReferenceOps {
 public:
  FastOps(FastBackend& backend, int index)
      : ReferenceOps(backend, index), fast_(backend), kernels_(backend.kernels_), work_(backend.workspaces_[static_cast<size_t>(index)]) {}

  // fast_ops.cpp
  void rms_norm(Buffer in, const Weight& gain, float epsilon, Buffer out, int64_t rows) override;
  void gate(Gate kind, Buffer gate, Buffer up, int64_t cols, int64_t rows) override;
  void add(Buffer into, Buffer from, int64_t cols, int64_t rows) override;
  void convolve(const Weight& kernels, const StateCache& states, int64_t layer, Buffer in, Buffer out, int64_t rows) override;
  // fast_ops_product.cpp
  void matmul(const Weight& weight, Buffer in, Buffer out, int64_t rows) override;
  void expert_matmul(const Weight& experts, int64_t out_cols, Buffer choice, int64_t used, ExpertInput kind, Buffer in, Buffer out,
                     int64_t rows) override;
  // fast_ops_attention.cpp
  void rope_and_store(const Rope& rope, Buffer angles, Buffer q, Buffer k, Buffer v, const KvCache& cache, int64_t layer, int64_t heads,
                      int64_t rows) override;
  void attention(Buffer q, const KvCache& cache, int64_t layer, int64_t heads, const AttentionRule& rule, Buffer out, int64_t rows) override;

 private:
  void delta_step_of_head(float* state, const float* q, const float* k, const float* v, DeltaGates gates, int64_t key_dim, int64_t value_dim,
                          float* spare, float* out) override {
    kernels_.delta_step(state, q, k, v, gates, key_dim, value_dim, spare, out);
  }

  // Rounded rows of in[rows, cols], as row(i) gives them afterwards. The op before may have left them.
  void quantise(Buffer in, int64_t rows, int64_t cols);
  QuantisedRow row(int64_t i) const { return quantised_row(rows_at_ + i * quantised_row_bytes(cols_), cols_); }
  // A matrix of a product: packed, or as the file has it for types that are unpacked when used (panel_types.hpp).
  struct Factor {
    gguf::TensorType type;
    int64_t rows, cols;
    size_t row_bytes;
    const std::byte* packed;
    const std::byte* matrix;
    int64_t group_bytes;
  };
  static bool is_fast(const Weight& weight);
  static Factor factor_of(const Weight& weight, int64_t first_row, int64_t rows);
  // The product of groups `first` to `end` with work_.rows.
  void multiply(const Factor& factor, int64_t first, int64_t end);
  void unpack(const Factor& factor, int64_t group, Panel& panel);
  static NextGroups groups_at(const Factor& factor, int64_t group, int64_t groups);
  // Places (row, choice) in the order of their experts: expert e has work_.places[begins[e]] to [begins[e + 1] - 1], choices below 0 are left out.
  // Returns how many experts have any.
  int64_t sort_places(Buffer choice, int64_t places, int64_t experts);
  struct AttentionWork;
  void attend_tile(const AttentionWork& work, int64_t kv_head, int64_t first, int64_t count);

  float* floats(int64_t count) {
    if (work_.floats.size() < static_cast<size_t>(count)) work_.floats.resize(static_cast<size_t>(count));
    return work_.floats.data();
  }

  FastBackend& fast_;
  const FastKernels& kernels_;
  FastBackend::Workspace& work_;
  // The rows that were rounded last, good as long as no other op has run.
  const float* quantised_from_ = nullptr;
  int64_t quantised_rows_ = 0, cols_ = 0;
  uint64_t quantised_until_ = 0;  // ops done
  std::byte* rows_at_ = nullptr;
};

}  // namespace vigil::compute::cpu
