// GPUs are opened one after the other, only as many as are needed: each costs memory and time.
#include "engine/schedule/model_places.hpp"

#include <algorithm>

#include "engine/cache/pools.hpp"
#include "engine/compute/split_backend.hpp"
#include "engine/schedule/memory.hpp"
#include "engine/schedule/placement.hpp"
#include "engine/schedule/runtime.hpp"
#include "engine/schedule/survey.hpp"

namespace vigil::schedule {
namespace {

// Tokens of KV cache that layers on a GPU shall have room for beside them when nobody said how long a context is to be.
constexpr int64_t usual_context = 8192;

using Gpus = std::vector<std::shared_ptr<compute::Backend>>;

Result<ModelPlaces> one_place(const compute::BackendOptions& options) {
  Result<std::unique_ptr<compute::Backend>> backend = compute::make_backend(options);
  if (!backend) return Error{backend.error()};
  const std::shared_ptr<compute::Backend> shared = std::move(*backend);
  return ModelPlaces{shared, shared, 0};
}

compute::BackendOptions on_the_cpu(compute::BackendOptions options) {
  options.backend = "cpu";
  options.make = {};
  return options;
}

int64_t blocks_for(int64_t tokens) { return (tokens + compute::kv_block_positions - 1) / compute::kv_block_positions; }

// All that a model takes which is whole in one place, with the KV of one context.
uint64_t whole_bytes(const Survey& survey, int64_t context, int64_t window_blocks) {
  uint64_t sum = survey.need.embedding + (survey.need.tied ? 0 : survey.need.output) + survey.need.scratch;
  for (const LayerNeed& layer : survey.need.layers) {
    sum += layer.weights + layer.kv_block * static_cast<uint64_t>(blocks_for(context)) + layer.window_block * static_cast<uint64_t>(window_blocks);
  }
  return sum;
}

std::vector<GpuRoom> rooms_of(const Gpus& gpus, const Survey& survey, int64_t reserve_mib, uint64_t draft_bytes) {
  std::vector<GpuRoom> rooms;
  for (size_t i = 0; i < gpus.size(); ++i) {
    const uint64_t all = survey.has_room[i] ? gpus[i]->own_memory().value_or(0) : 0;
    const uint64_t free = all - std::min(all, draft_bytes);  // any of them may be the last place
    const uint64_t reserve = reserve_mib < 0 ? free / 100 * gpu_reserve_percent : static_cast<uint64_t>(reserve_mib) << 20;
    rooms.push_back({gpus.size() == 1 ? "GPU" : "GPU" + std::to_string(i), free, reserve});
  }
  return rooms;
}

// The backends that the placement uses, and where each part is among them.
Result<ModelPlaces> put_together(const Placement& placement, const Gpus& gpus, const compute::BackendOptions& options, compute::ExpertPlaces experts) {
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (placement.whole_on(static_cast<int>(i))) return ModelPlaces{gpus[i], gpus[i], 0};
  }
  std::vector<std::shared_ptr<compute::Backend>> used;
  std::vector<int> numbers;  // of the GPUs, or on_cpu
  std::vector<int> order = placement.layers;
  order.insert(order.begin(), placement.embedding);
  order.push_back(placement.output);
  if (std::find(order.begin(), order.end(), on_cpu) != order.end()) {
    Result<std::unique_ptr<compute::Backend>> made = compute::make_backend(on_the_cpu(options));
    if (!made) return Error{made.error()};
    used.push_back(std::move(*made));
    numbers.push_back(on_cpu);
  }
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (std::find(order.begin(), order.end(), static_cast<int>(i)) == order.end()) continue;
    used.push_back(gpus[i]);
    numbers.push_back(static_cast<int>(i));
  }
  const auto index_of = [&](int number) { return static_cast<size_t>(std::find(numbers.begin(), numbers.end(), number) - numbers.begin()); };
  compute::LayerPlaces places;
  for (const int layer : placement.layers) places.layers.push_back(index_of(layer));
  if (placement.experts_apart()) {
    for (const int layer : placement.layers) {
      experts.homes.push_back(index_of(on_cpu));
      experts.slots.push_back(layer == on_cpu ? 0 : placement.expert_copies[static_cast<size_t>(layer)]);
    }
    places.experts = std::move(experts);
  }
  places.embedding = index_of(placement.embedding);
  places.output = index_of(placement.output);
  const size_t last = used.size() - 1;
  const std::shared_ptr<compute::Backend> draft = used.back();
  return ModelPlaces{std::make_shared<compute::SplitBackend>(std::move(used), std::move(places)), draft, last, placement.experts_apart()};
}

// What was found out with so many GPUs.
struct Decision {
  Survey survey;
  std::vector<GpuRoom> rooms;
  PlacementWish wish;
  Result<Placement> placement = Placement{};
  bool on_gpus() const { return placement && placement->gpu_layers() == static_cast<int64_t>(survey.need.layers.size()); }  // every layer
};

Result<Decision> decide(const model::Files& files, const RuntimeOptions& options, const compute::StepLimits& limits, const model::Files* draft, const Gpus& gpus) {
  Decision decision;
  const SurveyStep step{limits, options.context, options.kv_type};
  Result<Survey> survey = survey_model(files, step, gpus);
  if (!survey) return Error{survey.error()};
  decision.survey = std::move(*survey);
  const int64_t context = options.context > 0 ? options.context : std::min(decision.survey.trained_context, usual_context);
  const auto window_blocks = [&](const Survey& of, int64_t blocks) {
    return of.window == 0 ? 0 : std::min(blocks, cache::window_blocks_per_sequence(of.window, limits.rows)) * options.slots;
  };
  uint64_t draft_bytes = 0;
  if (draft != nullptr) {
    const Result<Survey> smaller = survey_model(*draft, step, std::span(gpus).last(1));
    if (!smaller) return Error{"draft model " + options.draft_model + ": " + smaller.error()};
    const int64_t its_context = std::min(context, smaller->trained_context);
    draft_bytes = whole_bytes(*smaller, its_context * options.slots, window_blocks(*smaller, blocks_for(its_context)));
  }
  decision.rooms = rooms_of(gpus, decision.survey, options.gpu_reserve_mib, draft_bytes);
  PlacementWish& wish = decision.wish;
  wish = {options.gpu_layers, options.backend.backend == "cuda", options.gpu_experts, options.layer_split, blocks_for(context), options.slots * cache::state_slots_per_sequence,
          window_blocks(decision.survey, blocks_for(context))};
  decision.placement = place_layers(decision.survey.need, decision.rooms, wish);
  if (!decision.placement && options.gpu_layers < 0 && options.context == 0) {  // a shorter context rather than none
    wish.blocks = 1;
    wish.window_blocks = std::min<int64_t>(wish.window_blocks, 1);
    decision.placement = place_layers(decision.survey.need, decision.rooms, wish);
  }
  return decision;
}

Result<ModelPlaces> act_on(const Decision& decision, const Gpus& gpus, const RuntimeOptions& asked) {
  const compute::BackendOptions& options = asked.backend;
  if (!decision.placement) return Error{decision.placement.error()};
  if (decision.placement->gpu_layers() == 0) {
    Result<ModelPlaces> made = one_place(on_the_cpu(options));
    PlacementWish one = decision.wish;
    one.gpu_layers = 1;
    one.gpu_experts = -1;
    if (made) made->model->add_note("computing on the CPU, the GPU cannot have the model: " + place_layers(decision.survey.need, decision.rooms, one).error());
    return made;
  }
  const int64_t experts = decision.survey.need.experts;
  Result<ModelPlaces> made = put_together(*decision.placement, gpus, options, {{}, {}, experts, static_cast<uint64_t>(asked.expert_swap_mib) << 20});
  if (made && made->model != made->draft) made->model->add_note("the model is split: " + describe(*decision.placement, decision.rooms, experts));
  return made;
}

}  // namespace

Result<ModelPlaces> make_places(const model::Files& files, const RuntimeOptions& options, const compute::StepLimits& limits, const model::Files* draft) {
  const compute::BackendOptions& backend = options.backend;
  if (backend.make || (backend.backend != "auto" && backend.backend != "cuda")) return one_place(backend);
  if (options.gpu_layers == 0 && backend.backend == "cuda") return Error{"--gpu-layers 0 keeps the model on the CPU, and --backend asks for cuda"};
  if (options.gpu_layers == 0) return one_place(on_the_cpu(backend));
  const Result<compute::GpuSource> source = compute::open_gpus(backend);
  if (!source) return one_place(backend);  // which says so
  const size_t all = static_cast<size_t>(source->count);
  Gpus gpus;
  for (size_t count = std::clamp<size_t>(options.layer_split.size(), 1, all);; count = all) {
    while (gpus.size() < count) {
      compute::GpuOptions gpu = backend.gpu;
      gpu.device = static_cast<int>(gpus.size());
      Result<std::unique_ptr<compute::Backend>> made = source->make(gpu);
      if (!made && gpus.empty()) return one_place(backend);  // which says so
      if (!made) return Error{"--backend " + backend.backend + ": " + made.error()};
      gpus.push_back(std::move(*made));
    }
    const Result<Decision> decision = decide(files, options, limits, draft, gpus);
    if (!decision) return Error{decision.error()};
    // What one GPU cannot have, all of them together may.
    if ((decision->on_gpus() && !decision->placement->experts_apart()) || count == all || !options.layer_split.empty()) return act_on(*decision, gpus, options);
  }
}

}  // namespace vigil::schedule
