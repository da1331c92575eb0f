// Grammars that are kept because the next request mostly brings the same one: compiled programs on the side where commands are read, masks on
// the side where tokens are chosen. Not here: what a request's grammar does (constraint.hpp).
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "engine/sample/constraint.hpp"
#include "engine/sample/grammar_masks.hpp"
#include "protocol/lines.hpp"

namespace vigil::sample {

inline constexpr size_t kept_grammars = 4;  // on each side

// Reads and compiles, away from the thread that computes. For one thread at a time.
class GrammarCompiler {
 public:
  // `trie` is asked for once, at the first grammar; null = this model's tokens have no known texts.
  using MakeTrie = std::function<std::shared_ptr<const TokenTrie>()>;
  GrammarCompiler(MakeTrie make_trie, int64_t vocabulary) : make_trie_(std::move(make_trie)), vocabulary_(vocabulary) {}

  // Errors name the key. `wanted` is what GEN carried.
  Result<ConstraintPlan> plan(const protocol::Sampling& wanted);

 private:
  Result<std::shared_ptr<const Program>> compile(const std::string& text);

  const MakeTrie make_trie_;
  const int64_t vocabulary_;  // ids run from 0 to vocabulary - 1
  std::shared_ptr<const TokenTrie> trie_;
  std::list<std::pair<std::string, std::shared_ptr<const Program>>> kept_;  // the latest first
};

// Masks by program. For the thread that chooses tokens.
class MaskShelf {
 public:
  // Null for a plan without a grammar.
  std::shared_ptr<GrammarMasks> get(const ConstraintPlan& plan);

 private:
  std::list<std::shared_ptr<GrammarMasks>> kept_;  // the latest first
};

}  // namespace vigil::sample
