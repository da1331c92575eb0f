// How much memory this process may still take, and which context fits into it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "protocol/result.hpp"

namespace vigil::schedule {

// Bytes: the machine's available memory, or less where a cgroup (v2 or v1) leaves less. 0 when nothing can be read.
// `root` stands before /proc and /sys, for tests.
uint64_t available_memory(const std::string& root = "");

// A smaller model that guesses for the first, if there is one. Its KV cache grows with the first's.
struct DraftNeed {
  uint64_t fixed = 0;       // bytes of weights and scratch
  uint64_t kv_block = 0;    // bytes of 64 positions
  int64_t most_blocks = 0;  // that one sequence can fill
};
// Layers with a window: their KV does not grow with a context that is longer than a sequence needs blocks of them.
struct WindowNeed {
  uint64_t kv_block = 0;    // bytes of 64 positions; 0 = the model has none
  int64_t most_blocks = 0;  // that one sequence needs at once (cache::window_blocks_per_sequence)
};
struct MemoryNeed {
  uint64_t weights = 0, scratch = 0;  // bytes
  uint64_t kv_block = 0;              // bytes of 64 positions, in layers that see everything
  uint64_t state = 0;                 // bytes of one recurrent state; 0 = the model has none
  DraftNeed draft = {};
  WindowNeed window = {};
};
// At most this share of the machine's available memory is planned for: others use it too.
inline constexpr uint64_t memory_percent = 80;

// Tokens of a context that nobody asked for, more than any model is trained with: what a file says of itself must not make block tables of gigabytes, where
// layers with windows leave KV cache that costs nothing.
inline constexpr int64_t longest_unasked = int64_t{1} << 24;

// The context to run with. `asked` 0 = the largest up to `trained` (and longest_unasked) that fits; a context that was asked for and does not fit is an error
// with the numbers, as is a model that does not fit at all. `available` 0 = unknown: everything fits.
Result<int64_t> fit_context(int64_t asked, int64_t trained, const MemoryNeed& need, uint64_t available, uint64_t percent = memory_percent);

struct CacheWish {
  int64_t context = 0, trained = 0;  // tokens, as fit_context takes them
  int64_t slots = 1;
  int64_t cache_mib = 0;             // for what outlives its request; 0 = as memory allows, below 0 = nothing
};
struct CachePlan {
  int64_t context = 0;        // tokens of one sequence
  int64_t blocks = 0;         // KV blocks: a context for each slot if they fit, one at least, and some for parked conversations
  int64_t states = 0;         // slots of recurrent state
  int64_t parked_blocks = 0;  // most blocks that parked conversations may hold; 0 = none is kept
  int64_t draft_blocks = 0;   // of the draft model's KV: as many as the slots can fill, and none for parked conversations
  int64_t window_blocks = 0;  // of layers with a window: what each slot needs if it fits, one slot at least, and some for parked conversations and checkpoints
};
// Where the contexts of all slots do not fit, they share what does: a conversation that finds no room waits for another's end.
Result<CachePlan> plan_caches(const CacheWish& wish, const MemoryNeed& need, uint64_t available, uint64_t percent = memory_percent);

// A model in several places: what of it is in each, and what there is.
struct PlaceMemory {
  std::string name;
  MemoryNeed need;
  uint64_t available = 0, percent = memory_percent;
};
// One plan that holds in every place. An error names the place.
Result<CachePlan> plan_caches(const CacheWish& wish, std::span<const PlaceMemory> places);

}  // namespace vigil::schedule
