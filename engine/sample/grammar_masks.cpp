// A mask is one walk over the trie beside the automaton's table: subtrees that no text enters are skipped whole.
#include "engine/sample/grammar_masks.hpp"

namespace vigil::sample {
namespace {

constexpr uint32_t none = 0xFFFFFFFF;

}  // namespace

GrammarMasks::GrammarMasks(std::shared_ptr<const Program> program, std::shared_ptr<const TokenTrie> trie)
    : program_(std::move(program)), trie_(std::move(trie)), automaton_(program_), path_(trie_->depth() + 1) {}

size_t GrammarMasks::bytes() const { return automaton_.bytes() + masks_.size() * (trie_->size() / 8 + sizeof(Mask)) + mask_of_.capacity() * sizeof(uint32_t); }

void GrammarMasks::forget() {
  overflowed_ = false;
  masks_.clear();
  mask_of_ = std::vector<uint32_t>();
  std::vector<Automaton::State*> keep;
  for (Cursor* cursor : cursors_) keep.push_back(&cursor->state_);
  automaton_.compact(keep);
}

Error GrammarMasks::too_ambiguous() {
  forget();
  overflowed_ = true;  // what the cursor itself stands on goes with it
  return Error{"the grammar is too ambiguous: too many of its ways fit the text so far to be followed at once; write it so that fewer alternatives begin alike"};
}

Result<bool> GrammarMasks::allows(Automaton::State state, int32_t id) {
  if (state < mask_of_.size() && mask_of_[state] != none) return masks_[mask_of_[state]].has(id);
  automaton_.begin_operation();
  const bool possible = automaton_.step_token(state, id, trie_->text(id)) != Automaton::dead;
  if (automaton_.overflowed()) return too_ambiguous();
  return possible;
}

Result<bool> GrammarMasks::accept(Cursor& cursor, int32_t id) {
  if (bytes() > max_mask_cache_bytes) forget();
  automaton_.begin_operation();
  const Automaton::State next = automaton_.step_token(cursor.state_, id, trie_->text(id));
  if (automaton_.overflowed()) return too_ambiguous();
  if (next == Automaton::dead) return false;
  cursor.state_ = next;
  return true;
}

Result<const Mask*> GrammarMasks::mask(Automaton::State state) {
  if (state < mask_of_.size() && mask_of_[state] != none) return &masks_[mask_of_[state]];
  automaton_.begin_operation();
  Mask mask;
  mask.words.resize((trie_->size() + 63) / 64);
  walk(state, mask);
  if (automaton_.overflowed()) return too_ambiguous();
  std::vector<int32_t> named;
  automaton_.named_tokens(state, named);
  for (const int32_t id : named) {
    if (static_cast<size_t>(id) < trie_->size()) mask.words[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
  }
  for (const uint64_t word : mask.words) mask.allowed += static_cast<size_t>(__builtin_popcountll(word));
  if (mask_of_.size() <= state) mask_of_.resize(state + 1, none);
  mask_of_[state] = static_cast<uint32_t>(masks_.size());
  masks_.push_back(std::move(mask));
  return &masks_.back();
}

void GrammarMasks::walk(Automaton::State state, Mask& mask) {
  const std::vector<TokenTrie::Node>& nodes = trie_->nodes();
  const std::vector<int32_t>& tokens = trie_->tokens();
  const auto& byte_class = program_->byte_class;
  path_[0] = state;
  for (size_t i = 0; i + 1 < nodes.size();) {
    const TokenTrie::Node& node = nodes[i];
    const Automaton::State before = path_[node.depth - 1u];
    Automaton::State after = automaton_.row(before)[byte_class[node.byte]];
    if (after == Automaton::unknown) after = automaton_.make_step(before, byte_class[node.byte]);
    if (after == Automaton::dead) {
      if (automaton_.overflowed()) return;
      i = node.skip;
      continue;
    }
    path_[node.depth] = after;
    ++i;
    for (uint32_t t = node.first_token; t < nodes[i].first_token; ++t) {
      const auto id = static_cast<size_t>(tokens[t]);
      mask.words[id / 64] |= uint64_t{1} << (id % 64);
    }
  }
}

}  // namespace vigil::sample
