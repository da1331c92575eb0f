// The model is bound to a backend that has a place for each layer and one for its experts, and each place only counts.
#include "engine/schedule/survey.hpp"

#include <deque>

#include "engine/compute/split_backend.hpp"
#include "engine/model/config.hpp"
#include "engine/model/model.hpp"

namespace vigil::schedule {
namespace {

using compute::Buffer;
using compute::WeightUse;

class CountingBackend final : public compute::Backend {
 public:
  explicit CountingBackend(const compute::Backend& like) : like_(like) {}

  std::string_view name() const override { return "counting"; }
  int64_t picks() const override { return like_.picks(); }
  Result<compute::Weight> bind(std::string_view, gguf::TensorType type, int64_t rows, int64_t cols, std::span<const std::byte>, WeightUse use) override {
    bytes_ += like_.bytes_kept(type, rows, cols, use);
    const std::byte* const address = &addresses_.emplace_back();
    return compute::Weight{type, rows, cols, 0, address, use == WeightUse::values ? nullptr : address};
  }
  bool prepare(const std::function<bool(double)>&, const std::function<void(std::span<const std::byte>)>&) override { return true; }
  compute::Rope bind_rope(compute::RopeKind kind, std::span<const double> frequencies, double magnitude, std::span<const uint8_t>) override {
    return {kind, static_cast<int64_t>(2 * frequencies.size()), nullptr, magnitude};
  }
  Result<Buffer> allocate(int64_t floats) override { return Buffer{&buffers_.emplace_back(), floats}; }
  Result<compute::KvCache> allocate_kv(const compute::KvShape& shape) override { return compute::KvCache{shape, nullptr}; }
  Result<compute::StateCache> allocate_states(const compute::StateShape& shape) override { return compute::StateCache{shape, nullptr}; }
  void upload(compute::StepData&) override {}
  using Backend::run;
  compute::RunOutcome run(const std::function<void(compute::Ops&)>&, const compute::RunKind&) override { return compute::RunOutcome::aborted; }
  void read(Buffer, int64_t, std::span<float>) override {}
  void write(Buffer, int64_t, std::span<const float>) override {}

  uint64_t bytes() const { return bytes_; }

 private:
  const compute::Backend& like_;
  uint64_t bytes_ = 0;
  std::deque<std::byte> addresses_;  // of weights, which nobody reads
  std::deque<float> buffers_;        // likewise
};

}  // namespace

Result<Survey> survey_model(const model::Files& files, const SurveyStep& step, std::span<const std::shared_ptr<compute::Backend>> gpus) {
  const Result<model::Config> config = model::read_config(files.metadata());
  if (!config) return Error{config.error()};
  const size_t layers = static_cast<size_t>(config->layers);
  std::vector<std::shared_ptr<CountingBackend>> places;
  compute::LayerPlaces order;
  for (size_t i = 0; i < 2 * layers + 2; ++i) {
    places.push_back(std::make_shared<CountingBackend>(*gpus.front()));
    if (i < layers) order.layers.push_back(i);
    if (i < layers) order.experts.homes.push_back(layers + 2 + i);
  }
  order.embedding = layers;
  order.output = layers + 1;
  compute::SplitBackend split({places.begin(), places.end()}, order);
  const Result<std::unique_ptr<model::Model>> model = model::make_model(files, split, step.limits);
  if (!model) return Error{model.error()};
  const compute::Caches caches{{(*model)->kv_shape(step.kv_type, 0), nullptr}, {(*model)->window_kv_shape(step.kv_type, 0), nullptr}, {(*model)->state_shape(), nullptr}};
  const auto largest = [&](compute::Ops& ops) { (*model)->forward(ops, caches, step.limits.rows, {step.limits.outputs, 0}); };
  split.learn(largest);

  Survey found;
  found.trained_context = config->trained_context;
  found.window = (*model)->window_layers() > 0 ? config->window : 0;
  const std::vector<compute::MemoryShare> shares = split.memory_shares();
  const auto block_of_layers = [](const compute::KvShape& kv, int64_t count) {
    return static_cast<uint64_t>(count) * static_cast<uint64_t>(kv.kv_heads) * static_cast<uint64_t>(kv.part_bytes());
  };
  const uint64_t state = static_cast<uint64_t>(caches.states.shape.layer_floats()) * sizeof(float);
  for (size_t i = 0; i < layers; ++i) {
    const uint64_t experts = places[layers + 2 + i]->bytes();
    found.need.layers.push_back({places[i]->bytes() + experts, block_of_layers(caches.kv.shape, shares[i].kv_layers), state * static_cast<uint64_t>(shares[i].state_layers),
                                 experts, block_of_layers(caches.window_kv.shape, shares[i].window_layers)});
  }
  found.need.experts = config->experts.count;
  found.need.embedding = places[layers]->bytes();
  found.need.output = places[layers + 1]->bytes();
  found.need.tied = !files.has("output.weight");
  found.need.scratch = (*model)->scratch_bytes();

  const int64_t context = step.context > 0 ? step.context : config->trained_context;
  compute::StepData words({step.limits.rows, step.limits.rows, step.limits.sequences, (context + compute::kv_block_positions - 1) / compute::kv_block_positions,
                          found.window > 0 ? compute::block_tables : 1});
  for (const auto& gpu : gpus) {
    gpu->upload(words);
    found.has_room.push_back(static_cast<bool>(gpu->reserve(largest)));
  }
  return found;
}

}  // namespace vigil::schedule
