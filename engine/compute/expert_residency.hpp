// Which experts of which layers have a copy in a faster place, a slot each: counts how often experts are used and says which copies shall give way.
// Copies nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace vigil::compute {

class ExpertResidency {
 public:
  // At first the slots have the first experts, in their order. Returns the layer's number, from 0 on. 1 <= slots <= experts.
  size_t add_layer(int64_t experts, int64_t slots, uint64_t slot_bytes);

  int64_t slot_of(size_t layer, int64_t expert) const { return layers_[layer].slot_of[static_cast<size_t>(expert)]; }  // -1 = it has none
  int64_t expert_in(size_t layer, int64_t slot) const { return layers_[layer].expert_in[static_cast<size_t>(slot)]; }
  void used(size_t layer, int64_t expert) { ++layers_[layer].uses[static_cast<size_t>(expert)]; }

  struct Change {
    size_t layer;
    int64_t slot, expert;  // which gets the slot
    bool operator==(const Change&) const = default;
  };
  // Experts that were used more than others which have a slot get these, those that gain most first, as many as are copied in so many bytes. They
  // hold from now on. Afterwards all counts are halved: what was used long ago counts ever less, and one text of another kind displaces little.
  std::vector<Change> change(uint64_t most_bytes);

 private:
  struct Layer {
    uint64_t slot_bytes;
    std::vector<int64_t> slot_of, expert_in;
    std::vector<uint64_t> uses;
  };
  std::vector<Layer> layers_;
};

}  // namespace vigil::compute
