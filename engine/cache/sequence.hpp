// What one conversation has in the KV cache: the committed tokens and the blocks that hold their K and V. Only whole finished steps are
// committed, so an aborted one leaves no trace. Not here: how K and V are computed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/cache/block_pool.hpp"

namespace vigil::cache {

using TokenId = int32_t;

class Sequence {
 public:
  explicit Sequence(BlockPool& pool) : pool_(&pool) {}
  ~Sequence() { truncate(0); }
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  std::span<const BlockId> blocks() const { return blocks_; }

  // How many leading tokens of `prompt` are here, but at least one token less than the whole: the last must be computed for its scores.
  int64_t reusable(std::span<const TokenId> prompt) const;
  // Keeps the first `length` tokens; blocks behind them go back to the pool.
  void truncate(int64_t length);
  // Room for `more` tokens behind the committed ones; false, and nothing changed, when the pool has not enough blocks.
  bool reserve(int64_t more);
  // The tokens of a finished step; room must have been reserved.
  void commit(std::span<const TokenId> tokens);

 private:
  BlockPool* pool_;
  std::vector<TokenId> tokens_;
  std::vector<BlockId> blocks_;
};

}  // namespace vigil::cache
