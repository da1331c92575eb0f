// What one conversation has in the caches: the committed tokens, the blocks that hold their K and V, and what it can be cut back to beside its end:
// recurrent states, and blocks of layers with a window. Only whole finished steps are committed, so an aborted one leaves no trace.
// Not here: how K, V and states are computed, who keeps sequences.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/cache/pools.hpp"

namespace vigil::cache {

using TokenId = int32_t;

// Whether a prompt can go on behind this commit when the next one has come; behind multiples of checkpoint_tokens (with windows of
// Window::checkpoint_every) it always can. In models without recurrent state and windows it can anywhere.
enum class Keep { while_newest, as_checkpoint };

class Sequence {
 public:
  explicit Sequence(Pools& pools) : pools_(&pools) {}
  ~Sequence();
  Sequence(const Sequence&) = delete;
  Sequence& operator=(const Sequence&) = delete;

  int64_t length() const { return static_cast<int64_t>(tokens_.size()); }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  std::span<const BlockId> blocks() const { return blocks_; }
  // Likewise by position / 64; -1 = let go. Empty in models without windows.
  std::span<const BlockId> window_blocks() const { return window_blocks_; }
  // What the next step reads and writes, after reserve(): -1 for a state from nothing, and for both in models without recurrent state.
  BlockId state_from() const { return checkpoints_.empty() ? -1 : checkpoints_.back().state; }
  BlockId state_to() const { return next_state_.value_or(-1); }

  // How many leading tokens of `prompt` it has, at least one token less than the whole: the last must be computed for its scores.
  int64_t common_prefix(std::span<const TokenId> prompt) const;
  // How many of these need not be computed again. Recurrent state cannot be cut back: there it is the longest kept checkpoint that the prompt begins
  // with; with windows it is that, or any length not too far behind the end. A multiple of `unit`.
  int64_t reusable(std::span<const TokenId> prompt, int64_t unit = 1) const;
  // Keeps the first `length` tokens (with recurrent state or windows: 0, or what reusable() can give); what is behind goes back to the pools. The block
  // that is cut must be this sequence's alone.
  void truncate(int64_t length);
  // The block of each kind that a length cuts.
  struct Cut {
    BlockId block = -1;
    BlockId window_block = -1;  // in models with windows
  };
  Cut cut_at(int64_t length) const;
  // Another sequence that begins with the first `length` tokens, as reusable() gave it. Whole blocks are shared, for they are never written again;
  // of those that `length` cuts it gets `tail`, copies that it then owns.
  std::unique_ptr<Sequence> fork(int64_t length, std::optional<Cut> tail) const;
  // Takes over checkpoints of another sequence that this one begins with.
  void absorb(const Sequence& other);

  struct Missing {
    int64_t blocks = 0, window_blocks = 0;  // more than the pool has free
    bool state = false;
    bool nothing() const { return blocks <= 0 && window_blocks <= 0 && !state; }
  };
  Missing missing(int64_t more) const;
  // Room for `more` tokens behind the committed ones; false, and nothing changed, when the pools have not enough.
  bool reserve(int64_t more);
  // Gives back what was reserved and not committed.
  void settle();
  // The tokens of a finished step; room must have been reserved.
  void commit(std::span<const TokenId> tokens, Keep keep = Keep::while_newest);
  // With windows: a checkpoint at `length`; what has come further than that already must still have what it needs, or nothing happens.
  void keep_at(int64_t length);

  // The checkpoint that was used longest ago: when that was; nothing when there is none that may go. The committed state may go only when `parked`, and
  // with windows one in the tail frees nothing.
  enum class Is { running, parked };
  std::optional<uint64_t> oldest_checkpoint(Is is) const;
  void drop_checkpoint(uint64_t used);
  uint64_t last_use() const;  // of any of them
  void touch();               // all of them are in use again
  size_t checkpoints() const { return checkpoints_.size(); }

 private:
  // Behind `length` tokens a prompt can go on: from a recurrent state, or from the window blocks that the token there sees, which are kept for it.
  struct Checkpoint {
    int64_t length;
    BlockId state;  // -1 in models with windows
    Keep keep;
    uint64_t used;
  };
  int64_t first_seen(int64_t length) const;
  bool within(const Checkpoint& checkpoint, int64_t block) const;
  void commit_window(int64_t before, Keep keep);
  void let_go(int64_t first, int64_t end);
  void add_checkpoint(const Checkpoint& checkpoint);
  void release(const Checkpoint& checkpoint);

  Pools* pools_;
  std::vector<TokenId> tokens_;
  std::vector<BlockId> blocks_;
  std::vector<BlockId> window_blocks_;   // from window_from_ on all are held, before it those that checkpoints need
  int64_t window_from_ = 0;
  std::vector<Checkpoint> checkpoints_;  // by length; in a sequence that runs with recurrent state the last is the committed state
  std::vector<int64_t> wished_;          // lengths to come that shall be checkpoints
  std::optional<BlockId> next_state_;    // reserved for the step to come
};

}  // namespace vigil::cache
