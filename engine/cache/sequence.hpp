// What one conversation has in the caches: the committed tokens, the blocks that hold their K and V, and the recurrent state behind them.
// Only whole finished steps are committed, so an aborted one leaves no trace. Not here: how K, V and states are computed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/cache/pools.hpp"

namespace vigil::cache {

using TokenId = int32_t;

class Sequence {
 public:
  explicit Sequence(Pools& pools) : pools_(&pools) {}
  ~Sequence();
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  std::span<const BlockId> blocks() const { return blocks_; }
  // What the next step reads and writes, after reserve(): -1 for a state from nothing, and for both in models without recurrent state.
  BlockId state_from() const { return checkpoints_.empty() ? -1 : checkpoints_.back().state; }
  BlockId state_to() const { return next_state_.value_or(-1); }

  // How many leading tokens of `prompt` need not be computed again, at least one token less than the whole: the last must be computed for
  // its scores. Recurrent state cannot be cut back: there it is the longest kept checkpoint that the prompt begins with.
  int64_t reusable(std::span<const TokenId> prompt) const;
  // Keeps the first `length` tokens (with recurrent state: 0, or what reusable() can give); what is behind goes back to the pools.
  void truncate(int64_t length);
  // Room for `more` tokens behind the committed ones; false, and nothing changed, when the pools have not enough.
  bool reserve(int64_t more);
  // The tokens of a finished step; room must have been reserved.
  void commit(std::span<const TokenId> tokens);

 private:
  struct Checkpoint {
    int64_t length;
    BlockId state;
  };
  int64_t common_prefix(std::span<const TokenId> prompt) const;

  Pools* pools_;
  std::vector<TokenId> tokens_;
  std::vector<BlockId> blocks_;
  std::vector<Checkpoint> checkpoints_;  // by length; the last is the committed state. This version keeps no others.
  std::optional<BlockId> next_state_;    // reserved for the step to come
};

}  // namespace vigil::cache
