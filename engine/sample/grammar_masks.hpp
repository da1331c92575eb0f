// Which tokens may come next in a grammar: one bit a token for each state of its automaton, kept for the next time that state is met.
// Not here: scores, when a grammar begins (constraint.hpp). For one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/sample/grammar_automaton.hpp"
#include "engine/sample/token_trie.hpp"
#include "protocol/result.hpp"

namespace vigil::sample {

inline constexpr size_t max_mask_cache_bytes = size_t{24} << 20;  // of one grammar: masks and states; above it all but what is in use is forgotten

struct Mask {
  std::vector<uint64_t> words;  // bit id % 64 of word id / 64
  size_t allowed = 0;           // bits set
  bool has(int32_t id) const { return id >= 0 && static_cast<size_t>(id) / 64 < words.size() && (words[static_cast<size_t>(id) / 64] >> (id % 64) & 1) != 0; }
};

class GrammarMasks {
 public:
  // A place in the grammar; kept valid by its owner's GrammarMasks, which it must not outlive.
  class Cursor {
   public:
    explicit Cursor(GrammarMasks& masks) : masks_(masks), state_(masks.automaton_.start()) { masks_.cursors_.push_back(this); }
    ~Cursor() {
      std::erase(masks_.cursors_, this);
      if (masks_.overflowed_) masks_.forget();
    }
    Cursor(const Cursor&) = delete;
    Cursor& operator=(const Cursor&) = delete;

    bool accepts() const { return masks_.automaton_.accepts(state_); }  // the text may end here
    bool reads() const { return masks_.automaton_.reads(state_); }      // something may follow
    // Whether `id` may come next; cheaper than a mask, and the same answer. An error when the grammar is too ambiguous to be followed.
    Result<bool> allows(int32_t id) { return masks_.allows(state_, id); }
    // Valid until the next call on any cursor of the same masks, or until one ends.
    Result<const Mask*> mask() { return masks_.mask(state_); }
    // False, and nothing changes, when the token may not come here.
    Result<bool> accept(int32_t id) { return masks_.accept(*this, id); }

   private:
    friend class GrammarMasks;
    GrammarMasks& masks_;
    Automaton::State state_;
  };

  GrammarMasks(std::shared_ptr<const Program> program, std::shared_ptr<const TokenTrie> trie);

  const std::shared_ptr<const Program>& program() const { return program_; }
  size_t bytes() const;
  size_t kept_masks() const { return masks_.size(); }
  // Forgets masks and states that no cursor stands on.
  void forget();

 private:
  Result<bool> allows(Automaton::State state, int32_t id);
  Result<const Mask*> mask(Automaton::State state);
  Result<bool> accept(Cursor& cursor, int32_t id);
  void walk(Automaton::State state, Mask& mask);
  Error too_ambiguous();

  const std::shared_ptr<const Program> program_;
  const std::shared_ptr<const TokenTrie> trie_;
  Automaton automaton_;
  std::vector<uint32_t> mask_of_;  // by state: index into masks_, or none
  std::vector<Mask> masks_;
  std::vector<Cursor*> cursors_;
  bool overflowed_ = false;  // until forget(): what one request's text made of the automaton is to be no burden for others with the same grammar
  std::vector<Automaton::State> path_;  // the state behind each byte of the walk
};

}  // namespace vigil::sample
