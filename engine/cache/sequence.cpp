// Block arithmetic of one sequence.
#include "engine/cache/sequence.hpp"

#include <algorithm>
#include <cassert>

#include "engine/compute/tensor.hpp"

namespace vigil::cache {
namespace {

int64_t blocks_for(int64_t tokens) { return (tokens + compute::kv_block_positions - 1) / compute::kv_block_positions; }

}  // namespace

Sequence::~Sequence() {
  truncate(0);
  if (next_state_) pools_->states.release(*next_state_);
}

int64_t Sequence::common_prefix(std::span<const TokenId> prompt) const {
  return std::mismatch(tokens_.begin(), tokens_.end(), prompt.begin(), prompt.end()).first - tokens_.begin();
}

int64_t Sequence::reusable(std::span<const TokenId> prompt) const {
  const int64_t most = std::max<int64_t>(0, std::min(common_prefix(prompt), static_cast<int64_t>(prompt.size()) - 1));
  if (!pools_->recurrent) return most;
  int64_t best = 0;
  for (const Checkpoint& checkpoint : checkpoints_) {
    if (checkpoint.length <= most) best = std::max(best, checkpoint.length);
  }
  return best;
}

void Sequence::truncate(int64_t length) {
  assert(length <= this->length());
  tokens_.resize(static_cast<size_t>(length));
  const int64_t keep = blocks_for(length);
  while (static_cast<int64_t>(blocks_.size()) > keep) {
    pools_->blocks.release(blocks_.back());
    blocks_.pop_back();
  }
  while (!checkpoints_.empty() && checkpoints_.back().length > length) {
    pools_->states.release(checkpoints_.back().state);
    checkpoints_.pop_back();
  }
  assert(!pools_->recurrent || length == 0 || (!checkpoints_.empty() && checkpoints_.back().length == length));
}

bool Sequence::reserve(int64_t more) {
  const int64_t missing = blocks_for(length() + more) - static_cast<int64_t>(blocks_.size());
  if (missing > pools_->blocks.free_blocks()) return false;
  if (pools_->recurrent && !next_state_) {
    next_state_ = pools_->states.acquire();
    if (!next_state_) return false;
  }
  for (int64_t i = 0; i < missing; ++i) blocks_.push_back(*pools_->blocks.acquire());
  return true;
}

void Sequence::commit(std::span<const TokenId> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  assert(blocks_for(length()) <= static_cast<int64_t>(blocks_.size()));
  if (!pools_->recurrent) return;
  assert(next_state_);
  for (const Checkpoint& old : checkpoints_) pools_->states.release(old.state);
  checkpoints_.assign(1, {length(), *next_state_});
  next_state_.reset();
}

}  // namespace vigil::cache
