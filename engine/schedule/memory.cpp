// Sources: proc(5), and the kernel's admin-guide/cgroup-v2 (memory.max, memory.current) and cgroup-v1/memory.
#include "engine/schedule/memory.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <utility>

#include "engine/cache/pools.hpp"
#include "engine/compute/tensor.hpp"

namespace vigil::schedule {
namespace {

// Something that takes so many bytes beside each of the first so many blocks.
struct Beside {
  uint64_t bytes = 0, most = 0;
};

// Blocks that fit into `room` bytes.
uint64_t fitting(uint64_t room, uint64_t block, Beside draft, Beside window) {
  block = std::max<uint64_t>(1, block);
  if (draft.most > window.most) std::swap(draft, window);  // `draft` ends first
  uint64_t count = 0;
  for (const auto& [bytes, until] : {Beside{block + draft.bytes + window.bytes, draft.most}, Beside{block + window.bytes, window.most}, Beside{block, UINT64_MAX}}) {
    const uint64_t more = std::min(room / bytes, until - count);
    count += more;
    room -= more * bytes;
    if (count < until) break;
  }
  return count;
}

constexpr uint64_t most_contexts = 8;  // for parked conversations, without being told

std::optional<uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;  // "max"
  return value;
}

std::optional<uint64_t> machine_available(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  std::string word;
  while (file >> word) {
    uint64_t kib = 0;
    if (word == "MemAvailable:" && file >> kib) return kib * 1024;
  }
  return std::nullopt;
}

// What is left of a group's limit. Its file cache can be given back, so it counts as free.
std::optional<uint64_t> left_in_group(const std::string& folder, const char* limit_file, const char* usage_file, const char* cache_key) {
  const std::optional<uint64_t> limit = number_in(folder + "/" + limit_file);
  const std::optional<uint64_t> used = number_in(folder + "/" + usage_file);
  if (!limit || !used) return std::nullopt;
  uint64_t cache = 0;
  std::ifstream stat(folder + "/memory.stat");
  std::string key;
  uint64_t value = 0;
  while (stat >> key >> value) {
    if (key == cache_key) cache = value;
  }
  const uint64_t held = *used - std::min(*used, cache);
  return *limit - std::min(*limit, held);
}

}  // namespace

uint64_t available_memory(const std::string& root) {
  std::optional<uint64_t> least = machine_available(root);
  const auto consider = [&](std::optional<uint64_t> left) {
    if (left) least = std::min(*left, least.value_or(*left));
  };
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {  // "0::/path" (v2), "7:memory:/path" (v1)
    const bool v2 = line.starts_with("0::");
    const size_t memory = line.find(":memory:");
    if (!v2 && memory == std::string::npos) continue;
    const std::string base = root + (v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    std::string path = line.substr(v2 ? 3 : memory + 8);
    for (;;) {  // every ancestor's limit holds; in a container only the top may be mounted
      const std::string folder = base + (path == "/" ? "" : path);
      consider(v2 ? left_in_group(folder, "memory.max", "memory.current", "inactive_file")
                  : left_in_group(folder, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"));
      if (path.empty() || path == "/") break;
      path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return least.value_or(0);
}

Result<int64_t> fit_context(int64_t asked, int64_t trained, const MemoryNeed& need, uint64_t available, uint64_t percent) {
  const int64_t wanted = asked > 0 ? asked : std::min(trained, longest_unasked);
  if (available == 0) return wanted;
  const uint64_t budget = available / 100 * percent;
  const uint64_t fixed = need.weights + need.scratch + need.draft.fixed, most_drafted = static_cast<uint64_t>(need.draft.most_blocks);
  const uint64_t most_windowed = static_cast<uint64_t>(need.window.most_blocks);
  const uint64_t fitting_blocks =
      budget > fixed ? fitting(budget - fixed, need.kv_block, {need.draft.kv_block, most_drafted}, {need.window.kv_block, most_windowed}) : 0;
  const uint64_t wanted_blocks = static_cast<uint64_t>((wanted + compute::kv_block_positions - 1) / compute::kv_block_positions);
  if (wanted_blocks <= fitting_blocks) return wanted;
  if (asked == 0 && fitting_blocks > 0) return static_cast<int64_t>(fitting_blocks) * compute::kv_block_positions;
  const auto mib = [](uint64_t bytes) { return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MiB"; };
  const uint64_t kv_blocks = asked > 0 ? wanted_blocks : 1;
  const uint64_t draft = need.draft.fixed + std::min(kv_blocks, most_drafted) * need.draft.kv_block;
  return Error{"does not fit into memory: weights " + mib(need.weights) + " + scratch " + mib(need.scratch) + " + KV cache " +
               mib(kv_blocks * need.kv_block + std::min(kv_blocks, most_windowed) * need.window.kv_block) + " for a context of " + std::to_string(asked > 0 ? asked : compute::kv_block_positions) +
               (draft > 0 ? " + draft model " + mib(draft) : std::string()) + ", but " +
               (percent < 100 ? std::to_string(percent) + " % of the available " + mib(available) + " is " + mib(budget) : mib(budget) + " are there for it") +
               (asked > 0 && fitting_blocks > 0
                    ? "; a context of " + std::to_string(fitting_blocks * static_cast<uint64_t>(compute::kv_block_positions)) + " would fit"
                    : std::string())};
}

Result<CachePlan> plan_caches(const CacheWish& wish, const MemoryNeed& need, uint64_t available, uint64_t percent) {
  // What is taken for parked conversations without being told: no more bytes than this, nor than so many contexts and states have.
  constexpr uint64_t most_by_choice = uint64_t{4} << 30, most_states = 64, most_windows = 32;
  constexpr uint64_t state_quarters = 3;                  // of four: a state weighs as much as the KV of thousands of tokens
  constexpr uint64_t window_quarters = 2;                 // what a prompt can go on from: without it the other blocks are of no use
  MemoryNeed fixed = need;
  CachePlan plan;
  plan.states = need.state > 0 ? wish.slots * cache::state_slots_per_sequence : 0;
  fixed.scratch += static_cast<uint64_t>(plan.states) * need.state;
  const Result<int64_t> context = fit_context(wish.context, wish.trained, fixed, available, percent);
  if (!context) return Error{context.error()};
  plan.context = *context;
  const int64_t each = (plan.context + compute::kv_block_positions - 1) / compute::kv_block_positions;
  const uint64_t kv_block = std::max<uint64_t>(1, need.kv_block);
  plan.blocks = each * wish.slots;
  const int64_t windowed = std::min(each, need.window.most_blocks);  // blocks of one slot
  plan.window_blocks = windowed * wish.slots;
  const int64_t most_drafted = std::min(each, need.draft.most_blocks) * wish.slots;
  uint64_t rest = 0;  // bytes that nobody has claimed
  if (available > 0) {
    const uint64_t budget = available / 100 * percent, taken = fixed.weights + fixed.scratch + need.draft.fixed;
    const uint64_t all_kv = budget > taken ? budget - taken : 0;
    // Windows of all slots come before the rest of their contexts: few conversations fill those.
    const uint64_t least = static_cast<uint64_t>(each) * kv_block + static_cast<uint64_t>(std::min(each, most_drafted)) * need.draft.kv_block;
    const uint64_t window_bytes = std::max<uint64_t>(1, static_cast<uint64_t>(windowed) * need.window.kv_block);
    const uint64_t windows = std::clamp<uint64_t>((all_kv - std::min(all_kv, least)) / window_bytes, 1, static_cast<uint64_t>(wish.slots));
    plan.window_blocks = windowed * static_cast<int64_t>(windows);
    const uint64_t for_windows = static_cast<uint64_t>(plan.window_blocks) * need.window.kv_block, for_kv = all_kv - std::min(all_kv, for_windows);
    const uint64_t fits = fitting(for_kv, need.kv_block, {need.draft.kv_block, static_cast<uint64_t>(most_drafted)}, {});
    plan.blocks = std::clamp<int64_t>(plan.blocks, each, std::max<int64_t>(each, static_cast<int64_t>(std::min<uint64_t>(fits, INT64_MAX))));
    const uint64_t drafted = static_cast<uint64_t>(std::min(plan.blocks, most_drafted));
    const uint64_t used = static_cast<uint64_t>(plan.blocks) * kv_block + drafted * need.draft.kv_block;
    rest = for_kv > used ? for_kv - used : 0;
  }
  plan.draft_blocks = std::min(plan.blocks, most_drafted);
  const uint64_t useful_windows = most_windows * static_cast<uint64_t>(windowed) * need.window.kv_block;
  const uint64_t useful = most_contexts * static_cast<uint64_t>(each) * kv_block + most_states * need.state + useful_windows;
  uint64_t cache = std::min(useful, available > 0 ? std::min(rest / 4, most_by_choice) : most_by_choice);
  if (wish.cache_mib > 0) {
    cache = static_cast<uint64_t>(wish.cache_mib) << 20;
    if (available > 0) cache = std::min(cache, rest);
  }
  if (wish.cache_mib < 0) return plan;
  uint64_t for_states = 0;
  if (need.state > 0) {
    const uint64_t more = cache / 4 * state_quarters / need.state;
    plan.states += static_cast<int64_t>(std::min<uint64_t>(more, INT32_MAX));
    for_states = more * need.state;
  }
  uint64_t for_windows = 0;
  if (need.window.kv_block > 0) {
    const uint64_t more = std::min((cache - for_states) / 4 * window_quarters, useful_windows) / need.window.kv_block;
    plan.window_blocks += static_cast<int64_t>(std::min<uint64_t>(more, INT32_MAX / 2));
    for_windows = more * need.window.kv_block;
  }
  const int64_t parked = static_cast<int64_t>(std::min<uint64_t>((cache - for_states - for_windows) / kv_block, INT32_MAX / 2));
  plan.blocks += parked;
  plan.parked_blocks = wish.cache_mib > 0 ? std::max<int64_t>(1, parked) : plan.blocks;
  return plan;
}

Result<CachePlan> plan_caches(const CacheWish& wish, std::span<const PlaceMemory> places) {
  const auto kv_of = [](const PlaceMemory& place) { return static_cast<double>(place.need.kv_block + place.need.window.kv_block); };
  double all_kv = 0;
  for (const PlaceMemory& place : places) all_kv += kv_of(place);
  CacheWish shared = wish;
  std::optional<CachePlan> least;
  std::optional<int64_t> states, windows;
  // The first round finds the context that all places have room for, the second what they have beside that.
  for (const bool knows_context : {false, true}) {
    if (knows_context) shared.context = least->context;
    least.reset();
    states.reset();
    windows.reset();
    for (const PlaceMemory& place : places) {
      CacheWish mine = shared;
      if (wish.cache_mib > 0 && all_kv > 0) {
        mine.cache_mib = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(wish.cache_mib) * kv_of(place) / all_kv));
      }
      const Result<CachePlan> plan = plan_caches(mine, place.need, place.available, place.percent);
      if (!plan) return Error{(place.name.empty() ? "" : place.name + ": ") + plan.error()};
      if (place.need.state > 0) states = std::min(states.value_or(plan->states), plan->states);  // a place without states has no say in them
      if (place.need.window.kv_block > 0) windows = std::min(windows.value_or(plan->window_blocks), plan->window_blocks);  // likewise
      if (!least) {
        least = *plan;
        continue;
      }
      least->context = std::min(least->context, plan->context);
      least->blocks = std::min(least->blocks, plan->blocks);
      least->parked_blocks = std::min(least->parked_blocks, plan->parked_blocks);
      least->draft_blocks = std::max(least->draft_blocks, plan->draft_blocks);  // only one of them has a draft model
    }
  }
  if (!least) return Error{"no place to plan for"};
  least->states = states.value_or(0);
  least->window_blocks = windows.value_or(0);
  if (std::all_of(places.begin(), places.end(), [](const PlaceMemory& place) { return place.need.kv_block == 0; })) {  // blocks cost nothing, but their ids do
    least->blocks = std::min(least->blocks, (least->context / compute::kv_block_positions + 1) * (wish.slots + static_cast<int64_t>(most_contexts)));
    least->parked_blocks = std::min(least->parked_blocks, least->blocks);
  }
  least->draft_blocks = std::min(least->draft_blocks, least->blocks);
  return *least;
}

}  // namespace vigil::schedule
