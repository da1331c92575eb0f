// The order at each token: what is forced, then the grammar, then the scores.
#include "engine/sample/constraint.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace vigil::sample {
namespace {

constexpr float never = -std::numeric_limits<float>::infinity();

void apply(const Mask& mask, std::span<float> scores) {
  const size_t words = std::min(mask.words.size(), (scores.size() + 63) / 64);
  for (size_t w = 0; w < words; ++w) {
    const uint64_t word = mask.words[w];
    if (word == ~uint64_t{0}) continue;
    float* const begin = scores.data() + w * 64;
    const size_t count = std::min<size_t>(64, scores.size() - w * 64);
    if (word == 0) {
      std::fill_n(begin, count, never);
    } else {
      for (size_t i = 0; i < count; ++i) begin[i] = (word >> i & 1) != 0 ? begin[i] : never;
    }
  }
  if (words * 64 < scores.size()) std::fill(scores.begin() + static_cast<std::ptrdiff_t>(words * 64), scores.end(), never);
}

}  // namespace

Constraint::Constraint(const ConstraintPlan& plan, std::shared_ptr<GrammarMasks> masks, std::span<const int32_t> end_ids)
    : after_(plan.after), force_(plan.force), end_ids_(end_ids.begin(), end_ids.end()), masks_(std::move(masks)), settled_(!plan.force) {
  waiting_ = masks_ && after_;
  if (masks_ && !waiting_) cursor_.emplace(*masks_);
  due_ = force_ && force_->tokens == 0;
}

bool Constraint::ends(int32_t id) const { return std::find(end_ids_.begin(), end_ids_.end(), id) != end_ids_.end(); }

std::optional<int32_t> Constraint::forced() const {
  if (settled_ || !due_) return std::nullopt;
  return force_->ids[forcing_];
}

Error Constraint::dead_end() const {
  return Error{"the grammar and the vocabulary have come to a dead end after " + std::to_string(generated_) +
               " tokens: the grammar demands a text that no token of this model begins"};
}

Result<bool> Constraint::narrow(std::span<float> scores) {
  if (waiting_) {
    for (const int32_t id : end_ids_) {
      if (static_cast<size_t>(id) < scores.size()) scores[static_cast<size_t>(id)] = never;
    }
  }
  if (!cursor_) return true;
  const bool may_end = cursor_->accepts();
  if (may_end && !cursor_->reads()) return false;
  Result<const Mask*> mask = cursor_->mask();
  if (!mask) return Error{mask.error()};
  if ((*mask)->allowed == 0) {
    if (may_end) return false;
    return dead_end();
  }
  end_scores_.clear();
  if (may_end) {
    for (const int32_t id : end_ids_) end_scores_.push_back(static_cast<size_t>(id) < scores.size() ? scores[static_cast<size_t>(id)] : never);
  }
  apply(**mask, scores);
  for (size_t i = 0; i < end_ids_.size(); ++i) {
    if (static_cast<size_t>(end_ids_[i]) < scores.size()) scores[static_cast<size_t>(end_ids_[i])] = may_end ? end_scores_[i] : never;
  }
  return true;
}

Result<bool> Constraint::allows(int32_t id) {
  if (ends(id)) return !waiting_ && (!cursor_ || cursor_->accepts());
  if (!cursor_) return true;
  return cursor_->allows(id);
}

Result<void> Constraint::accept(int32_t id) {
  const bool was_forced = !settled_ && due_;
  ++generated_;
  if (cursor_ && !ends(id)) {
    Result<bool> taken = cursor_->accept(id);
    if (!taken) return Error{taken.error()};
    if (!*taken) {
      return Error{"token " + std::to_string(id) + (was_forced ? ", which force_at brings," : "") + " does not fit the grammar at token " + std::to_string(generated_)};
    }
  }
  if (was_forced) {
    settled_ = ++forcing_ == force_->ids.size();
    // A line break behind a closing token that was forced is no part of the answer yet.
    const bool brought = waiting_ && std::find(force_->ids.begin(), force_->ids.end(), *after_) != force_->ids.end();
    if (settled_ && brought) {
      waiting_ = false;
      cursor_.emplace(*masks_);
    }
    return {};
  }
  if (waiting_ && id == *after_) {
    waiting_ = false;
    cursor_.emplace(*masks_);
  }
  if (!settled_) {
    const int32_t closes = force_->unless ? *force_->unless : after_ ? *after_ : force_->ids.back();
    settled_ = id == closes;
    due_ = !settled_ && generated_ >= force_->tokens;
  }
  return {};
}

}  // namespace vigil::sample
