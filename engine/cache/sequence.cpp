// Block arithmetic of one sequence.
#include "engine/cache/sequence.hpp"

#include <algorithm>
#include <cassert>

#include "engine/compute/tensor.hpp"

namespace vigil::cache {
namespace {

int64_t blocks_for(int64_t tokens) { return (tokens + compute::kv_block_positions - 1) / compute::kv_block_positions; }

}  // namespace

int64_t Sequence::reusable(std::span<const TokenId> prompt) const {
  const auto difference = std::mismatch(tokens_.begin(), tokens_.end(), prompt.begin(), prompt.end());
  const int64_t common = difference.first - tokens_.begin();
  return std::max<int64_t>(0, std::min(common, static_cast<int64_t>(prompt.size()) - 1));
}

void Sequence::truncate(int64_t length) {
  assert(length <= this->length());
  tokens_.resize(static_cast<size_t>(length));
  const int64_t keep = blocks_for(length);
  while (static_cast<int64_t>(blocks_.size()) > keep) {
    pool_->release(blocks_.back());
    blocks_.pop_back();
  }
}

bool Sequence::reserve(int64_t more) {
  const int64_t missing = blocks_for(length() + more) - static_cast<int64_t>(blocks_.size());
  if (missing > pool_->free_blocks()) return false;
  for (int64_t i = 0; i < missing; ++i) blocks_.push_back(*pool_->acquire());
  return true;
}

void Sequence::commit(std::span<const TokenId> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  assert(blocks_for(length()) <= static_cast<int64_t>(blocks_.size()));
}

}  // namespace vigil::cache
