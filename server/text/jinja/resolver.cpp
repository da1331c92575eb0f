// See resolver.hpp. A scope's names are collected before its body is walked: a name that is set further down belongs to the scope from its
// beginning, and its slot is passed by while it is unset.
#include "server/text/jinja/resolver.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "server/text/jinja/failure.hpp"
#include "server/text/jinja/lexer.hpp"

namespace vigil::text::jinja {

namespace {

using StatementKind = Statement::Kind;
using ExpressionKind = Expression::Kind;

class Resolver {
 public:
  explicit Resolver(Heap& heap) : heap_(heap) {}

  Program run(List<Statement*> body) {
    activations_.push_back({});
    open_scope();
    collect(body);
    walk(body);
    program_.body = body;
    program_.slots = activations_.back().slots;
    return std::move(program_);
  }

 private:
  struct Names {
    std::map<std::string_view, uint32_t> slots;
    bool soft = false;
  };
  struct Activation {
    std::vector<Names> scopes;
    uint32_t slots = 0;
  };

  Names& scope() { return activations_.back().scopes.back(); }
  void open_scope() { activations_.back().scopes.push_back({}); }
  void close_scope() { activations_.back().scopes.pop_back(); }
  uint32_t declare(std::string_view name) {
    const auto [entry, fresh] = scope().slots.emplace(name, activations_.back().slots);
    if (fresh) ++activations_.back().slots;
    return entry->second;
  }

  void collect(Target& target) {
    if (target.kind == Target::Kind::name) declare(target.name->view());
    for (Target& part : target.parts) collect(part);
  }
  void bind(Target& target) {
    if (target.kind == Target::Kind::name) target.slot = scope().slots.at(target.name->view());
    if (target.object) walk(target.object);
    for (Target& part : target.parts) bind(part);
  }

  // The names that a body sets in its own scope; branches have none of their own.
  void collect(List<Statement*> body) {
    for (Statement* statement : body) {
      if (statement->kind == StatementKind::set || statement->kind == StatementKind::set_block || statement->kind == StatementKind::macro) {
        collect(statement->target);
      }
      for (Branch& branch : statement->branches) collect(branch.body);
    }
  }

  void walk(List<Statement*> body) {
    for (Statement* statement : body) walk(*statement);
  }

  // A body with names of its own; `prepare` declares those that do not come from `set`.
  template <typename Prepare>
  void walk_scope(Statement& statement, Prepare&& prepare) {
    open_scope();
    statement.scope.begin = activations_.back().slots;
    prepare();
    collect(statement.body);
    statement.scope.own_end = activations_.back().slots;
    walk(statement.body);
    statement.scope.end = activations_.back().slots;
    close_scope();
  }

  void walk(Statement& statement) {
    switch (statement.kind) {
      case StatementKind::text:
      case StatementKind::stop_loop:
      case StatementKind::next_loop: return;
      case StatementKind::print: return walk(statement.a);
      case StatementKind::branches: {
        const bool before = std::exchange(scope().soft, true);
        for (Branch& branch : statement.branches) {
          walk(branch.condition);
          walk(branch.body);
        }
        scope().soft = before;
        return;
      }
      case StatementKind::loop: return walk_loop(statement);
      case StatementKind::set:
        walk(statement.a);
        return bind(statement.target);
      case StatementKind::set_block:
        walk(statement.a);
        walk_scope(statement, [] {});
        return bind(statement.target);
      case StatementKind::filter_block:
        walk(statement.a);
        return walk_scope(statement, [] {});
      case StatementKind::with:
        for (Expression* value : statement.values) walk(value);
        return walk_scope(statement, [&] {
          for (Target& target : statement.targets) collect(target);
          for (Target& target : statement.targets) bind(target);
        });
      case StatementKind::scoped: return walk_scope(statement, [] {});
      case StatementKind::macro:
        bind(statement.target);
        return walk_routine(*statement.routine);
      case StatementKind::call_block:
        walk(statement.a);
        return walk_routine(*statement.routine);
    }
  }

  void walk_loop(Statement& statement) {
    walk(statement.a);
    walk_scope(statement, [&] {
      collect(statement.target);
      bind(statement.target);
      statement.loop_slot = declare("loop");
      if (statement.b) walk(statement.b);
    });
    statement.uses_loop = used_.contains({activations_.size(), statement.loop_slot});
    // The other branch sees what is around the loop.
    open_scope();
    collect(statement.otherwise);
    walk(statement.otherwise);
    close_scope();
  }

  void walk_routine(Routine& routine) {
    activations_.push_back({});
    open_scope();
    std::vector<uint32_t> slots;
    for (const String* name : routine.parameters) slots.push_back(declare(name->view()));
    routine.parameter_slots = {heap_.array<uint32_t>(slots.size()), slots.size()};
    std::copy(slots.begin(), slots.end(), routine.parameter_slots.data);
    collect(routine.body);
    // Three names that a macro's body may use without declaring them.
    const auto special = [&](std::string_view name) { return scope().slots.contains(name) ? -1 : static_cast<int>(declare(name)); };
    routine.caller_slot = special("caller");
    routine.varargs_slot = special("varargs");
    routine.kwargs_slot = special("kwargs");
    used_.erase(used_.lower_bound({activations_.size(), 0}), used_.end());
    for (Expression* value : routine.defaults) walk(value);
    walk(routine.body);
    routine.slots = activations_.back().slots;
    // Jinja2 takes surplus arguments only where the body uses them.
    if (!was_used(routine.caller_slot)) routine.caller_slot = -1;
    if (!was_used(routine.varargs_slot)) routine.varargs_slot = -1;
    if (!was_used(routine.kwargs_slot)) routine.kwargs_slot = -1;
    activations_.pop_back();
  }

  bool was_used(int slot) const {
    return slot >= 0 && used_.contains({activations_.size(), static_cast<uint32_t>(slot)});
  }

  void walk(Expression* expression) {
    if (!expression) return;
    if (expression->kind == ExpressionKind::name) return find_places(*expression);
    if ((expression->kind == ExpressionKind::filter || expression->kind == ExpressionKind::test) && expression->index < 0 && !scope().soft) {
      const char* what = expression->kind == ExpressionKind::filter ? "no filter named '" : "no test named '";
      syntax_error(expression->line, expression->column, what + std::string(expression->name->view()) + "'");
    }
    const bool before = scope().soft;
    if (expression->kind == ExpressionKind::conditional) scope().soft = true;
    for (Expression* part : {expression->a, expression->b, expression->c, expression->star, expression->star_star}) walk(part);
    for (Expression* part : expression->items) walk(part);
    for (const NamedExpression& part : expression->named) walk(part.value);
    scope().soft = before;
  }

  void find_places(Expression& name) {
    std::vector<Place> places;
    const std::string_view text = name.name->view();
    const bool special = text == "loop" || text == "caller" || text == "varargs" || text == "kwargs";
    for (size_t hops = 0; hops < activations_.size(); ++hops) {
      const Activation& activation = activations_[activations_.size() - 1 - hops];
      for (size_t i = activation.scopes.size(); i-- > 0;) {
        const auto found = activation.scopes[i].slots.find(name.name->view());
        if (found == activation.scopes[i].slots.end()) continue;
        places.push_back({static_cast<uint32_t>(hops), found->second});
        if (special) used_.emplace(activations_.size() - hops, found->second);
      }
    }
    name.places = {heap_.array<Place>(places.size()), places.size()};
    std::copy(places.begin(), places.end(), name.places.data);
    const auto [entry, fresh] = inputs_.emplace(name.name->view(), static_cast<int>(program_.inputs.size()));
    if (fresh) program_.inputs.push_back(name.name);
    name.input = entry->second;
  }

  Heap& heap_;
  Program program_;
  std::vector<Activation> activations_;
  std::map<std::string_view, int> inputs_;
  std::set<std::pair<size_t, uint32_t>> used_;  // `loop` and the special names of macros: depth of activation, slot
};

}  // namespace

Program resolve(Heap& heap, List<Statement*> body) { return Resolver(heap).run(body); }

}  // namespace vigil::text::jinja
