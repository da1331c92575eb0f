// The sequences of all conversations: those that run, and finished ones that stay parked, the one not used longest going first, so that a prompt
// which begins like any of them is read only from there on. Not here: what is computed, and who runs when.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/cache/sequence.hpp"

namespace vigil::cache {

class Conversations {
 public:
  // Copies a KV block of the kind that stands in such tables; false when the backend cannot.
  using CopyBlock = std::function<bool(compute::BlockTable kind, BlockId from, BlockId to)>;
  // Parked sequences hold at most `parked_blocks`, whoever shares them; 0 = nothing is kept, and nothing shared. Of window blocks they hold what the
  // pool has beside running ones.
  Conversations(Pools& pools, CopyBlock copy, int64_t parked_blocks);

  // A sequence to run that already holds what `prompt` shares with another, parked or running. It must come back by park() or drop().
  std::unique_ptr<Sequence> begin(std::span<const TokenId> prompt);
  // How much begin() would find now.
  int64_t reusable(std::span<const TokenId> prompt) const;
  // Nothing of others: for what must be computed from the first token on.
  std::unique_ptr<Sequence> begin_empty();
  void park(std::unique_ptr<Sequence> sequence);
  void drop(std::unique_ptr<Sequence> sequence);

  // Room for `more` tokens, for which parked sequences and old checkpoints give way; false when that is not enough.
  bool reserve(Sequence& sequence, int64_t more);

  size_t parked() const { return parked_.size(); }
  int64_t parked_blocks() const { return held_; }

 private:
  struct Best {
    const Sequence* sequence = nullptr;
    int64_t length = 0;
    size_t parked_at = 0;  // index into parked_, when it is a parked one
    bool parked = false;
  };
  Best best(std::span<const TokenId> prompt, int64_t unit) const;
  std::unique_ptr<Sequence> begin_like(std::span<const TokenId> prompt);
  int64_t longest_common(std::span<const TokenId> prompt) const;
  std::unique_ptr<Sequence> run(std::unique_ptr<Sequence> sequence);
  std::unique_ptr<Sequence> fork(const Best& source);
  std::optional<Sequence::Cut> take_tail(const Sequence* source);
  void give_back(const Sequence::Cut& tail);
  struct OldCheckpoint {
    Sequence* owner;
    uint64_t used;
  };
  std::optional<OldCheckpoint> oldest_checkpoint(const Sequence* but);
  void drop(const OldCheckpoint& checkpoint);
  bool make_room(const Sequence::Missing& missing, const Sequence* but);
  std::unique_ptr<Sequence> take_out(size_t index);  // of parked_
  void count(const Sequence& sequence, int32_t change);

  Pools& pools_;
  const CopyBlock copy_;
  const int64_t most_;
  std::vector<Sequence*> running_;
  std::vector<std::unique_ptr<Sequence>> parked_;  // the one parked last stands last
  std::vector<int32_t> holds_;                     // by block: parked sequences that hold it
  int64_t held_ = 0;                               // blocks held by any
};

}  // namespace vigil::cache
