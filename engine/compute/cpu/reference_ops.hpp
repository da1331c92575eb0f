// One thread's view of the op sequence on the reference backend: how each op is split over the team. Private to the backend.
#pragma once

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdint>
#include <vector>

#include "engine/compute/cpu/kernels.hpp"
#include "engine/compute/cpu/reference_backend.hpp"
#include "engine/compute/ops.hpp"

namespace vigil::compute::cpu {

// Floats of one row, in place when the file's bytes already are aligned floats.
const float* row_as_floats(const Weight& weight, int64_t row, float* scratch);

class ReferenceOps : public Ops {
 public:
  ReferenceOps(ReferenceBackend& backend, int index) : backend_(backend), index_(index), threads_(backend.team_.size()) {}

  // reference_ops.cpp
  void embed(const Weight& table, Buffer out, int64_t rows) override;
  void place_pictures(Buffer pictures, Buffer into, int64_t cols, int64_t rows) override;
  void rms_norm(Buffer in, const Weight& gain, float epsilon, Buffer out, int64_t rows) override;
  void matmul(const Weight& weight, Buffer in, Buffer out, int64_t rows) override;
  void add_bias(Buffer into, const Weight& bias, int64_t rows) override;
  void gate(Gate kind, Buffer gate, Buffer up, int64_t cols, int64_t rows) override;
  void sigmoid_gate(Buffer into, Buffer gate, int64_t gate_cols, int64_t cols, int64_t rows) override;
  void add(Buffer into, Buffer from, int64_t cols, int64_t rows) override;
  void scale(Buffer into, float factor, int64_t cols, int64_t rows) override;
  void split(Buffer joined, Buffer first, Buffer second, int64_t cols, int64_t count) override;
  void select_outputs(Buffer in, Buffer out, int64_t cols, int64_t outputs) override;
  void pick_best(Buffer scores, int64_t cols, int64_t count, Buffer picked, int64_t rows) override;
  // reference_ops_attention.cpp
  void rope_angles(const Rope& rope, Buffer out, int64_t rows) override;
  void rope_and_store(const Rope& rope, Buffer angles, Buffer q, Buffer k, Buffer v, const KvCache& cache, int64_t layer, int64_t heads,
                      int64_t rows) override;
  void attention(Buffer q, const KvCache& cache, int64_t layer, int64_t heads, const AttentionRule& rule, Buffer out, int64_t rows) override;
  // reference_ops_experts.cpp
  void route(Buffer logits, int64_t experts, int64_t used, Buffer choice, int64_t rows) override;
  void find_slots(Buffer choice, Buffer slots, int64_t used, int64_t rows) override;
  void expert_matmul(const Weight& experts, int64_t out_cols, Buffer choice, int64_t used, ExpertInput kind, Buffer in, Buffer out,
                     int64_t rows) override;
  void add_expert_bias(Buffer into, const Weight& bias, Buffer choice, int64_t used, int64_t rows) override;
  void sum_experts(Buffer in, Buffer choice, int64_t used, Buffer out, int64_t cols, int64_t rows) override;
  // reference_ops_delta.cpp
  void convolve(const Weight& kernels, const StateCache& states, int64_t layer, Buffer in, Buffer out, int64_t rows) override;
  void delta_net(const DeltaInput& input, const StateCache& states, int64_t layer, Buffer out, int64_t rows) override;

 protected:
  // The reference's or a faster one's.
  virtual void delta_step_of_head(float* state, const float* q, const float* k, const float* v, DeltaGates gates, int64_t key_dim,
                                  int64_t value_dim, float* spare, float* out) {
    delta_step(state, q, k, v, gates, key_dim, value_dim, spare, out);
  }

  // Every op goes through here: the abort flag on entry, this thread's share of `count` pieces in whole units of `unit`, the barrier, and one
  // step counted. An aborted op still meets the barrier, since another thread may not have seen the flag yet.
  template <typename Work>
  void share(int64_t count, int64_t unit, Work&& work) {
    if (!aborted()) {
      const int64_t units = (count + unit - 1) / unit;
      work(std::min(count, units * index_ / threads_ * unit), std::min(count, units * (index_ + 1) / threads_ * unit));
    }
    backend_.team_.barrier();
    if (index_ == 0) backend_.control_->steps.fetch_add(1, std::memory_order_relaxed);
    ++ops_done_;
  }
  // The same by single pieces.
  template <typename Work>
  void each(int64_t count, Work&& work) {
    share(count, 1, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i) work(i);
    });
  }

  bool aborted() {
    if (!backend_.control_->abort.load(std::memory_order_relaxed)) return false;
    backend_.saw_abort_.store(true, std::memory_order_relaxed);
    return true;
  }

  float* scratch(int64_t floats) {
    std::vector<float>& mine = backend_.scratch_[static_cast<size_t>(index_)];
    if (mine.size() < static_cast<size_t>(floats)) mine.resize(static_cast<size_t>(floats));
    return mine.data();
  }

  int32_t position_of(int64_t row) { return backend_.step_->positions()[static_cast<size_t>(row)]; }
  // Positions that the row's attention sees, from 0 on.
  int64_t seen_by(int64_t row) { return int64_t{position_of(row)} + 1 + backend_.step_->ahead()[static_cast<size_t>(row)]; }
  int32_t sequence_of(int64_t row) { return backend_.step_->sequences()[static_cast<size_t>(row)]; }
  int64_t block_of(const KvCache& cache, int64_t row, int64_t block_index) {
    const int32_t block = backend_.step_->blocks(sequence_of(row), cache.shape.table)[static_cast<size_t>(block_index)];
    assert(block >= 0 && block < cache.shape.blocks);
    return block;
  }
  // One row and one KV head: all query heads that share it take each block while it is at hand.
  void attend(Buffer q, const KvCache& cache, int64_t layer, int64_t heads, const AttentionRule& rule, Buffer out, int64_t row, int64_t kv_head);

  // Calls work(first row, end row, where the state is read, where it goes) for each sequence of the step; the first is null at its beginning.
  template <typename Work>
  void each_sequence(const StateCache& states, int64_t layer, int64_t rows, Work&& work) {
    const auto place = [&](int32_t slot) { return states.address + (slot * states.shape.layers + layer) * states.shape.layer_floats(); };
    for (int64_t first = 0, end; first < rows; first = end) {
      for (end = first + 1; end < rows && sequence_of(end) == sequence_of(first);) ++end;
      const auto slots = backend_.step_->states(sequence_of(first));
      work(first, end, slots[0] < 0 ? nullptr : place(slots[0]), place(slots[1]));
    }
  }

  ReferenceBackend& backend_;
  const int index_, threads_;
  uint64_t ops_done_ = 0;

 private:
  std::vector<AttentionSum> sums_;
};

}  // namespace vigil::compute::cpu
