// What one request's next token may be: its grammar, when that begins, and ids that must come at a certain point. Asked and told by whoever
// picks tokens, one token at a time. Not here: choosing among what is allowed (sampler.hpp), making grammars into masks (grammar_masks.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/sample/grammar_masks.hpp"
#include "protocol/lines.hpp"
#include "protocol/result.hpp"

namespace vigil::sample {

// A request's constraint, read and compiled; made on any thread.
struct ConstraintPlan {
  std::shared_ptr<const Program> program;   // null = no grammar
  std::shared_ptr<const TokenTrie> trie;    // with a program
  std::optional<int32_t> after;             // the grammar begins behind this token; absent = at once
  std::optional<protocol::ForceAt> force;

  bool empty() const { return !program && !force; }
};

class Constraint {
 public:
  // `masks` is the plan's grammar, null when it has none; it may serve several constraints of one thread. `end_ids` end an answer.
  Constraint(const ConstraintPlan& plan, std::shared_ptr<GrammarMasks> masks, std::span<const int32_t> end_ids);

  // The id that comes next whatever the scores say.
  std::optional<int32_t> forced() const;
  // Makes what may not come next minus infinity in `scores` [vocabulary]; end tokens stay where the text may end. False: nothing but the end
  // can come, the scores are worthless. An error when the vocabulary has no token that leads on.
  Result<bool> narrow(std::span<float> scores);
  // Whether narrow() would leave all scores as they are, now.
  bool open() const { return !cursor_ && !waiting_; }
  // Whether this one id would survive narrow(): lets a greedy choice be made without a mask.
  Result<bool> allows(int32_t id);
  // The token that was chosen or forced. An error when the grammar does not allow it.
  Result<void> accept(int32_t id);

 private:
  bool ends(int32_t id) const;
  Error dead_end() const;

  const std::optional<int32_t> after_;
  const std::optional<protocol::ForceAt> force_;
  const std::vector<int32_t> end_ids_;
  std::shared_ptr<GrammarMasks> masks_;
  std::optional<GrammarMasks::Cursor> cursor_;  // once the grammar has begun
  int64_t generated_ = 0;
  size_t forcing_ = 0;       // ids of force_ that have come
  bool due_ = false;         // force_ has begun
  bool settled_ = false;     // the token that force_ would bring has come, or force_ is through
  bool waiting_ = false;     // for `after_`
  std::vector<float> end_scores_;
};

}  // namespace vigil::sample
