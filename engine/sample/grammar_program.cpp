// Expressions are laid down back to front: each is compiled knowing the node that comes behind it.
#include "engine/sample/grammar_program.hpp"

#include <bitset>
#include <map>
#include <string>
#include <tuple>

#include "engine/sample/utf8_ranges.hpp"

namespace vigil::sample {
namespace {

namespace gbnf = protocol::gbnf;
using gbnf::Expression;
using Kind = Program::Kind;

class Compiler {
 public:
  explicit Compiler(const gbnf::Grammar& grammar) : grammar_(grammar) {}

  Result<std::shared_ptr<const Program>> run() {
    finish_ = node(Kind::finish);
    dead_ = node(Kind::split);
    // The entries first, so that calls can name rules that come later.
    entries_.resize(grammar_.rules.size());
    for (uint32_t& entry : entries_) entry = node(Kind::split);
    for (size_t r = 0; r < grammar_.rules.size() && !too_large(); ++r) {
      const uint32_t body = compile(grammar_.rules[r].expression, finish_);
      split(entries_[r], {body});
    }
    if (too_large()) return Error{"the grammar needs more than " + std::to_string(max_program_nodes) + " automaton nodes; make it smaller"};
    program_.start = entries_[grammar_.root];
    make_classes();
    return std::make_shared<const Program>(std::move(program_));
  }

 private:
  bool too_large() const { return program_.nodes.size() + program_.edges.size() > max_program_nodes; }

  uint32_t node(Kind kind, uint32_t begin = 0, uint32_t end = 0, uint32_t next = 0) {
    program_.nodes.push_back({kind, begin, end, next});
    return static_cast<uint32_t>(program_.nodes.size() - 1);
  }
  void split(uint32_t index, const std::vector<uint32_t>& targets) {
    program_.nodes[index].begin = static_cast<uint32_t>(program_.targets.size());
    program_.targets.insert(program_.targets.end(), targets.begin(), targets.end());
    program_.nodes[index].end = static_cast<uint32_t>(program_.targets.size());
  }

  uint32_t compile(uint32_t index, uint32_t next) {
    const Expression& expression = grammar_.expressions[index];
    if (!grammar_.productive[index] || too_large()) return dead_;
    switch (expression.kind) {
      case Expression::Kind::literal: return literal(expression.text, next);
      case Expression::Kind::characters: return characters(expression.ranges, next);
      case Expression::Kind::rule: return node(Kind::call, entries_[expression.rule], 0, next);
      case Expression::Kind::repeat: return repeat(expression, next);
      case Expression::Kind::token:
        program_.has_tokens = true;
        program_.tokens.push_back(expression.token);
        return node(Kind::token, static_cast<uint32_t>(expression.token), 0, next);
      case Expression::Kind::sequence:
        for (auto part = expression.parts.rbegin(); part != expression.parts.rend(); ++part) next = compile(*part, next);
        return next;
      case Expression::Kind::choice: {
        std::vector<uint32_t> ways;
        for (const uint32_t part : expression.parts) {
          if (grammar_.productive[part]) ways.push_back(compile(part, next));
        }
        const uint32_t made = node(Kind::split);
        split(made, ways);
        return made;
      }
    }
    return dead_;
  }

  uint32_t literal(const std::string& text, uint32_t next) {
    for (auto c = text.rbegin(); c != text.rend(); ++c) {
      const auto byte = static_cast<uint8_t>(*c);
      next = reads({{byte, byte, next}});
    }
    return next;
  }

  uint32_t reads(const std::vector<Program::Edge>& edges) {
    const auto begin = static_cast<uint32_t>(program_.edges.size());
    program_.edges.insert(program_.edges.end(), edges.begin(), edges.end());
    return node(Kind::bytes, begin, static_cast<uint32_t>(program_.edges.size()));
  }

  // Ends that two sequences share are laid down once.
  uint32_t characters(const std::vector<gbnf::Range>& ranges, uint32_t next) {
    std::vector<ByteSequence> sequences;
    for (const gbnf::Range& range : ranges) append_utf8_sequences(range, sequences);
    std::map<std::tuple<uint8_t, uint8_t, uint32_t>, uint32_t> tails;
    std::vector<Program::Edge> first;
    for (const ByteSequence& sequence : sequences) {
      uint32_t target = next;
      for (size_t i = sequence.length; i-- > 1;) {
        const ByteRange range = sequence.bytes[i];
        const auto [known, fresh] = tails.emplace(std::tuple{range.first, range.last, target}, 0);
        if (fresh) known->second = reads({{range.first, range.last, target}});
        target = known->second;
      }
      const ByteRange lead = sequence.bytes[0];
      if (!first.empty() && first.back().target == target && first.back().last + 1 == lead.first) {
        first.back().last = lead.last;
      } else {
        first.push_back({lead.first, lead.last, target});
      }
    }
    return reads(first);
  }

  uint32_t repeat(const Expression& expression, uint32_t next) {
    const uint32_t part = expression.parts.front();
    if (expression.max == 0 || !grammar_.productive[part]) return next;
    if (expression.max == gbnf::unbounded && expression.min <= 1) {
      const uint32_t loop = node(Kind::split);
      const uint32_t body = compile(part, loop);
      split(loop, {body, next});
      return expression.min == 0 ? loop : body;
    }
    if (expression.min == 0 && expression.max == 1) return optional(part, next, next);
    const bool simple = grammar_.expressions[part].kind == Expression::Kind::characters;
    if (simple && expression.max <= inline_repeat) {
      const uint32_t behind = next;
      for (uint32_t i = expression.max; i > 0; --i) next = i > expression.min ? optional(part, next, behind) : compile(part, next);
      return next;
    }
    // A turn that may be empty counts as done: what is asked for at least is then always there.
    const uint32_t min = grammar_.nullable[part] ? 0 : expression.min;
    const auto index = static_cast<uint32_t>(program_.repeats.size());
    program_.repeats.push_back({0, next, min, expression.max});
    const uint32_t again = node(Kind::count_again, index);
    const uint32_t body = compile(part, again);
    program_.repeats[index].body = body;
    return node(Kind::count, index);
  }
  // The part and then `next`, or `without` at once.
  uint32_t optional(uint32_t part, uint32_t next, uint32_t without) {
    const uint32_t body = compile(part, next);
    const uint32_t made = node(Kind::split);
    split(made, {body, without});
    return made;
  }

  void make_classes() {
    std::bitset<257> begins;
    begins[0] = true;
    for (const Program::Edge& edge : program_.edges) {
      begins[edge.first] = true;
      begins[static_cast<size_t>(edge.last) + 1] = true;
    }
    for (size_t byte = 0; byte < 256; ++byte) {
      if (begins[byte]) program_.class_byte.push_back(static_cast<uint8_t>(byte));
      program_.byte_class[byte] = static_cast<uint8_t>(program_.class_byte.size() - 1);
    }
  }

  const gbnf::Grammar& grammar_;
  Program program_;
  std::vector<uint32_t> entries_;
  uint32_t finish_ = 0, dead_ = 0;
};

}  // namespace

Result<std::shared_ptr<const Program>> make_program(const gbnf::Grammar& grammar) { return Compiler(grammar).run(); }

}  // namespace vigil::sample
