// Facts about rules, each found in linear time: an expression's fact is decided once and tells its parent. Not here: reading the text.
#include "protocol/gbnf_check.hpp"

#include <algorithm>
#include <string>

namespace vigil::protocol::gbnf {
namespace {

using Kind = Expression::Kind;
constexpr uint32_t nobody = std::numeric_limits<uint32_t>::max();

// Who must be told when an expression's fact becomes true: the expression around it, or the places that name the rule it is the body of.
struct Links {
  explicit Links(const Grammar& grammar)
      : parent(grammar.expressions.size(), nobody), body_of(grammar.expressions.size(), nobody), users(grammar.rules.size()) {
    for (uint32_t i = 0; i < grammar.expressions.size(); ++i) {
      for (const uint32_t part : grammar.expressions[i].parts) parent[part] = i;
      if (grammar.expressions[i].kind == Kind::rule) users[grammar.expressions[i].rule].push_back(i);
    }
    for (uint32_t r = 0; r < grammar.rules.size(); ++r) body_of[grammar.rules[r].expression] = r;
  }
  std::vector<uint32_t> parent, body_of;
  std::vector<std::vector<uint32_t>> users;
};

// The least fixed point of "true when all parts of a sequence, one of a choice, the part of a repetition or none needed is".
template <typename Leaf>
std::vector<bool> settle(const Grammar& grammar, const Links& links, Leaf&& leaf) {
  std::vector<bool> holds(grammar.expressions.size());
  std::vector<size_t> missing(grammar.expressions.size());
  std::vector<uint32_t> work;
  const auto decide = [&](uint32_t index) {
    if (holds[index]) return;
    holds[index] = true;
    work.push_back(index);
  };
  for (uint32_t i = 0; i < grammar.expressions.size(); ++i) {
    const Expression& expression = grammar.expressions[i];
    missing[i] = expression.kind == Kind::sequence ? expression.parts.size() : 1;
    if (expression.kind == Kind::sequence && expression.parts.empty()) decide(i);
    if (expression.kind == Kind::repeat && expression.min == 0) decide(i);
    if (leaf(expression)) decide(i);
  }
  while (!work.empty()) {
    const uint32_t index = work.back();
    work.pop_back();
    if (links.body_of[index] != nobody) {
      for (const uint32_t user : links.users[links.body_of[index]]) decide(user);
    }
    const uint32_t parent = links.parent[index];
    if (parent != nobody && --missing[parent] == 0) decide(parent);
    if (parent != nobody && grammar.expressions[parent].kind == Kind::choice) decide(parent);
  }
  return holds;
}

// The rules that may be entered before a character was read.
void collect_first_calls(const Grammar& grammar, uint32_t index, std::vector<uint32_t>& calls) {
  const Expression& expression = grammar.expressions[index];
  if (!grammar.productive[index]) return;
  switch (expression.kind) {
    case Kind::rule: calls.push_back(expression.rule); return;
    case Kind::choice:
    case Kind::repeat:
      for (const uint32_t part : expression.parts) collect_first_calls(grammar, part, calls);
      return;
    case Kind::sequence:
      for (const uint32_t part : expression.parts) {
        collect_first_calls(grammar, part, calls);
        if (!grammar.nullable[part]) return;
      }
      return;
    case Kind::literal:
    case Kind::characters:
    case Kind::token: return;
  }
}

Error left_recursion(const Grammar& grammar, const std::vector<uint32_t>& path, uint32_t again) {
  constexpr size_t shown = 6;
  const size_t begin = static_cast<size_t>(std::find(path.begin(), path.end(), again) - path.begin());
  std::string chain;
  for (size_t i = begin; i < path.size(); ++i) {
    if (i - begin == shown) {
      chain += "... -> ";
      break;
    }
    chain += grammar.rules[path[i]].name + " -> ";
  }
  const Rule& rule = grammar.rules[again];
  return Error{"grammar line " + std::to_string(rule.line) + ", column 1: rule " + rule.name + " begins with itself (" + chain + rule.name +
               "): left recursion is not supported, put what it reads first in front, or repeat with * or +"};
}

Result<void> check_left_recursion(const Grammar& grammar) {
  enum class Mark : uint8_t { fresh, open, closed };
  struct Visit {
    uint32_t rule;
    std::vector<uint32_t> calls;
    size_t next = 0;
  };
  std::vector<Mark> marks(grammar.rules.size(), Mark::fresh);
  std::vector<Visit> visits;
  std::vector<uint32_t> path;
  const auto open = [&](uint32_t rule) {
    marks[rule] = Mark::open;
    path.push_back(rule);
    visits.push_back({rule, {}});
    collect_first_calls(grammar, grammar.rules[rule].expression, visits.back().calls);
  };
  for (uint32_t start = 0; start < grammar.rules.size(); ++start) {
    if (marks[start] == Mark::fresh) open(start);
    while (!visits.empty()) {
      Visit& visit = visits.back();
      if (visit.next == visit.calls.size()) {
        marks[visit.rule] = Mark::closed;
        visits.pop_back();
        path.pop_back();
        continue;
      }
      const uint32_t called = visit.calls[visit.next++];
      if (marks[called] == Mark::open) return left_recursion(grammar, path, called);
      if (marks[called] == Mark::fresh) open(called);
    }
  }
  return {};
}

}  // namespace

Result<void> check(Grammar& grammar) {
  const Links links(grammar);
  grammar.nullable = settle(grammar, links, [](const Expression& e) { return e.kind == Kind::literal && e.text.empty(); });
  grammar.productive = settle(grammar, links, [](const Expression& e) {
    return e.kind == Kind::literal || e.kind == Kind::token || (e.kind == Kind::characters && !e.ranges.empty());
  });
  const Rule& root = grammar.rules[grammar.root];
  if (!grammar.productive[root.expression]) {
    return Error{"grammar line " + std::to_string(root.line) + ", column 1: root can never end: every way through it leads back into a rule that needs itself, " +
                 "or to an empty class; give it a way out"};
  }
  for (const Expression& expression : grammar.expressions) {
    if (expression.kind != Kind::repeat || expression.max == unbounded || expression.max <= max_empty_repeat) continue;
    if (grammar.nullable[expression.parts.front()]) {
      return Error{"grammar: a repetition up to " + std::to_string(expression.max) + " times of something that may be the empty text; write it so that it is never " +
                   "empty, or repeat at most " + std::to_string(max_empty_repeat) + " times"};
    }
  }
  return check_left_recursion(grammar);
}

}  // namespace vigil::protocol::gbnf
