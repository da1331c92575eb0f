// The two kinds of memory that sequences take: KV blocks, and slots of recurrent state for models that have any.
#pragma once

#include "engine/cache/block_pool.hpp"

namespace vigil::cache {

struct Pools {
  explicit Pools(int64_t block_count, int64_t state_count = 0) : blocks(block_count), states(state_count), recurrent(state_count > 0) {}
  BlockPool blocks;
  BlockPool states;
  const bool recurrent;  // then every committed step leaves its state in a slot
};

// Slots for one sequence: the committed state, and the one that a step writes.
inline constexpr int64_t state_slots_per_sequence = 2;

}  // namespace vigil::cache
