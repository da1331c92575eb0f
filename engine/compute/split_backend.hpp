// One model over several backends, such as a GPU's and the CPU's: each layer is computed where its weights are, and what a layer hands on goes along.
// The parts of a step run one after the other. Not here: which layer is to be where (engine/schedule/placement.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/compute/backend.hpp"
#include "engine/compute/split_experts.hpp"

namespace vigil::compute {

// Indices of places.
struct LayerPlaces {
  std::vector<size_t> layers;  // of the tensors "blk.<layer>."
  size_t embedding = 0;        // of what is looked up
  size_t output = 0;           // of everything else
  ExpertPlaces experts = {};   // of layers without theirs
};

class SplitOps;

class SplitBackend final : public Backend {
 public:
  // `places`: one for each index that is used.
  SplitBackend(std::vector<std::shared_ptr<Backend>> places, LayerPlaces layers);
  ~SplitBackend() override;

  std::string_view name() const override { return name_; }
  bool on_gpu() const override;
  int64_t picks() const override { return places_[layers_.output]->picks(); }
  Result<Weight> bind(std::string_view tensor_name, gguf::TensorType type, int64_t rows, int64_t cols, std::span<const std::byte> bytes,
                      WeightUse use) override;
  bool prepare(const std::function<bool(double)>& progress, const std::function<void(std::span<const std::byte>)>& release) override;
  Rope bind_rope(RopeKind kind, std::span<const double> frequencies, double magnitude, std::span<const uint8_t> axes) override;
  Result<Buffer> allocate(int64_t floats) override;
  void learn(const std::function<void(Ops&)>& forward) override;
  Result<KvCache> allocate_kv(const KvShape& shape) override;
  Result<StateCache> allocate_states(const StateShape& shape) override;
  std::vector<MemoryShare> memory_shares() override;
  Result<void> reserve(const std::function<void(Ops&)>& forward) override;
  bool copy_block(const KvCache& cache, int32_t from, int32_t to) override;
  void upload(StepData& step) override;
  using Backend::run;
  RunOutcome run(const std::function<void(Ops&)>& forward, const RunKind& kind) override;
  void read(Buffer from, int64_t offset, std::span<float> out) override;
  void write(Buffer to, int64_t offset, std::span<const float> values) override;
  void rest() override { experts_.rest(); }
  std::vector<std::pair<std::string, std::string>> figures() const override { return experts_.figures(); }

  // After learn().
  size_t place_of_layer_with_kv(size_t kv_layer, BlockTable table = BlockTable::whole) const { return kv_places(table)[kv_layer]; }
  size_t place_of_layer_with_state(size_t state_layer) const { return state_places_[state_layer]; }

 private:
  friend class SplitOps;

  // A buffer in every place, of which only some hold what was written last.
  struct SplitBuffer {
    std::vector<Buffer> in;     // by place
    std::vector<char> current;  // by place: whether it holds the newest values
    int64_t floats = 0;         // that were written last
  };
  // Layer l of a cache is layer local[l] of the cache at its place.
  template <typename Cache>
  struct SplitCache {
    std::vector<Cache> in;
    std::vector<int64_t> local;
  };

  template <typename Cache>
  struct LayerOfCache {
    Cache cache;
    int64_t layer;
  };
  LayerOfCache<KvCache> own(const KvCache& cache, int64_t layer, size_t place) const;
  LayerOfCache<StateCache> own(const StateCache& cache, int64_t layer, size_t place) const;
  static std::optional<size_t> layer_in(std::string_view tensor_name);
  RunOutcome run_pieces(const SplitOps& pass, const RunKind& kind);
  const std::vector<size_t>& kv_places(BlockTable table) const { return table == BlockTable::whole ? kv_places_ : window_places_; }
  std::vector<size_t>& kv_places(BlockTable table) { return table == BlockTable::whole ? kv_places_ : window_places_; }
  SplitBuffer& buffer_at(const float* address) { return buffers_.at(address); }
  void take_notes();

  const std::vector<std::shared_ptr<Backend>> places_;
  const LayerPlaces layers_;
  SplitExperts experts_;
  std::string name_;
  std::vector<MemoryShare> shares_;
  std::vector<size_t> notes_taken_;                                   // by place
  std::unordered_map<const std::byte*, size_t> weights_;              // by a weight's address: its place
  std::map<std::pair<const std::byte*, size_t>, bool> counted_;       // data and place that a share's bytes have
  std::unordered_map<const float*, SplitBuffer> buffers_;             // by the address in the first place
  std::unordered_map<const double*, std::vector<Rope>> ropes_;        // likewise
  std::vector<size_t> kv_places_, window_places_, state_places_;      // of layers with KV caches of both kinds and with states
  std::unordered_map<const std::byte*, SplitCache<KvCache>> kv_;      // by the handle's address
  std::unordered_map<const float*, SplitCache<StateCache>> states_;   // likewise
  std::vector<float> passing_;                                        // values on their way from place to place
};

}  // namespace vigil::compute
