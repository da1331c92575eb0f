// The kinds of memory that sequences take: KV blocks of layers that see everything and of layers with a window, and slots of recurrent state, the
// latter two for models that have any.
#pragma once

#include <algorithm>

#include "engine/cache/block_pool.hpp"
#include "engine/compute/tensor.hpp"

namespace vigil::cache {

// Layers with a window. Every sequence holds their blocks back to where its next token sees, and further by so much that it can be cut back.
struct Window {
  int64_t positions = 0;         // that such a layer sees; 0 = the model has none
  int64_t blocks = 0;            // of the pool
  int64_t checkpoint_every = 0;  // blocks are kept from which a prompt can go on behind each multiple of so many tokens, while there is room; 0 = not so
};

struct Pools {
  explicit Pools(int64_t block_count, int64_t state_count = 0, const Window& its_window = {})
      : blocks(block_count), window_blocks(its_window.blocks), states(state_count), recurrent(state_count > 0), window(its_window) {}
  BlockPool blocks;
  BlockPool window_blocks;
  BlockPool states;
  const bool recurrent;  // then every committed step leaves its state in a slot
  const Window window;
  uint64_t uses = 0;     // counts up: what was used later has the higher number
};

// Slots for one running sequence: the committed state, and the one that a step writes.
inline constexpr int64_t state_slots_per_sequence = 2;
// A recurrent state is kept where a sequence passes a multiple of this many tokens: at absolute positions, so that two prompts which begin alike
// meet at the same ones.
inline constexpr int64_t checkpoint_tokens = 256;

// Tokens by which a sequence can be cut back at least, although some layers have a window: wrong guesses, a last message that is written anew.
inline constexpr int64_t window_tail = 256;
// Window blocks that one running sequence needs when a step adds at most `rows` tokens to it.
inline int64_t window_blocks_per_sequence(int64_t window, int64_t rows) {
  return (window + window_tail + rows + compute::kv_block_positions - 1) / compute::kv_block_positions + 2;
}
// Denser ones would keep every block.
inline int64_t window_checkpoint_tokens(int64_t window) { return std::max<int64_t>(1, (window + checkpoint_tokens - 1) / checkpoint_tokens) * checkpoint_tokens; }

}  // namespace vigil::cache
