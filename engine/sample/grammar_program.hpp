// A grammar as a flat graph over bytes, made once and never changed: what the automaton walks. Not here: states, tokens' bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "protocol/gbnf.hpp"
#include "protocol/result.hpp"

namespace vigil::sample {

inline constexpr size_t max_program_nodes = 2'000'000;
inline constexpr uint32_t inline_repeat = 8;  // repetitions of one class up to here are written out; longer ones count

struct Program {
  enum class Kind : uint8_t {
    bytes,       // reads one byte: [begin, end) in edges
    token,       // reads one token whose id is `begin`, and goes to `next`
    split,       // goes to each of [begin, end) in targets without reading
    call,        // goes to node `begin`; when that rule ends, to `next`
    finish,      // the end of a rule
    count,       // begins repetition `begin`
    count_again  // the end of one turn of repetition `begin`
  };
  struct Node {
    Kind kind = Kind::split;
    uint32_t begin = 0, end = 0, next = 0;
  };
  struct Edge {
    uint8_t first, last;
    uint32_t target;
  };
  struct Repeat {
    uint32_t body, next;  // nodes
    uint32_t min, max;    // turns; max may be gbnf::unbounded, and then turns are counted up to min only
  };
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::vector<uint32_t> targets;
  std::vector<Repeat> repeats;
  uint32_t start = 0;
  std::array<uint8_t, 256> byte_class = {};  // bytes that no edge tells apart share a class
  std::vector<uint8_t> class_byte;           // one byte of each class
  bool has_tokens = false;
  std::vector<int32_t> tokens;               // ids that it names

  size_t classes() const { return class_byte.size(); }
};

// An error when the grammar is larger than max_program_nodes.
Result<std::shared_ptr<const Program>> make_program(const protocol::gbnf::Grammar& grammar);

}  // namespace vigil::sample
