// Layers whose experts are whole in one place, the CPU, while copies of some are where the rest of the layer is, a GPU: which choices are computed where,
// and how what comes of them meets again. Every choice is computed once, by the copy if there is one; sums are made where the layer is, best choice
// first as ever. Copies change between requests only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/compute/backend.hpp"
#include "engine/compute/expert_residency.hpp"

namespace vigil::compute {

// Where the experts of layers are that are not with their layer.
struct ExpertPlaces {
  std::vector<size_t> homes;    // by layer: the place of all of its experts; empty = each layer's own
  std::vector<int64_t> slots;   // by layer: of so many of them a copy is where the layer is; empty = of none
  int64_t experts = 0;          // of a layer
  uint64_t most_changed_bytes = 0;  // of copies that are made anew between two requests
};

class SplitExperts {
 public:
  using Places = std::vector<std::shared_ptr<Backend>>;
  SplitExperts(const Places& places, ExpertPlaces wanted) : places_(places), wanted_(std::move(wanted)) {}

  // Whether a tensor belongs to experts: "blk.<layer>.ffn_gate_exps.weight" and the like.
  static bool has_experts(std::string_view tensor_name) { return tensor_name.find("_exps.") != std::string_view::npos; }
  size_t home_of(size_t layer, size_t own) const { return wanted_.homes.empty() ? own : wanted_.homes[layer]; }
  int64_t slots_of(size_t layer) const { return wanted_.slots.empty() ? 0 : wanted_.slots[layer]; }

  // Room for copies of a tensor that has been bound at home, where the layer has slots. Returns the bytes that they have in the file.
  struct Taken {
    uint64_t weights = 0, buffers = 0;  // bytes
  };
  Result<Taken> bind(std::string_view tensor_name, size_t layer, size_t own, gguf::TensorType type, std::span<const std::byte> bytes, const Weight& whole,
                     WeightUse use);
  uint64_t slot_bytes() const { return slot_bytes_; }  // of all slots, as the files have them
  // Fills all slots. As Backend::prepare; to be called before that of the places, which let go of what they have read.
  bool prepare(const std::function<bool(double)>& progress, const std::function<void(std::span<const std::byte>)>& release);
  void rest();
  // Choices that were made, those of them that a copy was for, copies that were made anew; none where no layer has slots.
  std::vector<std::pair<std::string, std::string>> figures() const;

  // A layer with slots, and the copies of a tensor there.
  struct Layer {
    size_t number;       // in the residency
    size_t own, home;    // places
    int64_t slots;
    Buffer slot_of;      // [experts] at the layer's own place: slot or -1
    std::vector<size_t> tensors;
  };
  struct Copies {
    size_t layer;                      // of layers_
    Weight slots;                      // at the layer's own place
    std::span<const std::byte> bytes;  // of all experts, in the file
    int64_t rows;                      // of one expert
  };
  // Null where the tensor has none.
  const Copies* copies_of(const Weight& whole) const {
    const auto found = by_whole_.find(whole.address);
    return found == by_whole_.end() ? nullptr : &copies_[found->second];
  }
  const Layer& layer(size_t number) const { return layers_[number]; }

  // What a pass has noted of one layer's experts, from the choice to their sum.
  struct Input {
    Buffer own, home;
    int64_t floats;
  };
  struct Part {
    size_t layer = 0;  // of layers_
    Input choice{};    // two floats for each choice
    std::vector<Input> inputs;                     // beside the choices
    std::vector<std::function<void(Ops&)>> ops;    // for the choices that have no copy
    Input out{};                                   // [choices, cols], what is to be summed
    int64_t cols = 0;
  };
  // Looks at the choices, which the layer's own place has made: how many it computes itself. Brings what the others need to their home.
  int64_t look(const Part& part);
  // Computes the others, and brings what comes of them to the layer's own place.
  RunOutcome compute(const Part& part);

 private:
  void tell_slots(const Layer& layer);
  void fill(const Copies& copies, int64_t slot, int64_t expert, int64_t count);

  const Places& places_;
  const ExpertPlaces wanted_;
  ExpertResidency residency_;
  std::vector<Layer> layers_;
  std::vector<Copies> copies_;
  std::unordered_map<size_t, size_t> by_layer_;               // of the model: of layers_
  std::unordered_map<const std::byte*, size_t> by_whole_;     // by the address at home: of copies_
  std::function<void(std::span<const std::byte>)> release_;
  uint64_t slot_bytes_ = 0;
  uint64_t chosen_ = 0, computed_by_copies_ = 0, changed_ = 0;
  std::vector<float> choices_, passing_;
  std::vector<int64_t> missing_;  // choices that have no copy, of the part that is computed
};

}  // namespace vigil::compute
