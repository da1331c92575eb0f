// Lists are short (slots, and parked conversations); a search compares prompts token by token and mostly ends at the first.
#include "engine/cache/conversations.hpp"

#include <algorithm>
#include <cassert>

#include "engine/compute/tensor.hpp"

namespace vigil::cache {
namespace {

constexpr size_t most_parked = 1024;  // sequences; a search looks at each
constexpr int64_t worth_keeping = 64;  // tokens of a common beginning that are read again: the next one like it shall go on behind them

bool begins_with(const std::vector<TokenId>& whole, const std::vector<TokenId>& start) {
  return start.size() <= whole.size() && std::equal(start.begin(), start.end(), whole.begin());
}

}  // namespace

Conversations::Conversations(Pools& pools, CopyBlock copy, int64_t parked_blocks)
    : pools_(pools), copy_(std::move(copy)), most_(parked_blocks), holds_(static_cast<size_t>(pools.blocks.size()), 0) {}

std::unique_ptr<Sequence> Conversations::run(std::unique_ptr<Sequence> sequence) {
  sequence->touch();
  running_.push_back(sequence.get());
  return sequence;
}

std::unique_ptr<Sequence> Conversations::begin_empty() { return run(std::make_unique<Sequence>(pools_)); }

std::unique_ptr<Sequence> Conversations::begin(std::span<const TokenId> prompt) {
  std::unique_ptr<Sequence> sequence = begin_like(prompt);
  if (pools_.window.positions == 0) return sequence;
  const int64_t common = longest_common(prompt);
  if (common - sequence->length() >= worth_keeping) sequence->keep_at(common);
  return sequence;
}

int64_t Conversations::longest_common(std::span<const TokenId> prompt) const {
  int64_t longest = 0;
  for (const auto& sequence : parked_) longest = std::max(longest, sequence->common_prefix(prompt));
  if (most_ == 0) return longest;
  for (const Sequence* sequence : running_) longest = std::max(longest, sequence->common_prefix(prompt));
  return longest;
}

std::unique_ptr<Sequence> Conversations::begin_like(std::span<const TokenId> prompt) {
  const Best found = best(prompt, 1);
  if (found.length == 0) return begin_empty();
  if (found.parked && found.length == found.sequence->length()) return run(take_out(found.parked_at));
  if (std::unique_ptr<Sequence> forked = fork(found)) return run(std::move(forked));
  const Best whole = best(prompt, compute::kv_block_positions);
  return whole.length == 0 ? begin_empty() : run(fork(whole));
}

int64_t Conversations::reusable(std::span<const TokenId> prompt) const { return best(prompt, 1).length; }

Conversations::Best Conversations::best(std::span<const TokenId> prompt, int64_t unit) const {
  Best best;
  if (most_ == 0) return best;
  // The latest of equals: its end is the likeliest to be needed by somebody else later, and taking it out keeps the list short.
  for (size_t i = parked_.size(); i-- > 0;) {
    const int64_t length = parked_[i]->reusable(prompt, unit);
    if (length > best.length) best = {parked_[i].get(), length, i, true};
  }
  for (const Sequence* sequence : running_) {
    const int64_t length = sequence->reusable(prompt, unit);
    if (length > best.length) best = {sequence, length, 0, false};
  }
  return best;
}

// Null when the block that is cut can not be copied.
std::unique_ptr<Sequence> Conversations::fork(const Best& source) {
  if (source.length % compute::kv_block_positions == 0) return source.sequence->fork(source.length, std::nullopt);
  const std::optional<Sequence::Cut> tail = take_tail(source.sequence);
  if (!tail) return nullptr;
  const Sequence::Cut cut = source.sequence->cut_at(source.length);
  const bool copied = copy_(compute::BlockTable::whole, cut.block, tail->block) &&
                      (pools_.window.positions == 0 || copy_(compute::BlockTable::window, cut.window_block, tail->window_block));
  if (copied) return source.sequence->fork(source.length, tail);
  give_back(*tail);
  return nullptr;
}

// A block of each kind; nothing that `source` has gives way for it.
std::optional<Sequence::Cut> Conversations::take_tail(const Sequence* source) {
  Sequence::Cut tail;
  const bool windows = pools_.window.positions > 0;
  const auto missing = [&] { return Sequence::Missing{1 - pools_.blocks.free_blocks(), windows ? 1 - pools_.window_blocks.free_blocks() : 0, false}; };
  while (!missing().nothing()) {
    if (!make_room(missing(), source)) return std::nullopt;
  }
  tail.block = *pools_.blocks.acquire();
  if (windows) tail.window_block = *pools_.window_blocks.acquire();
  return tail;
}

void Conversations::give_back(const Sequence::Cut& tail) {
  pools_.blocks.release(tail.block);
  if (pools_.window.positions > 0) pools_.window_blocks.release(tail.window_block);
}

void Conversations::drop(std::unique_ptr<Sequence> sequence) { std::erase(running_, sequence.get()); }

void Conversations::park(std::unique_ptr<Sequence> sequence) {
  std::erase(running_, sequence.get());
  if (most_ == 0 || sequence->length() == 0) return;
  sequence->settle();
  if (pools_.window.positions > 0) sequence->keep_at(sequence->length());  // for who goes on from here when a longer one has taken it over
  for (size_t i = parked_.size(); i-- > 0;) {
    if (begins_with(sequence->tokens(), parked_[i]->tokens())) {  // all of it lives on in the new one
      sequence->absorb(*take_out(i));
    } else if (begins_with(parked_[i]->tokens(), sequence->tokens())) {  // nothing new; but it has just been used
      std::unique_ptr<Sequence> known = take_out(i);
      known->absorb(*sequence);
      sequence = std::move(known);
    }
  }
  count(*sequence, 1);
  parked_.push_back(std::move(sequence));
  while (held_ > most_ || parked_.size() > most_parked) take_out(0);
}

std::unique_ptr<Sequence> Conversations::take_out(size_t index) {
  std::unique_ptr<Sequence> sequence = std::move(parked_[index]);
  parked_.erase(parked_.begin() + static_cast<std::ptrdiff_t>(index));
  count(*sequence, -1);
  return sequence;
}

void Conversations::count(const Sequence& sequence, int32_t change) {
  for (const BlockId block : sequence.blocks()) {
    int32_t& holds = holds_[static_cast<size_t>(block)];
    if (holds == 0) ++held_;
    holds += change;
    if (holds == 0) --held_;
  }
}

bool Conversations::reserve(Sequence& sequence, int64_t more) {
  for (;;) {
    const Sequence::Missing missing = sequence.missing(more);
    if (missing.nothing()) return sequence.reserve(more);
    if (!make_room(missing, nullptr)) return false;
  }
}

// Something gives way; false when there is nothing. `but` keeps all it has.
bool Conversations::make_room(const Sequence::Missing& missing, const Sequence* but) {
  const auto parked = std::find_if(parked_.begin(), parked_.end(), [&](const auto& sequence) { return sequence.get() != but; });
  if (missing.state || missing.window_blocks > 0) {
    const std::optional<OldCheckpoint> checkpoint = oldest_checkpoint(but);
    // A conversation that nobody came back to since goes whole: with windows most of what it holds is no checkpoint's.
    const bool conversation_first = !pools_.recurrent && parked != parked_.end() && checkpoint && (*parked)->last_use() < checkpoint->used;
    if (checkpoint && !conversation_first) {
      drop(*checkpoint);
      return true;
    }
  }
  if (missing.state || parked == parked_.end()) return false;
  take_out(static_cast<size_t>(parked - parked_.begin()));
  return true;
}

std::optional<Conversations::OldCheckpoint> Conversations::oldest_checkpoint(const Sequence* but) {
  std::optional<OldCheckpoint> oldest;
  const auto consider = [&](Sequence& sequence, Sequence::Is is) {
    const std::optional<uint64_t> used = &sequence == but ? std::nullopt : sequence.oldest_checkpoint(is);
    if (used && (!oldest || *used < oldest->used)) oldest = {&sequence, *used};
  };
  for (const auto& sequence : parked_) consider(*sequence, Sequence::Is::parked);
  for (Sequence* sequence : running_) consider(*sequence, Sequence::Is::running);
  return oldest;
}

void Conversations::drop(const OldCheckpoint& checkpoint) {
  checkpoint.owner->drop_checkpoint(checkpoint.used);
  for (size_t i = 0; i < parked_.size(); ++i) {  // without any checkpoint nothing can begin like it
    if (pools_.recurrent && parked_[i].get() == checkpoint.owner && checkpoint.owner->checkpoints() == 0) take_out(i);
  }
}

}  // namespace vigil::cache
