// The least used expert with a slot is held against the most used one without, the next against the next, in every layer.
#include "engine/compute/expert_residency.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace vigil::compute {

size_t ExpertResidency::add_layer(int64_t experts, int64_t slots, uint64_t slot_bytes) {
  assert(slots >= 1 && slots <= experts);
  Layer layer{slot_bytes, std::vector<int64_t>(static_cast<size_t>(experts), -1), std::vector<int64_t>(static_cast<size_t>(slots)),
              std::vector<uint64_t>(static_cast<size_t>(experts), 0)};
  std::iota(layer.expert_in.begin(), layer.expert_in.end(), 0);
  std::copy(layer.expert_in.begin(), layer.expert_in.end(), layer.slot_of.begin());
  layers_.push_back(std::move(layer));
  return layers_.size() - 1;
}

std::vector<ExpertResidency::Change> ExpertResidency::change(uint64_t most_bytes) {
  struct Gain {
    uint64_t uses;
    Change change;
  };
  std::vector<Gain> gains;
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    const auto uses = [&](int64_t expert) { return layer.uses[static_cast<size_t>(expert)]; };
    std::vector<int64_t> without, slots(layer.expert_in.size());
    for (size_t expert = 0; expert < layer.slot_of.size(); ++expert) {
      if (layer.slot_of[expert] < 0) without.push_back(static_cast<int64_t>(expert));
    }
    std::iota(slots.begin(), slots.end(), 0);
    std::stable_sort(without.begin(), without.end(), [&](int64_t a, int64_t b) { return uses(a) > uses(b); });
    std::stable_sort(slots.begin(), slots.end(), [&](int64_t a, int64_t b) { return uses(expert_in(l, a)) < uses(expert_in(l, b)); });
    for (size_t i = 0; i < std::min(without.size(), slots.size()); ++i) {
      const uint64_t gained = uses(without[i]), lost = uses(expert_in(l, slots[i]));
      if (gained <= lost) break;
      gains.push_back({gained - lost, {l, slots[i], without[i]}});
    }
  }
  std::stable_sort(gains.begin(), gains.end(), [](const Gain& a, const Gain& b) { return a.uses > b.uses; });
  std::vector<Change> changes;
  for (const auto& [uses, change] : gains) {
    Layer& layer = layers_[change.layer];
    if (layer.slot_bytes > most_bytes) continue;
    most_bytes -= layer.slot_bytes;
    layer.slot_of[static_cast<size_t>(layer.expert_in[static_cast<size_t>(change.slot)])] = -1;
    layer.expert_in[static_cast<size_t>(change.slot)] = change.expert;
    layer.slot_of[static_cast<size_t>(change.expert)] = change.slot;
    changes.push_back(change);
  }
  for (Layer& layer : layers_) {
    for (uint64_t& uses : layer.uses) uses /= 2;
  }
  return changes;
}

}  // namespace vigil::compute
