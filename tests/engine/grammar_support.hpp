// A slow second opinion on grammars: which prefixes of a text an expression fits, straight from the tree. And small ways to make things.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sample/grammar_automaton.hpp"
#include "engine/sample/grammar_masks.hpp"
#include "protocol/gbnf.hpp"

namespace vigil::testing {

inline protocol::gbnf::Grammar grammar_of(std::string_view text) {
  auto grammar = protocol::gbnf::parse(text);
  INFO(text << (grammar ? "" : grammar.error()));
  REQUIRE(grammar.ok());
  return std::move(grammar).value();
}
inline std::shared_ptr<const sample::Program> program_of(std::string_view text) {
  auto program = sample::make_program(grammar_of(text));
  REQUIRE(program.ok());
  return *program;
}

// Follows the tree with sets of positions; no automaton, no bytes tables.
class SlowMatcher {
 public:
  SlowMatcher(const protocol::gbnf::Grammar& grammar, std::string_view text) : grammar_(grammar), text_(text) {}
  bool accepts() { return ends(grammar_.rules[grammar_.root].expression, 0).count(text_.size()) != 0; }

 private:
  using Kind = protocol::gbnf::Expression::Kind;
  std::set<size_t> ends(uint32_t index, size_t at);
  std::set<size_t> find_ends(uint32_t index, size_t at);
  std::set<size_t> ends_of_class(const protocol::gbnf::Expression& expression, size_t at) const;
  const protocol::gbnf::Grammar& grammar_;
  const std::string_view text_;
  std::map<std::pair<uint32_t, size_t>, std::set<size_t>> known_;
};

// A random grammar over a, b, c and é: right recursion, choices, repetitions; never refused.
std::string random_grammar(std::mt19937& random);

}  // namespace vigil::testing
