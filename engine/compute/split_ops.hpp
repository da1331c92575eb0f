// A forward pass cut into runs of its places: notes for each op where it is computed, and which buffers must be brought there first. Computes nothing.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "engine/compute/split_backend.hpp"

namespace vigil::compute {

class SplitOps final : public Ops {
 public:
  // Values that another place has the newest of.
  struct Brought {
    const SplitBackend::SplitBuffer* buffer;
    size_t from;
    int64_t floats;
  };
  // Ops in a row that one place computes.
  struct Piece {
    size_t place;
    std::vector<Brought> brought;  // before the first op
    std::vector<std::function<void(Ops&)>> ops;
    int64_t first_op = 0;          // of the whole pass
    std::optional<SplitExperts::Part> experts = {};  // that another place computes of what these ops are for
  };

  explicit SplitOps(SplitBackend& backend) : backend_(backend) {}
  const std::vector<Piece>& pieces() const { return pieces_; }

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
  // Where an op is: where its weight is, or the layer of its cache, else where the op before it was.
  void at(const Weight& weight);
  void at(const KvCache& cache, int64_t layer);
  void at(const StateCache& states, int64_t layer);
  void go_to(size_t place);

  // The place's own buffers, which hold what the op reads when it runs; what it writes is the newest from now on.
  Buffer read(Buffer buffer);
  Buffer write(Buffer buffer, int64_t floats);
  Buffer change(Buffer buffer, int64_t floats);  // read and written
  Rope own(const Rope& rope) const;
  void op(std::function<void(Ops&)> issue);

  // Between the choice and the sum of a layer's experts that have copies, ops are noted for both of its places: each computes its own choices.
  void begin_experts(size_t layer, Buffer choice, int64_t used, int64_t rows);
  void end_experts(Buffer out, int64_t cols);
  bool in_experts() const { return !pieces_.empty() && pieces_.back().experts && !experts_ended_; }
  SplitExperts::Input read_in_both(Buffer buffer);
  SplitExperts::Input write_in_both(Buffer buffer, int64_t floats);
  template <typename Issue>
  void op_in_both(Issue issue);

  SplitBackend& backend_;
  std::vector<Piece> pieces_;
  bool experts_ended_ = false;
  std::set<const float*> written_in_both_;
  size_t place_ = 0;  // of the last op
  int64_t ops_ = 0;
};

}  // namespace vigil::compute
