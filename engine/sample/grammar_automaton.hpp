// Where a text stands in a grammar: a pushdown automaton over bytes, made deterministic as far as texts reach. Its states are numbers, equal
// for equal futures, so that what was found out about one is found again. Not here: tokens of a vocabulary. For one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "engine/sample/grammar_program.hpp"
#include "engine/sample/interner.hpp"

namespace vigil::sample {

inline constexpr size_t max_automaton_work = 1'000'000;               // places visited within one operation
inline constexpr size_t max_automaton_bytes = size_t{64} << 20;       // within one operation; compact() brings it down between them

class Automaton {
 public:
  using State = uint32_t;
  static constexpr State dead = 0;  // no text leads on from here
  static constexpr State unknown = 0xFFFFFFFF;

  explicit Automaton(std::shared_ptr<const Program> program);

  State start() const { return start_; }
  State step(State state, uint8_t byte) {
    const State known = next_[size_t{state} * classes_ + program_->byte_class[byte]];
    return known != unknown ? known : make_step(state, program_->byte_class[byte]);
  }
  // Behind a whole token: its bytes, or its number where the grammar names it, or both.
  State step_token(State state, int32_t id, std::string_view bytes);

  bool accepts(State state) const { return states_[state].accepts; }   // the text may end here
  bool reads(State state) const { return states_[state].count != 0; }  // something may follow
  // The numbers of tokens that the grammar names at this place.
  void named_tokens(State state, std::vector<int32_t>& ids) const;

  // An operation met a limit above; what it gave is worthless. begin_operation() forgets it and counts anew.
  bool overflowed() const { return overflowed_; }
  void begin_operation();

  size_t bytes() const;
  size_t states() const { return states_.size(); }
  // Forgets all states but these, which get new numbers in place.
  void compact(std::span<State* const> keep);

  // For tight loops: the table behind step(), valid until the next make_step(). Row `state` has one entry a byte class.
  const State* row(State state) const { return next_.data() + size_t{state} * classes_; }
  State make_step(State state, uint8_t byte_class);
  const Program& program() const { return *program_; }

 private:
  // What happens when a rule or a turn of a repetition ends: back to `node` (a node, or the index of a repetition with its count), then `below`.
  struct Frame {
    uint32_t node = 0, count = 0, below = 0;
    bool operator==(const Frame&) const = default;
  };
  // A place: a node that reads, and the frames above it. Packed, so that lists of places sort and compare fast.
  static uint64_t place(uint32_t node, uint32_t frame) { return (uint64_t{node} << 32) | frame; }
  struct StateData {
    uint32_t begin = 0, count = 0;  // in places_
    bool accepts = false;
  };

  uint32_t push(Frame frame);
  void visit(uint64_t place);
  State close();  // the state of everything that work_ leads to
  State intern(bool accepts);
  bool first_visit(uint64_t place);
  void reset();

  const std::shared_ptr<const Program> program_;
  const size_t classes_;
  std::vector<Frame> frames_;      // [0] is the bottom
  Interner frame_ids_, state_ids_;
  std::vector<StateData> states_;  // [0] is `dead`
  std::vector<uint64_t> places_;
  std::vector<State> next_;        // [states x classes]
  State start_ = dead;

  std::vector<uint64_t> work_, found_;
  bool found_end_ = false;
  struct Visited {
    uint64_t place = 0, round = 0;
  };
  std::vector<Visited> visited_;
  size_t visited_count_ = 0;
  uint64_t round_ = 0;
  size_t worked_ = 0;
  bool overflowed_ = false;
};

}  // namespace vigil::sample
