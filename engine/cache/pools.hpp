// The two kinds of memory that sequences take: KV blocks, and slots of recurrent state for models that have any.
#pragma once

#include "engine/cache/block_pool.hpp"

namespace vigil::cache {

struct Pools {
  explicit Pools(int64_t block_count, int64_t state_count = 0) : blocks(block_count), states(state_count), recurrent(state_count > 0) {}
  BlockPool blocks;
  BlockPool states;
  const bool recurrent;  // then every committed step leaves its state in a slot
  uint64_t uses = 0;     // counts up: what was used later has the higher number
};

// Slots for one running sequence: the committed state, and the one that a step writes.
inline constexpr int64_t state_slots_per_sequence = 2;
// A recurrent state is kept where a sequence passes a multiple of this many tokens: at absolute positions, so that two prompts which begin alike
// meet at the same ones.
inline constexpr int64_t checkpoint_tokens = 256;

}  // namespace vigil::cache
