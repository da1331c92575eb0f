// Parts stand in the order in which a row passes them, and GPUs take neighbouring parts by cumulated bytes.
#include "engine/schedule/placement.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

namespace vigil::schedule {
namespace {

std::string mib(uint64_t bytes) { return std::to_string((bytes + (1u << 20) - 1) >> 20); }

uint64_t bytes_of(const LayerNeed& layer, const PlacementWish& wish) {
  return layer.weights + layer.kv_block * static_cast<uint64_t>(wish.blocks) + layer.state * static_cast<uint64_t>(wish.states) +
         layer.window_block * static_cast<uint64_t>(wish.window_blocks);
}

// What is on GPUs: the last so many layers, and perhaps what stands before and behind them.
struct Choice {
  size_t layers = 0;
  bool embedding = false, output = true;
};
enum class EmbeddingMay { be_on_gpu, be_on_cpu_only };

// The parts of the choice over the GPUs by their shares; whether they fit is said by `short_of`.
Placement spread(const PartsNeed& need, const Choice& choice, const std::vector<double>& shares, const PlacementWish& wish) {
  const size_t all = need.layers.size(), first = all - choice.layers;
  Placement placement;
  placement.layers.assign(all, on_cpu);
  placement.taken.assign(shares.size(), 0);
  std::vector<uint64_t> parts;  // embedding, layers, output
  parts.push_back(choice.embedding ? need.embedding : 0);
  for (size_t i = first; i < all; ++i) parts.push_back(bytes_of(need.layers[i], wish));
  parts.push_back(choice.output ? need.output : 0);
  const double bytes = static_cast<double>(std::accumulate(parts.begin(), parts.end(), uint64_t{0}));
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  size_t gpu = static_cast<size_t>(std::find_if(shares.begin(), shares.end(), [](double share) { return share > 0; }) - shares.begin());
  double before = 0, until = shares[gpu] / sum * bytes;
  std::vector<int> places;
  for (const uint64_t part : parts) {
    // The part's middle decides, so that rounding favours no GPU.
    while (before + static_cast<double>(part) / 2 > until) {
      size_t next = gpu + 1;
      while (next < shares.size() && !(shares[next] > 0)) ++next;
      if (next == shares.size()) break;
      gpu = next;
      until += shares[gpu] / sum * bytes;
    }
    before += static_cast<double>(part);
    places.push_back(static_cast<int>(gpu));
  }
  if (choice.embedding) placement.embedding = places.front();
  if (choice.output) placement.output = places.back();
  for (size_t i = 0; i < choice.layers; ++i) placement.layers[first + i] = places[i + 1];
  for (size_t i = 0; i < parts.size(); ++i) placement.taken[static_cast<size_t>(places[i])] += parts[i];
  if (need.tied && choice.embedding && choice.output && placement.embedding == placement.output) {
    placement.taken[static_cast<size_t>(placement.output)] -= std::min(need.embedding, need.output);
  }
  for (uint64_t& taken : placement.taken) taken += taken > 0 ? need.scratch : 0;
  return placement;
}

uint64_t usable(const GpuRoom& gpu) { return gpu.free - std::min(gpu.free, gpu.reserve); }

// The first GPU that has not room for its part.
std::optional<size_t> short_of(const Placement& placement, std::span<const GpuRoom> gpus) {
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (placement.taken[i] > usable(gpus[i])) return i;
  }
  return std::nullopt;
}

std::string layers_text(int64_t count) { return count == 1 ? "1 layer" : std::to_string(count) + " layers"; }

Error does_not_fit(const std::string& what, const Placement& placement, std::span<const GpuRoom> gpus, size_t gpu, int64_t fitting) {
  const GpuRoom& room = gpus[gpu];
  return Error{what + " on the GPU does not fit: " + room.name + " would have to take " + mib(placement.taken[gpu]) + " MiB (weights, KV cache, states, scratch), but " +
               mib(room.free) + " MiB are free, of which " + mib(room.reserve) + " MiB are kept in reserve; " +
               (fitting > 0 ? layers_text(fitting) + " would fit (--gpu-layers " + std::to_string(fitting) + ", engine.gpu_layers)"
                            : std::string("not one layer would fit"))};
}

std::string range_text(const std::vector<int>& layers, int place) {
  const auto first = std::find(layers.begin(), layers.end(), place);
  if (first == layers.end()) return "";
  const auto end = std::find_if(first, layers.end(), [&](int other) { return other != place; });
  const auto from = first - layers.begin(), to = end - layers.begin() - 1;
  return from == to ? "layer " + std::to_string(from) : "layers " + std::to_string(from) + " to " + std::to_string(to);
}

}  // namespace

int64_t Placement::gpu_layers() const { return std::count_if(layers.begin(), layers.end(), [](int place) { return place != on_cpu; }); }

bool Placement::whole_on(int gpu) const {
  return !experts_apart() && embedding == gpu && output == gpu && std::all_of(layers.begin(), layers.end(), [&](int place) { return place == gpu; });
}

namespace {

// Layers with all that belongs to them.
Result<Placement> place_whole_layers(const PartsNeed& need, std::span<const GpuRoom> gpus, const PlacementWish& wish, EmbeddingMay embedding) {
  const size_t all = need.layers.size();
  Placement none;
  none.layers.assign(all, on_cpu);
  none.taken.assign(gpus.size(), 0);
  if (wish.gpu_layers == 0 || gpus.empty()) return none;
  const size_t most = wish.gpu_layers < 0 ? all : std::min(all, static_cast<size_t>(wish.gpu_layers));

  std::vector<double> shares = wish.shares;
  shares.resize(gpus.size(), 0);
  if (wish.shares.empty()) {
    // One GPU has no border to cross; for copies of experts the room of all of them counts.
    for (size_t i = 0; i < gpus.size() && most == all && embedding == EmbeddingMay::be_on_gpu; ++i) {
      std::vector<double> alone(gpus.size(), 0);
      alone[i] = 1;
      const Placement placement = spread(need, {all, true, true}, alone, wish);
      if (!short_of(placement, gpus)) return placement;
    }
    for (size_t i = 0; i < gpus.size(); ++i) shares[i] = static_cast<double>(usable(gpus[i]));
    if (std::all_of(shares.begin(), shares.end(), [](double share) { return share == 0; })) shares[0] = 1;
  }

  // The most layers that fit, with what stands around them if that fits too: the output's matrix weighs as much as some layers, and takes as long.
  std::optional<Placement> best;
  for (size_t layers = most; layers > 0 && !best; --layers) {
    for (const Choice& choice : {Choice{layers, true, true}, Choice{layers, false, true}}) {
      if (choice.embedding && (layers < all || embedding == EmbeddingMay::be_on_cpu_only)) continue;
      Placement placement = spread(need, choice, shares, wish);
      if (best || short_of(placement, gpus)) continue;
      best = std::move(placement);
    }
  }
  for (size_t layers = most; layers > 0 && !best; --layers) {
    Placement placement = spread(need, {layers, false, false}, shares, wish);
    if (!short_of(placement, gpus)) best = std::move(placement);
  }
  const int64_t fitting = best ? best->gpu_layers() : 0;
  const bool enough = wish.gpu_layers > 0 ? fitting == static_cast<int64_t>(most) : !wish.all_needed || (best && fitting == static_cast<int64_t>(all) && best->output != on_cpu);
  if (enough) return best ? *best : none;
  const Placement wanted = spread(need, {most, false, wish.gpu_layers < 0}, shares, wish);
  const size_t gpu = short_of(wanted, gpus).value_or(0);
  const std::string what = wish.gpu_layers < 0 ? "all of the model's " + layers_text(static_cast<int64_t>(all)) : layers_text(static_cast<int64_t>(most));
  return does_not_fit(what + (embedding == EmbeddingMay::be_on_cpu_only ? " without experts" : ""), wanted, gpus, gpu, fitting);
}

// Layers without their experts, and of these as many copies as there is room for, the same number of each layer of a GPU.
Result<Placement> place_experts_apart(const PartsNeed& need, std::span<const GpuRoom> gpus, const PlacementWish& wish) {
  PartsNeed rest = need;
  for (LayerNeed& layer : rest.layers) layer.weights -= layer.experts;
  for (LayerNeed& layer : rest.layers) layer.weights += layer.experts > 0 ? static_cast<uint64_t>(need.experts) * sizeof(float) : 0;  // where its copies are
  Result<Placement> placement = place_whole_layers(rest, gpus, wish, EmbeddingMay::be_on_cpu_only);
  if (!placement || placement->gpu_layers() == 0) return placement;
  std::vector<uint64_t> one_of_each(gpus.size(), 0);  // bytes on each GPU of one expert of every layer there
  for (size_t l = 0; l < need.layers.size(); ++l) {
    if (placement->layers[l] != on_cpu) one_of_each[static_cast<size_t>(placement->layers[l])] += need.layers[l].experts / static_cast<uint64_t>(need.experts);
  }
  int64_t fitting = need.experts;  // on every GPU
  for (size_t i = 0; i < gpus.size(); ++i) {
    const int64_t here = one_of_each[i] > 0 ? std::min(need.experts, static_cast<int64_t>((usable(gpus[i]) - placement->taken[i]) / one_of_each[i])) : 0;
    if (one_of_each[i] > 0) fitting = std::min(fitting, here);
    placement->expert_copies.push_back(wish.gpu_experts < 0 || one_of_each[i] == 0 ? here : wish.gpu_experts);
    placement->taken[i] += one_of_each[i] * static_cast<uint64_t>(placement->expert_copies[i]);
  }
  if (const std::optional<size_t> gpu = short_of(*placement, gpus)) {
    const GpuRoom& room = gpus[*gpu];
    return Error{std::to_string(wish.gpu_experts) + " of " + std::to_string(need.experts) + " experts of each layer on the GPU do not fit: " + room.name +
                 " would have to take " + mib(placement->taken[*gpu]) + " MiB, but " + mib(room.free) + " MiB are free, of which " + mib(room.reserve) +
                 " MiB are kept in reserve; " + std::to_string(fitting) + " would fit (--gpu-experts " + std::to_string(fitting) + ")"};
  }
  return placement;
}

}  // namespace

Result<Placement> place_layers(const PartsNeed& need, std::span<const GpuRoom> gpus, const PlacementWish& wish) {
  if (wish.shares.size() > gpus.size()) {
    return Error{"layer_split names " + std::to_string(wish.shares.size()) + " GPUs, and " + std::to_string(gpus.size()) + " can be used"};
  }
  if (wish.gpu_experts >= 0 && need.experts == 0) return Error{"--gpu-experts " + std::to_string(wish.gpu_experts) + ": the model has no experts"};
  if (wish.gpu_experts >= 0 && wish.gpu_experts < need.experts) return place_experts_apart(need, gpus, wish);
  Result<Placement> whole = place_whole_layers(need, gpus, wish, EmbeddingMay::be_on_gpu);
  const int64_t all = static_cast<int64_t>(need.layers.size()), wanted = wish.gpu_layers < 0 ? all : std::min(all, wish.gpu_layers);
  if (need.experts == 0 || wish.gpu_experts >= 0 || (whole && whole->gpu_layers() >= wanted && whole->output != on_cpu)) return whole;
  Result<Placement> apart = place_experts_apart(need, gpus, wish);
  return !whole || (apart && apart->gpu_layers() > whole->gpu_layers()) ? apart : whole;
}

std::string describe(const Placement& placement, std::span<const GpuRoom> gpus, int64_t experts) {
  std::string text;
  const auto add = [&](const std::string& layers, bool embedding, bool output, const std::string& where) {
    std::string what = layers;
    for (const auto& [there, name] : {std::pair{embedding, "the embedding"}, {output, "the output"}}) {
      if (there) what += (what.empty() ? "" : " and ") + std::string(name);
    }
    if (!what.empty()) text += (text.empty() ? "" : ", ") + what + " on " + where;
  };
  for (size_t i = 0; i < gpus.size(); ++i) {
    const int gpu = static_cast<int>(i);
    add(range_text(placement.layers, gpu), placement.embedding == gpu, placement.output == gpu,
        gpus[i].name + " (" + mib(placement.taken[i]) + " of " + mib(gpus[i].free) + " MiB free)");
  }
  add(range_text(placement.layers, on_cpu), placement.embedding == on_cpu, placement.output == on_cpu, "the CPU");
  for (size_t i = 0; i < placement.expert_copies.size(); ++i) {
    const std::string layers = range_text(placement.layers, static_cast<int>(i));
    if (layers.empty()) continue;
    text += ", experts of " + layers + " in RAM, " + std::to_string(placement.expert_copies[i]) + " of " + std::to_string(experts) + " a layer on " + gpus[i].name;
  }
  return text;
}

}  // namespace vigil::schedule
