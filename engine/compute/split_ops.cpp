// Each op names its place, what it reads and what it writes; shapes are those of ops.hpp.
#include "engine/compute/split_ops.hpp"

#include <algorithm>
#include <cassert>

namespace vigil::compute {
namespace {

// Layers are met in ascending order.
void learn_place(std::vector<size_t>& places, int64_t layer, size_t place) {
  if (static_cast<size_t>(layer) >= places.size()) places.resize(static_cast<size_t>(layer) + 1, place);
}

}  // namespace

void SplitOps::go_to(size_t place) {
  assert(!in_experts());
  place_ = place;
  if (pieces_.empty() || pieces_.back().place != place || pieces_.back().experts) pieces_.push_back({place, {}, {}, ops_});
}

void SplitOps::at(const Weight& weight) { go_to(backend_.weights_.at(weight.address)); }

void SplitOps::at(const KvCache& cache, int64_t layer) {
  std::vector<size_t>& places = backend_.kv_places(cache.shape.table);
  if (cache.address == nullptr) learn_place(places, layer, place_);
  go_to(places[static_cast<size_t>(layer)]);
}

void SplitOps::at(const StateCache& states, int64_t layer) {
  if (states.address == nullptr) learn_place(backend_.state_places_, layer, place_);
  go_to(backend_.state_places_[static_cast<size_t>(layer)]);
}

Buffer SplitOps::read(Buffer buffer) {
  SplitBackend::SplitBuffer& known = backend_.buffer_at(buffer.address);
  if (!known.current[place_]) {
    const auto newest = std::find(known.current.begin(), known.current.end(), true) - known.current.begin();
    pieces_.back().brought.push_back({&known, static_cast<size_t>(newest), known.floats});
    known.current[place_] = true;
  }
  return known.in[place_];
}

Buffer SplitOps::write(Buffer buffer, int64_t floats) {
  SplitBackend::SplitBuffer& known = backend_.buffer_at(buffer.address);
  std::fill(known.current.begin(), known.current.end(), false);
  known.current[place_] = true;
  known.floats = floats;
  return known.in[place_];
}

Buffer SplitOps::change(Buffer buffer, int64_t floats) {
  read(buffer);
  return write(buffer, floats);
}

Rope SplitOps::own(const Rope& rope) const {
  const auto known = backend_.ropes_.find(rope.frequencies);
  return known != backend_.ropes_.end() ? known->second[place_] : rope;  // one that turns nothing has no table
}

void SplitOps::op(std::function<void(Ops&)> issue) {
  pieces_.back().ops.push_back(std::move(issue));
  ++ops_;
}

void SplitOps::embed(const Weight& table, Buffer out, int64_t rows) {
  at(table);
  out = write(out, rows * table.cols);
  op([=](Ops& ops) { ops.embed(table, out, rows); });
}

void SplitOps::place_pictures(Buffer pictures, Buffer into, int64_t cols, int64_t rows) {
  go_to(place_);
  pictures = read(pictures);
  into = change(into, rows * cols);
  op([=](Ops& ops) { ops.place_pictures(pictures, into, cols, rows); });
}

void SplitOps::rms_norm(Buffer in, const Weight& gain, float epsilon, Buffer out, int64_t rows) {
  at(gain);
  in = read(in);
  out = write(out, rows * gain.cols);
  op([=](Ops& ops) { ops.rms_norm(in, gain, epsilon, out, rows); });
}

void SplitOps::matmul(const Weight& weight, Buffer in, Buffer out, int64_t rows) {
  at(weight);
  in = read(in);
  out = write(out, rows * weight.rows);
  op([=](Ops& ops) { ops.matmul(weight, in, out, rows); });
}

void SplitOps::add_bias(Buffer into, const Weight& bias, int64_t rows) {
  at(bias);
  into = change(into, rows * bias.cols);
  op([=](Ops& ops) { ops.add_bias(into, bias, rows); });
}

void SplitOps::rope_angles(const Rope& rope, Buffer out, int64_t rows) {
  go_to(place_);
  const Rope turned = own(rope);
  out = write(out, rows * rope.rotated);
  op([=](Ops& ops) { ops.rope_angles(turned, out, rows); });
}

void SplitOps::rope_and_store(const Rope& rope, Buffer angles, Buffer q, Buffer k, Buffer v, const KvCache& cache, int64_t layer, int64_t heads,
                              int64_t rows) {
  at(cache, layer);
  const KvShape& shape = cache.shape;
  angles = read(angles);
  v = read(v);
  q = change(q, rows * heads * shape.head_dim);
  k = change(k, rows * shape.kv_heads * shape.head_dim);
  const auto part = backend_.own(cache, layer, place_);
  const Rope turned = own(rope);
  op([=](Ops& ops) { ops.rope_and_store(turned, angles, q, k, v, part.cache, part.layer, heads, rows); });
}

void SplitOps::attention(Buffer q, const KvCache& cache, int64_t layer, int64_t heads, const AttentionRule& rule, Buffer out, int64_t rows) {
  at(cache, layer);
  q = read(q);
  out = write(out, rows * heads * cache.shape.head_dim);
  const auto part = backend_.own(cache, layer, place_);
  op([=](Ops& ops) { ops.attention(q, part.cache, part.layer, heads, rule, out, rows); });
}

void SplitOps::begin_experts(size_t layer, Buffer choice, int64_t used, int64_t rows) {
  const SplitExperts::Layer& known = backend_.experts_.layer(layer);
  go_to(known.own);
  const Buffer own = change(choice, 2 * rows * used), slots = known.slot_of;
  op([=](Ops& ops) { ops.find_slots(own, slots, used, rows); });
  pieces_.push_back({known.own, {}, {}, ops_, SplitExperts::Part{layer, {own, backend_.buffer_at(choice.address).in[known.home], 2 * rows * used}, {}, {}, {}, 0}});
  experts_ended_ = false;
  written_in_both_ = {choice.address};
}

void SplitOps::end_experts(Buffer out, int64_t cols) {
  pieces_.back().experts->out = read_in_both(out);
  pieces_.back().experts->cols = cols;
  experts_ended_ = true;
}

SplitExperts::Input SplitOps::read_in_both(Buffer buffer) {
  SplitExperts::Part& part = *pieces_.back().experts;
  const SplitBackend::SplitBuffer& known = backend_.buffer_at(buffer.address);
  const SplitExperts::Input both{read(buffer), known.in[backend_.experts_.layer(part.layer).home], known.floats};
  if (written_in_both_.insert(buffer.address).second) part.inputs.push_back(both);  // brought once
  return both;
}

SplitExperts::Input SplitOps::write_in_both(Buffer buffer, int64_t floats) {
  written_in_both_.insert(buffer.address);
  const Buffer own = write(buffer, floats);
  return {own, backend_.buffer_at(buffer.address).in[backend_.experts_.layer(pieces_.back().experts->layer).home], floats};
}

// issue(ops, whether for the layer's own place)
template <typename Issue>
void SplitOps::op_in_both(Issue issue) {
  pieces_.back().experts->ops.push_back([=](Ops& ops) { issue(ops, false); });
  op([=](Ops& ops) { issue(ops, true); });
}

void SplitOps::gate(Gate kind, Buffer gate, Buffer up, int64_t cols, int64_t rows) {
  if (in_experts()) {
    const SplitExperts::Input from = read_in_both(up), into = read_in_both(gate);
    return op_in_both([=](Ops& ops, bool own) { ops.gate(kind, own ? into.own : into.home, own ? from.own : from.home, cols, rows); });
  }
  go_to(place_);
  up = read(up);
  gate = change(gate, rows * cols);
  op([=](Ops& ops) { ops.gate(kind, gate, up, cols, rows); });
}

void SplitOps::sigmoid_gate(Buffer into, Buffer gate, int64_t gate_cols, int64_t cols, int64_t rows) {
  go_to(place_);
  gate = read(gate);
  into = change(into, rows * cols);
  op([=](Ops& ops) { ops.sigmoid_gate(into, gate, gate_cols, cols, rows); });
}

void SplitOps::add(Buffer into, Buffer from, int64_t cols, int64_t rows) {
  go_to(place_);
  from = read(from);
  into = change(into, rows * cols);
  op([=](Ops& ops) { ops.add(into, from, cols, rows); });
}

void SplitOps::scale(Buffer into, float factor, int64_t cols, int64_t rows) {
  go_to(place_);
  into = change(into, rows * cols);
  op([=](Ops& ops) { ops.scale(into, factor, cols, rows); });
}

void SplitOps::split(Buffer joined, Buffer first, Buffer second, int64_t cols, int64_t count) {
  go_to(place_);
  joined = read(joined);
  first = write(first, count * cols);
  second = write(second, count * cols);
  op([=](Ops& ops) { ops.split(joined, first, second, cols, count); });
}

void SplitOps::route(Buffer logits, int64_t experts, int64_t used, Buffer choice, int64_t rows) {
  go_to(place_);
  logits = read(logits);
  choice = write(choice, 2 * rows * used);
  op([=](Ops& ops) { ops.route(logits, experts, used, choice, rows); });
}

void SplitOps::find_slots(Buffer choice, Buffer slots, int64_t used, int64_t rows) {
  go_to(place_);
  slots = read(slots);
  choice = change(choice, 2 * rows * used);
  op([=](Ops& ops) { ops.find_slots(choice, slots, used, rows); });
}

void SplitOps::expert_matmul(const Weight& experts, int64_t out_cols, Buffer choice, int64_t used, ExpertInput kind, Buffer in, Buffer out,
                             int64_t rows) {
  if (const SplitExperts::Copies* copies = backend_.experts_.copies_of(experts)) {
    if (!in_experts()) begin_experts(copies->layer, choice, used, rows);
    const SplitExperts::Input chosen = read_in_both(choice), from = read_in_both(in), to = write_in_both(out, rows * used * out_cols);
    return op_in_both([=, whole = experts, slots = copies->slots](Ops& ops, bool own) {
      if (own) ops.expert_matmul(slots, out_cols, chosen.own, used, kind, from.own, to.own, rows);
      else ops.expert_matmul(whole, out_cols, chosen.home, used, kind, from.home, to.home, rows);
    });
  }
  at(experts);
  choice = read(choice);
  in = read(in);
  out = write(out, rows * used * out_cols);
  op([=](Ops& ops) { ops.expert_matmul(experts, out_cols, choice, used, kind, in, out, rows); });
}

void SplitOps::add_expert_bias(Buffer into, const Weight& bias, Buffer choice, int64_t used, int64_t rows) {
  if (const SplitExperts::Copies* copies = backend_.experts_.copies_of(bias)) {
    const SplitExperts::Input chosen = read_in_both(choice), to = read_in_both(into);
    return op_in_both([=, whole = bias, slots = copies->slots](Ops& ops, bool own) {
      if (own) ops.add_expert_bias(to.own, slots, chosen.own, used, rows);
      else ops.add_expert_bias(to.home, whole, chosen.home, used, rows);
    });
  }
  at(bias);
  choice = read(choice);
  into = change(into, rows * used * bias.cols);
  op([=](Ops& ops) { ops.add_expert_bias(into, bias, choice, used, rows); });
}

void SplitOps::sum_experts(Buffer in, Buffer choice, int64_t used, Buffer out, int64_t cols, int64_t rows) {
  if (in_experts()) end_experts(in, cols);
  go_to(place_);
  in = read(in);
  choice = read(choice);
  out = write(out, rows * cols);
  op([=](Ops& ops) { ops.sum_experts(in, choice, used, out, cols, rows); });
}

void SplitOps::convolve(const Weight& kernels, const StateCache& states, int64_t layer, Buffer in, Buffer out, int64_t rows) {
  at(states, layer);
  in = read(in);
  out = write(out, rows * kernels.rows);
  const auto part = backend_.own(states, layer, place_);
  op([=](Ops& ops) { ops.convolve(kernels, part.cache, part.layer, in, out, rows); });
}

void SplitOps::delta_net(const DeltaInput& input, const StateCache& states, int64_t layer, Buffer out, int64_t rows) {
  at(states, layer);
  DeltaInput here = input;
  here.qkv = read(input.qkv);
  here.beta = read(input.beta);
  here.alpha = read(input.alpha);
  out = write(out, rows * states.shape.value_heads * states.shape.value_dim);
  const auto part = backend_.own(states, layer, place_);
  op([=](Ops& ops) { ops.delta_net(here, part.cache, part.layer, out, rows); });
}

void SplitOps::select_outputs(Buffer in, Buffer out, int64_t cols, int64_t outputs) {
  go_to(place_);
  in = read(in);
  out = write(out, outputs * cols);
  op([=](Ops& ops) { ops.select_outputs(in, out, cols, outputs); });
}

void SplitOps::pick_best(Buffer scores, int64_t cols, int64_t count, Buffer picked, int64_t rows) {
  go_to(place_);
  scores = read(scores);
  picked = write(picked, 2 * rows * count);
  op([=](Ops& ops) { ops.pick_best(scores, cols, count, picked, rows); });
}

}  // namespace vigil::compute
