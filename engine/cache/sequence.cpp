// Block and checkpoint arithmetic of one sequence.
#include "engine/cache/sequence.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace vigil::cache {
namespace {

constexpr BlockId gone = -1;

int64_t blocks_for(int64_t tokens) { return (tokens + compute::kv_block_positions - 1) / compute::kv_block_positions; }

void release_from(BlockPool& pool, std::vector<BlockId>& blocks, int64_t first) {
  while (static_cast<int64_t>(blocks.size()) > first) {
    if (blocks.back() != gone) pool.release(blocks.back());
    blocks.pop_back();
  }
}

}  // namespace

Sequence::~Sequence() {
  release_from(pools_->blocks, blocks_, 0);
  release_from(pools_->window_blocks, window_blocks_, 0);
  for (const Checkpoint& checkpoint : checkpoints_) release(checkpoint);
  if (next_state_) pools_->states.release(*next_state_);
}

// The first window block that the token behind `length` others sees.
int64_t Sequence::first_seen(int64_t length) const {
  return std::max<int64_t>(0, length + 1 - pools_->window.positions) / compute::kv_block_positions;
}

bool Sequence::within(const Checkpoint& checkpoint, int64_t block) const {
  return first_seen(checkpoint.length) <= block && block < blocks_for(checkpoint.length);
}

void Sequence::release(const Checkpoint& checkpoint) {
  if (checkpoint.state != gone) pools_->states.release(checkpoint.state);
}

int64_t Sequence::common_prefix(std::span<const TokenId> prompt) const {
  const int64_t common = std::mismatch(tokens_.begin(), tokens_.end(), prompt.begin(), prompt.end()).first - tokens_.begin();
  return std::max<int64_t>(0, std::min(common, static_cast<int64_t>(prompt.size()) - 1));
}

int64_t Sequence::reusable(std::span<const TokenId> prompt, int64_t unit) const {
  const int64_t most = common_prefix(prompt), whole = most / unit * unit;
  if (!pools_->recurrent && first_seen(whole) >= window_from_) return whole;
  int64_t best = 0;
  for (const Checkpoint& checkpoint : checkpoints_) {
    if (checkpoint.length <= most && checkpoint.length % unit == 0) best = std::max(best, checkpoint.length);
  }
  return best;
}

void Sequence::truncate(int64_t length) {
  assert(length <= this->length());
  assert(length % compute::kv_block_positions == 0 || pools_->blocks.holders(cut_at(length).block) == 1);
  tokens_.resize(static_cast<size_t>(length));
  release_from(pools_->blocks, blocks_, blocks_for(length));
  while (!checkpoints_.empty() && checkpoints_.back().length > length) {
    release(checkpoints_.back());
    checkpoints_.pop_back();
  }
  const bool at_checkpoint = length == 0 || (!checkpoints_.empty() && checkpoints_.back().length == length);
  assert(at_checkpoint || (!pools_->recurrent && first_seen(length) >= window_from_));
  if (pools_->window.positions == 0) return;
  assert(length % compute::kv_block_positions == 0 || pools_->window_blocks.holders(cut_at(length).window_block) == 1);
  if (at_checkpoint) window_from_ = std::min(window_from_, first_seen(length));
  release_from(pools_->window_blocks, window_blocks_, blocks_for(length));
}

Sequence::Cut Sequence::cut_at(int64_t length) const {
  const size_t index = static_cast<size_t>(length / compute::kv_block_positions);
  return {blocks_[index], pools_->window.positions > 0 ? window_blocks_[index] : gone};
}

std::unique_ptr<Sequence> Sequence::fork(int64_t length, std::optional<Cut> tail) const {
  assert(length <= this->length() && tail.has_value() == (length % compute::kv_block_positions != 0));
  auto made = std::make_unique<Sequence>(*pools_);
  made->tokens_.assign(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(length));
  const int64_t whole = length / compute::kv_block_positions;
  for (int64_t i = 0; i < whole; ++i) {
    made->blocks_.push_back(blocks_[static_cast<size_t>(i)]);
    pools_->blocks.retain(made->blocks_.back());
  }
  if (tail) made->blocks_.push_back(tail->block);
  for (const Checkpoint& checkpoint : checkpoints_) {
    if (checkpoint.length > length) break;
    made->checkpoints_.push_back(checkpoint);
    if (pools_->recurrent) pools_->states.retain(checkpoint.state);
  }
  assert(!pools_->recurrent || length == 0 || made->checkpoints_.back().length == length);
  if (pools_->window.positions == 0) return made;
  const bool in_tail = first_seen(length) >= window_from_;
  made->window_from_ = in_tail ? std::max(window_from_, first_seen(length - window_tail)) : first_seen(length);
  for (int64_t i = 0; i < whole; ++i) {
    const bool needed = i >= made->window_from_ || std::any_of(made->checkpoints_.begin(), made->checkpoints_.end(),
                                                               [&](const Checkpoint& checkpoint) { return within(checkpoint, i); });
    made->window_blocks_.push_back(needed ? window_blocks_[static_cast<size_t>(i)] : gone);
    if (needed) pools_->window_blocks.retain(made->window_blocks_.back());
  }
  if (tail) made->window_blocks_.push_back(tail->window_block);
  return made;
}

void Sequence::add_checkpoint(const Checkpoint& checkpoint) {
  const auto place = std::lower_bound(checkpoints_.begin(), checkpoints_.end(), checkpoint.length,
                                      [](const Checkpoint& mine, int64_t length) { return mine.length < length; });
  if (place == checkpoints_.end() || place->length != checkpoint.length) checkpoints_.insert(place, checkpoint);
}

void Sequence::absorb(const Sequence& other) {
  for (const Checkpoint& theirs : other.checkpoints_) {
    if (std::any_of(checkpoints_.begin(), checkpoints_.end(), [&](const Checkpoint& mine) { return mine.length == theirs.length; })) continue;
    if (pools_->window.positions > 0) {
      // A block that is kept for one of ours may be another copy, which ends before theirs does.
      bool fits = true;
      const int64_t first = first_seen(theirs.length), end = std::min(window_from_, blocks_for(theirs.length));
      for (int64_t i = first; i < end; ++i) {
        const size_t at = static_cast<size_t>(i);
        fits = fits && (window_blocks_[at] == gone || window_blocks_[at] == other.window_blocks_[at]);
      }
      if (!fits) continue;
      for (int64_t i = first; i < end; ++i) {
        const size_t at = static_cast<size_t>(i);
        if (window_blocks_[at] != gone) continue;
        window_blocks_[at] = other.window_blocks_[at];
        pools_->window_blocks.retain(window_blocks_[at]);
      }
    } else {
      pools_->states.retain(theirs.state);
    }
    add_checkpoint(theirs);
  }
}

Sequence::Missing Sequence::missing(int64_t more) const {
  const int64_t all = blocks_for(length() + more);
  return {all - static_cast<int64_t>(blocks_.size()) - pools_->blocks.free_blocks(),
          pools_->window.positions > 0 ? all - static_cast<int64_t>(window_blocks_.size()) - pools_->window_blocks.free_blocks() : 0,
          pools_->recurrent && !next_state_ && pools_->states.free_blocks() == 0};
}

bool Sequence::reserve(int64_t more) {
  if (!missing(more).nothing()) return false;
  if (pools_->recurrent && !next_state_) next_state_ = pools_->states.acquire();
  const size_t all = static_cast<size_t>(blocks_for(length() + more));
  while (blocks_.size() < all) blocks_.push_back(*pools_->blocks.acquire());
  while (pools_->window.positions > 0 && window_blocks_.size() < all) window_blocks_.push_back(*pools_->window_blocks.acquire());
  return true;
}

void Sequence::settle() {
  release_from(pools_->blocks, blocks_, blocks_for(length()));
  release_from(pools_->window_blocks, window_blocks_, blocks_for(length()));
  if (next_state_) pools_->states.release(*next_state_);
  next_state_.reset();
}

void Sequence::commit(std::span<const TokenId> tokens, Keep keep) {
  const int64_t before = length();
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  assert(blocks_for(length()) <= static_cast<int64_t>(blocks_.size()));
  if (pools_->window.positions > 0) return commit_window(before, keep);
  if (!pools_->recurrent) return;
  assert(next_state_);
  if (!checkpoints_.empty() && checkpoints_.back().keep == Keep::while_newest) {
    release(checkpoints_.back());
    checkpoints_.pop_back();
  }
  if (length() % checkpoint_tokens == 0) keep = Keep::as_checkpoint;
  checkpoints_.push_back({length(), *next_state_, keep, ++pools_->uses});
  next_state_.reset();
}

// All blocks of the step are still there: checkpoints may lie anywhere within it.
void Sequence::commit_window(int64_t before, Keep keep) {
  assert(window_blocks_.size() == blocks_.size());
  if (const int64_t every = pools_->window.checkpoint_every; every > 0) {
    for (int64_t at = (before / every + 1) * every; at <= length(); at += every) keep_at(at);
  }
  if (keep == Keep::as_checkpoint) keep_at(length());
  for (const int64_t wish : std::exchange(wished_, {})) keep_at(wish);
  const int64_t held_from = window_from_;
  window_from_ = std::max(window_from_, first_seen(length() - window_tail));
  let_go(held_from, window_from_);
}

void Sequence::keep_at(int64_t length) {
  if (length > this->length()) {
    if (std::find(wished_.begin(), wished_.end(), length) == wished_.end()) wished_.push_back(length);
  } else if (first_seen(length) >= window_from_) {
    add_checkpoint({length, gone, Keep::as_checkpoint, ++pools_->uses});
  }
}

// Of the window blocks before the tail those that no checkpoint needs.
void Sequence::let_go(int64_t first, int64_t end) {
  for (int64_t i = first; i < std::min(end, window_from_); ++i) {
    BlockId& block = window_blocks_[static_cast<size_t>(i)];
    if (block == gone || std::any_of(checkpoints_.begin(), checkpoints_.end(), [&](const Checkpoint& checkpoint) { return within(checkpoint, i); })) continue;
    pools_->window_blocks.release(block);
    block = gone;
  }
}

std::optional<uint64_t> Sequence::oldest_checkpoint(Is is) const {
  std::optional<uint64_t> oldest;
  const size_t count = checkpoints_.size() - (pools_->recurrent && is == Is::running && !checkpoints_.empty() ? 1 : 0);
  for (size_t i = 0; i < count; ++i) {
    const bool in_tail = !pools_->recurrent && first_seen(checkpoints_[i].length) >= window_from_;  // it holds no block of its own
    if (!in_tail) oldest = std::min(oldest.value_or(checkpoints_[i].used), checkpoints_[i].used);
  }
  return oldest;
}

uint64_t Sequence::last_use() const {
  uint64_t last = 0;
  for (const Checkpoint& checkpoint : checkpoints_) last = std::max(last, checkpoint.used);
  return last;
}

void Sequence::touch() {
  for (Checkpoint& checkpoint : checkpoints_) checkpoint.used = ++pools_->uses;
}

void Sequence::drop_checkpoint(uint64_t used) {
  const auto found = std::find_if(checkpoints_.begin(), checkpoints_.end(), [&](const Checkpoint& checkpoint) { return checkpoint.used == used; });
  assert(found != checkpoints_.end());
  const Checkpoint dropped = *found;
  checkpoints_.erase(found);
  release(dropped);
  let_go(first_seen(dropped.length), blocks_for(dropped.length));
}

}  // namespace vigil::cache
