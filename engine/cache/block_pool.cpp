// A stack of free ids.
#include "engine/cache/block_pool.hpp"

#include <cassert>

namespace vigil::cache {

BlockPool::BlockPool(int64_t blocks) : holders_(static_cast<size_t>(blocks), 0) {
  free_.reserve(static_cast<size_t>(blocks));
  for (int64_t id = blocks - 1; id >= 0; --id) free_.push_back(static_cast<BlockId>(id));  // low ids go out first
}

std::optional<BlockId> BlockPool::acquire() {
  if (free_.empty()) return std::nullopt;
  const BlockId block = free_.back();
  free_.pop_back();
  holders_[static_cast<size_t>(block)] = 1;
  return block;
}

void BlockPool::retain(BlockId block) {
  assert(holders_[static_cast<size_t>(block)] > 0);
  ++holders_[static_cast<size_t>(block)];
}

void BlockPool::release(BlockId block) {
  int32_t& holders = holders_[static_cast<size_t>(block)];
  assert(holders > 0);
  if (--holders == 0) free_.push_back(block);
}

}  // namespace vigil::cache
