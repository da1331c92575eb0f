// What one conversation has in the caches: the committed tokens, the blocks that hold their K and V, and the recurrent states behind some of them.
// Only whole finished steps are committed, so an aborted one leaves no trace. Not here: how K, V and states are computed, who keeps sequences.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/cache/pools.hpp"

namespace vigil::cache {

using TokenId = int32_t;

// Whether the recurrent state behind a commit stays when the next one comes; at multiples of checkpoint_tokens it always does.
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
  // What the next step reads and writes, after reserve(): -1 for a state from nothing, and for both in models without recurrent state.
  BlockId state_from() const { return checkpoints_.empty() ? -1 : checkpoints_.back().state; }
  BlockId state_to() const { return next_state_.value_or(-1); }

  // How many leading tokens of `prompt` need not be computed again, at least one token less than the whole: the last must be computed for
  // its scores. Recurrent state cannot be cut back: there it is the longest kept checkpoint that the prompt begins with. A multiple of `unit`.
  int64_t reusable(std::span<const TokenId> prompt, int64_t unit = 1) const;
  // Keeps the first `length` tokens (with recurrent state: 0, or what reusable() can give); what is behind goes back to the pools. The block that
  // is cut must be this sequence's alone.
  void truncate(int64_t length);
  // Another sequence that begins with the first `length` tokens, as reusable() gave it. Whole blocks are shared, for they are never written again;
  // of the block that `length` cuts it gets `tail`, a copy that it then owns.
  std::unique_ptr<Sequence> fork(int64_t length, std::optional<BlockId> tail) const;
  // Takes over checkpoints of another sequence that this one begins with.
  void absorb(const Sequence& other);

  struct Missing {
    int64_t blocks = 0;   // more than the pool has free
    bool state = false;
    bool nothing() const { return blocks <= 0 && !state; }
  };
  Missing missing(int64_t more) const;
  // Room for `more` tokens behind the committed ones; false, and nothing changed, when the pools have not enough.
  bool reserve(int64_t more);
  // Gives back what was reserved and not committed.
  void settle();
  // The tokens of a finished step; room must have been reserved.
  void commit(std::span<const TokenId> tokens, Keep keep = Keep::while_newest);

  // The checkpoint that was used longest ago: when that was; nothing when there is none that may go. The committed state may go only when `parked`.
  enum class Is { running, parked };
  std::optional<uint64_t> oldest_checkpoint(Is is) const;
  void drop_checkpoint(uint64_t used);
  void touch();  // all of them are in use again
  size_t checkpoints() const { return checkpoints_.size(); }

 private:
  struct Checkpoint {
    int64_t length;
    BlockId state;
    Keep keep;
    uint64_t used;
  };
  int64_t common_prefix(std::span<const TokenId> prompt) const;

  Pools* pools_;
  std::vector<TokenId> tokens_;
  std::vector<BlockId> blocks_;
  std::vector<Checkpoint> checkpoints_;  // by length; in a sequence that runs the last is the committed state
  std::optional<BlockId> next_state_;    // reserved for the step to come
};

}  // namespace vigil::cache
