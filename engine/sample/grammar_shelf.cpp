// Both shelves are short lists: the one used last stands first, the one not used longest goes.
#include "engine/sample/grammar_shelf.hpp"

#include <algorithm>

namespace vigil::sample {

Result<ConstraintPlan> GrammarCompiler::plan(const protocol::Sampling& wanted) {
  ConstraintPlan plan;
  const auto check_id = [&](const char* key, int32_t id) -> Result<void> {
    if (id >= 0 && id < vocabulary_) return {};
    return Error{std::string(key) + " names token " + std::to_string(id) + "; ids run from 0 to " + std::to_string(vocabulary_ - 1)};
  };
  plan.after = wanted.grammar_after;
  plan.force = wanted.force_at;
  if (plan.after) {
    if (Result<void> good = check_id("grammar_after", *plan.after); !good) return Error{good.error()};
  }
  if (plan.force) {
    for (const int32_t id : plan.force->ids) {
      if (Result<void> good = check_id("force_at", id); !good) return Error{good.error()};
    }
  }
  if (wanted.grammar.empty()) return plan;
  if (!trie_) trie_ = make_trie_();
  if (!trie_) return Error{"grammar: the texts of this model's tokens are not known, so nothing can be held to a grammar"};
  Result<std::shared_ptr<const Program>> program = compile(wanted.grammar);
  if (!program) return Error{program.error()};
  for (const int32_t id : (*program)->tokens) {
    if (Result<void> good = check_id("grammar", id); !good) return Error{good.error()};
  }
  plan.program = *program;
  plan.trie = trie_;
  return plan;
}

Result<std::shared_ptr<const Program>> GrammarCompiler::compile(const std::string& text) {
  const auto known = std::find_if(kept_.begin(), kept_.end(), [&](const auto& entry) { return entry.first == text; });
  if (known != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, known);
    return kept_.front().second;
  }
  const Result<protocol::gbnf::Grammar> grammar = protocol::gbnf::parse(text);
  if (!grammar) return Error{grammar.error()};
  Result<std::shared_ptr<const Program>> program = make_program(*grammar);
  if (!program) return program;
  kept_.emplace_front(text, *program);
  if (kept_.size() > kept_grammars) kept_.pop_back();
  return program;
}

std::shared_ptr<GrammarMasks> MaskShelf::get(const ConstraintPlan& plan) {
  if (!plan.program) return nullptr;
  const auto known = std::find_if(kept_.begin(), kept_.end(), [&](const auto& masks) { return masks->program() == plan.program; });
  if (known != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, known);
  } else {
    kept_.push_front(std::make_shared<GrammarMasks>(plan.program, plan.trie));
    if (kept_.size() > kept_grammars) kept_.pop_back();
  }
  return kept_.front();
}

}  // namespace vigil::sample
