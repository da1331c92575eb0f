// A choice comes to the host as its slot, or as -1 - expert where there is none (Ops::find_slots).
#include "engine/compute/split_experts.hpp"

#include <algorithm>
#include <set>

namespace vigil::compute {

Result<SplitExperts::Taken> SplitExperts::bind(std::string_view tensor_name, size_t layer, size_t own, gguf::TensorType type,
                                               std::span<const std::byte> bytes, const Weight& whole, WeightUse use) {
  const int64_t slots = slots_of(layer), experts = wanted_.experts;
  if (slots == 0) return Taken{};
  const int64_t rows = whole.rows / experts;
  Result<Weight> made = places_[own]->bind_slots(tensor_name, type, slots, rows, whole.cols, use);
  if (!made) return Error{made.error()};
  Taken taken{bytes.size() / static_cast<uint64_t>(experts) * static_cast<uint64_t>(slots), 0};
  const auto [known, is_new] = by_layer_.emplace(layer, layers_.size());
  if (is_new) {
    Result<Buffer> table = places_[own]->allocate(experts);
    if (!table) return Error{table.error()};
    layers_.push_back({0, own, home_of(layer, own), slots, *table, {}});
    taken.buffers = static_cast<uint64_t>(experts) * sizeof(float);
  }
  layers_[known->second].tensors.push_back(copies_.size());
  by_whole_[whole.address] = copies_.size();
  copies_.push_back({known->second, *made, bytes, rows});
  slot_bytes_ += taken.weights;
  return taken;
}

bool SplitExperts::prepare(const std::function<bool(double)>& progress, const std::function<void(std::span<const std::byte>)>& release) {
  release_ = release;
  uint64_t done = 0;
  for (Layer& layer : layers_) {
    uint64_t expert_bytes = 0;
    for (const size_t tensor : layer.tensors) {
      if (!progress(static_cast<double>(done) / static_cast<double>(slot_bytes_))) {
        for (const auto& place : places_) place->finish();  // copies are under way
        return false;
      }
      const uint64_t bytes = copies_[tensor].bytes.size() / static_cast<uint64_t>(wanted_.experts);
      fill(copies_[tensor], 0, 0, layer.slots);
      expert_bytes += bytes;
      done += bytes * static_cast<uint64_t>(layer.slots);
    }
    layer.number = residency_.add_layer(wanted_.experts, layer.slots, expert_bytes);
    tell_slots(layer);
  }
  return true;
}

void SplitExperts::fill(const Copies& copies, int64_t slot, int64_t expert, int64_t count) {
  const size_t bytes = copies.bytes.size() / static_cast<size_t>(wanted_.experts);
  const std::span<const std::byte> from = copies.bytes.subspan(static_cast<size_t>(expert) * bytes, static_cast<size_t>(count) * bytes);
  places_[layers_[copies.layer].own]->fill_slots(copies.slots, slot * copies.rows, from);
  release_(from);
}

void SplitExperts::tell_slots(const Layer& layer) {
  passing_.clear();
  for (int64_t expert = 0; expert < wanted_.experts; ++expert) passing_.push_back(static_cast<float>(residency_.slot_of(layer.number, expert)));
  places_[layer.own]->write(layer.slot_of, 0, passing_);
}

void SplitExperts::rest() {
  std::set<size_t> changed;
  for (const ExpertResidency::Change& change : residency_.change(wanted_.most_changed_bytes)) {
    for (const size_t tensor : layers_[change.layer].tensors) fill(copies_[tensor], change.slot, change.expert, 1);
    changed.insert(change.layer);
    ++changed_;
  }
  for (const size_t layer : changed) tell_slots(layers_[layer]);
}

std::vector<std::pair<std::string, std::string>> SplitExperts::figures() const {
  if (layers_.empty()) return {};
  return {{"experts_chosen", std::to_string(chosen_)}, {"experts_on_gpu", std::to_string(computed_by_copies_)}, {"experts_changed", std::to_string(changed_)}};
}

int64_t SplitExperts::look(const Part& part) {
  const Layer& layer = layers_[part.layer];
  choices_.resize(static_cast<size_t>(part.choice.floats));
  places_[layer.own]->read(part.choice.own, 0, choices_);
  const int64_t count = part.choice.floats / 2;
  missing_.clear();
  for (int64_t i = 0; i < count; ++i) {
    float& chosen = choices_[static_cast<size_t>(2 * i)];
    if (!(chosen >= static_cast<float>(-wanted_.experts) && chosen < static_cast<float>(layer.slots))) {
      throw DeviceLost(std::string(places_[layer.own]->name()) + " has chosen an expert that is none");
    }
    const int64_t slot = static_cast<int64_t>(chosen);
    if (slot < 0) missing_.push_back(i);
    const int64_t expert = slot < 0 ? -1 - slot : residency_.expert_in(layer.number, slot);
    residency_.used(layer.number, expert);
    chosen = static_cast<float>(slot < 0 ? expert : -1);
  }
  if (!missing_.empty()) {
    Backend& home = *places_[layer.home];
    home.write(part.choice.home, 0, choices_);
    for (const Input& input : part.inputs) {
      passing_.resize(static_cast<size_t>(input.floats));
      places_[layer.own]->read(input.own, 0, passing_);
      home.write(input.home, 0, passing_);
    }
  }
  const int64_t own = count - static_cast<int64_t>(missing_.size());
  chosen_ += static_cast<uint64_t>(count);
  computed_by_copies_ += static_cast<uint64_t>(own);
  return own;
}

RunOutcome SplitExperts::compute(const Part& part) {
  if (missing_.empty()) return RunOutcome::finished;
  const Layer& layer = layers_[part.layer];
  Backend& home = *places_[layer.home];
  const RunOutcome outcome = home.run([&](Ops& ops) {
    for (const auto& op : part.ops) op(ops);
  });
  if (outcome == RunOutcome::aborted) return outcome;
  const size_t cols = static_cast<size_t>(part.cols);
  passing_.resize(missing_.size() * cols);
  for (size_t i = 0; i < missing_.size(); ++i) home.read(part.out.home, missing_[i] * part.cols, std::span(passing_).subspan(i * cols, cols));
  places_[layer.own]->write_rows(part.out.own, part.cols, missing_, passing_);
  return outcome;
}

}  // namespace vigil::compute
