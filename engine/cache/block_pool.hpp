// Hands out KV block ids and counts who holds each: a block is free again when its last holder lets go. Not here: the memory itself.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace vigil::cache {

using BlockId = int32_t;

class BlockPool {
 public:
  explicit BlockPool(int64_t blocks);
  std::optional<BlockId> acquire();  // held once; nothing when all are taken
  void retain(BlockId block);        // one more holder
  void release(BlockId block);
  int64_t size() const { return static_cast<int64_t>(holders_.size()); }
  int32_t holders(BlockId block) const { return holders_[static_cast<size_t>(block)]; }
  int64_t free_blocks() const { return static_cast<int64_t>(free_.size()); }

 private:
  std::vector<int32_t> holders_;  // by block
  std::vector<BlockId> free_;
};

}  // namespace vigil::cache
