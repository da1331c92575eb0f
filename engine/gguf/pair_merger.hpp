// Joining neighbours in order of priority, as BPE and SPM both do it: a linked list of symbols, and a queue of what may be joined.
// O(n log n) in the number of symbols. Not here: which pairs join (merge_table.hpp, spm_tokenizer.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/gguf/vocabulary.hpp"

namespace vigil::gguf {

// One stretch of a text; joining widens the left one and empties the right one.
struct Symbol {
  static constexpr uint32_t no_join = ~uint32_t{0};

  TokenId id = -1;                     // -1: no piece
  int32_t previous = -1, next = -1;    // in the vector of symbols
  uint32_t start = 0, length = 0;      // bytes
  uint32_t priority = no_join;         // of joining it with the next one, the lowest first
  TokenId joined = -1;                 // what that gives
};

class PairMerger {
 public:
  void clear() { symbols_.clear(); }
  void add(TokenId id, size_t start, size_t length) {
    const auto index = static_cast<int32_t>(symbols_.size());
    symbols_.push_back({id, index - 1, index + 1, static_cast<uint32_t>(start), static_cast<uint32_t>(length), Symbol::no_join, -1});
  }

  // `join(left, right)` sets priority and joined of `left`, or leaves them. Equal priorities go from the left.
  template <typename Join>
  void merge(Join join) {
    if (symbols_.empty()) return;
    symbols_.back().next = -1;
    queue_.clear();
    for (size_t left = 0; left + 1 < symbols_.size(); ++left) {
      join(symbols_[left], symbols_[left + 1]);
      if (symbols_[left].priority != Symbol::no_join) queue_.push_back(entry(symbols_[left].priority, left));
    }
    std::make_heap(queue_.begin(), queue_.end(), std::greater<>());
    while (!queue_.empty()) {
      const auto at = static_cast<size_t>(queue_.front() & 0xffffffffu);
      const auto priority = static_cast<uint32_t>(queue_.front() >> 32);
      std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
      queue_.pop_back();
      Symbol& left = symbols_[at];
      if (left.priority != priority) continue;  // it or its neighbour has changed since
      Symbol& right = symbols_[static_cast<size_t>(left.next)];
      left.id = left.joined;
      left.length += right.length;
      left.next = right.next;
      right.length = 0;
      right.priority = Symbol::no_join;
      if (right.next >= 0) symbols_[static_cast<size_t>(right.next)].previous = static_cast<int32_t>(at);
      if (left.previous >= 0) offer(static_cast<size_t>(left.previous), join);
      offer(at, join);
    }
  }

  // What is left, in order.
  template <typename Take>
  void each(Take take) const {
    for (int32_t at = symbols_.empty() ? -1 : 0; at >= 0; at = symbols_[static_cast<size_t>(at)].next) take(symbols_[static_cast<size_t>(at)]);
  }

 private:
  static uint64_t entry(uint32_t priority, size_t left) { return (uint64_t{priority} << 32) | left; }

  template <typename Join>
  void offer(size_t at, Join join) {
    Symbol& left = symbols_[at];
    left.priority = Symbol::no_join;
    if (left.next < 0) return;
    join(left, symbols_[static_cast<size_t>(left.next)]);
    if (left.priority == Symbol::no_join) return;
    queue_.push_back(entry(left.priority, at));
    std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
  }

  std::vector<Symbol> symbols_;
  std::vector<uint64_t> queue_;  // a heap, the lowest in front: priority, then place
};

// The words that one call has seen: a word that comes again has the ids it had. Bounded, so that hostile text makes it no larger.
class WordCache {
 public:
  WordCache() : places_(0, SeededHash()) {}

  // Appends the ids that `word` had; false when it is new.
  bool repeat(std::string_view word, std::vector<TokenId>& ids) const {
    const auto found = places_.find(word);
    if (found == places_.end()) return false;
    const auto [first, count] = found->second;
    for (size_t i = 0; i < count; ++i) ids.push_back(ids[first + i]);
    return true;
  }

  // `ids` from `first` on are the word's; the text it lies in must stay while the cache is used.
  void remember(std::string_view word, size_t first, const std::vector<TokenId>& ids) {
    if (word.size() <= most_word_bytes && places_.size() < most_words) places_.emplace(word, std::pair(first, ids.size() - first));
  }

 private:
  static constexpr size_t most_word_bytes = 64, most_words = 65'536;
  std::unordered_map<std::string_view, std::pair<size_t, size_t>, SeededHash> places_;  // where in the ids, and how many
};

}  // namespace vigil::gguf
