// Block and checkpoint arithmetic of one sequence.
#include "engine/cache/sequence.hpp"

#include <algorithm>
#include <cassert>

#include "engine/compute/tensor.hpp"

namespace vigil::cache {
namespace {

int64_t blocks_for(int64_t tokens) { return (tokens + compute::kv_block_positions - 1) / compute::kv_block_positions; }

}  // namespace

Sequence::~Sequence() {
  for (const BlockId block : blocks_) pools_->blocks.release(block);
  for (const Checkpoint& checkpoint : checkpoints_) pools_->states.release(checkpoint.state);
  if (next_state_) pools_->states.release(*next_state_);
}

int64_t Sequence::common_prefix(std::span<const TokenId> prompt) const {
  return std::mismatch(tokens_.begin(), tokens_.end(), prompt.begin(), prompt.end()).first - tokens_.begin();
}

int64_t Sequence::reusable(std::span<const TokenId> prompt, int64_t unit) const {
  const int64_t most = std::max<int64_t>(0, std::min(common_prefix(prompt), static_cast<int64_t>(prompt.size()) - 1));
  if (!pools_->recurrent) return most / unit * unit;
  int64_t best = 0;
  for (const Checkpoint& checkpoint : checkpoints_) {
    if (checkpoint.length <= most && checkpoint.length % unit == 0) best = std::max(best, checkpoint.length);
  }
  return best;
}

void Sequence::truncate(int64_t length) {
  assert(length <= this->length());
  assert(length % compute::kv_block_positions == 0 || pools_->blocks.holders(blocks_[static_cast<size_t>(blocks_for(length) - 1)]) == 1);
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

std::unique_ptr<Sequence> Sequence::fork(int64_t length, std::optional<BlockId> tail) const {
  assert(length <= this->length() && tail.has_value() == (length % compute::kv_block_positions != 0));
  auto made = std::make_unique<Sequence>(*pools_);
  made->tokens_.assign(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(length));
  for (int64_t i = 0; i < length / compute::kv_block_positions; ++i) {
    made->blocks_.push_back(blocks_[static_cast<size_t>(i)]);
    pools_->blocks.retain(made->blocks_.back());
  }
  if (tail) made->blocks_.push_back(*tail);
  for (const Checkpoint& checkpoint : checkpoints_) {
    if (checkpoint.length > length) break;
    made->checkpoints_.push_back(checkpoint);
    pools_->states.retain(checkpoint.state);
  }
  assert(!pools_->recurrent || length == 0 || made->checkpoints_.back().length == length);
  return made;
}

void Sequence::absorb(const Sequence& other) {
  for (const Checkpoint& theirs : other.checkpoints_) {
    const auto place = std::lower_bound(checkpoints_.begin(), checkpoints_.end(), theirs.length,
                                        [](const Checkpoint& mine, int64_t length) { return mine.length < length; });
    if (place != checkpoints_.end() && place->length == theirs.length) continue;
    pools_->states.retain(theirs.state);
    checkpoints_.insert(place, theirs);
  }
}

Sequence::Missing Sequence::missing(int64_t more) const {
  const int64_t blocks = blocks_for(length() + more) - static_cast<int64_t>(blocks_.size());
  return {blocks - pools_->blocks.free_blocks(), pools_->recurrent && !next_state_ && pools_->states.free_blocks() == 0};
}

bool Sequence::reserve(int64_t more) {
  if (!missing(more).nothing()) return false;
  if (pools_->recurrent && !next_state_) next_state_ = pools_->states.acquire();
  while (static_cast<int64_t>(blocks_.size()) < blocks_for(length() + more)) blocks_.push_back(*pools_->blocks.acquire());
  return true;
}

void Sequence::settle() {
  while (static_cast<int64_t>(blocks_.size()) > blocks_for(length())) {
    pools_->blocks.release(blocks_.back());
    blocks_.pop_back();
  }
  if (next_state_) pools_->states.release(*next_state_);
  next_state_.reset();
}

void Sequence::commit(std::span<const TokenId> tokens, Keep keep) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  assert(blocks_for(length()) <= static_cast<int64_t>(blocks_.size()));
  if (!pools_->recurrent) return;
  assert(next_state_);
  if (!checkpoints_.empty() && checkpoints_.back().keep == Keep::while_newest) {
    pools_->states.release(checkpoints_.back().state);
    checkpoints_.pop_back();
  }
  if (length() % checkpoint_tokens == 0) keep = Keep::as_checkpoint;
  checkpoints_.push_back({length(), *next_state_, keep, ++pools_->uses});
  next_state_.reset();
}

std::optional<uint64_t> Sequence::oldest_checkpoint(Is is) const {
  std::optional<uint64_t> oldest;
  const size_t count = checkpoints_.size() - (is == Is::running && !checkpoints_.empty() ? 1 : 0);
  for (size_t i = 0; i < count; ++i) oldest = std::min(oldest.value_or(checkpoints_[i].used), checkpoints_[i].used);
  return oldest;
}

void Sequence::touch() {
  for (Checkpoint& checkpoint : checkpoints_) checkpoint.used = ++pools_->uses;
}

void Sequence::drop_checkpoint(uint64_t used) {
  const auto found = std::find_if(checkpoints_.begin(), checkpoints_.end(), [&](const Checkpoint& checkpoint) { return checkpoint.used == used; });
  assert(found != checkpoints_.end());
  pools_->states.release(found->state);
  checkpoints_.erase(found);
}

}  // namespace vigil::cache
