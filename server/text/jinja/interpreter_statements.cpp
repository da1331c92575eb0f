// Statements, macros and loops. See interpreter.hpp.
#include <algorithm>
#include <utility>

#include "server/text/jinja/interpreter.hpp"
#include "server/text/jinja/operations.hpp"
#include "server/text/jinja/print.hpp"

namespace vigil::text::jinja {

using StatementKind = Statement::Kind;

namespace {

constexpr size_t slots_a_step = 8;

Frame* new_frame(Heap& heap, uint32_t slots, Frame* around) {
  Frame* out = heap.make<Frame>();
  out->slots = heap.array<Value>(slots);
  out->around = around;
  std::fill(out->slots, out->slots + slots, unset());
  return out;
}

}  // namespace

void Interpreter::run(const std::vector<Value>& inputs) {
  inputs_ = &inputs;
  frame_ = new_frame(heap, program_.slots, nullptr);
  execute(program_.body);
}

Interpreter::Flow Interpreter::execute(List<Statement*> body) {
  for (const Statement* statement : body) {
    const Flow flow = execute(*statement);
    if (flow != Flow::on) return flow;
  }
  return Flow::on;
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
  work.charge(1);
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::text: print(statement.value); return Flow::on;
    case StatementKind::print: print(evaluate(*statement.a)); return Flow::on;
    case StatementKind::branches:
      for (const Branch& branch : statement.branches) {
        if (!branch.condition || truth(evaluate(*branch.condition))) return execute(branch.body);
      }
      return Flow::on;
    case StatementKind::loop: return execute_loop(statement, evaluate(*statement.a), 0);
    case StatementKind::set: assign(statement.target, evaluate(*statement.a)); return Flow::on;
    case StatementKind::set_block: execute_set_block(statement); return Flow::on;
    case StatementKind::filter_block: {
      clear(statement.scope);
      piped_ = Value::of(captured(statement.body));
      print(evaluate(*statement.a));
      return Flow::on;
    }
    case StatementKind::with: return execute_with(statement);
    case StatementKind::scoped:
      clear(statement.scope);
      return execute(statement.body);
    case StatementKind::macro: {
      Value macro = Value::with(Type::macro);
      macro.macro = heap.make<Macro>(statement.routine, frame_);
      assign(statement.target, macro);
      return Flow::on;
    }
    case StatementKind::call_block: {
      Value caller = Value::with(Type::macro);
      caller.macro = heap.make<Macro>(statement.routine, frame_);
      Given given;
      const Value callee = evaluate(*statement.a->a);
      evaluate_arguments(*statement.a, given, &caller);
      print(call(callee, {"call", given.positional, given.count, given.named, given.named_count}));
      return Flow::on;
    }
    case StatementKind::stop_loop: return Flow::stop_loop;
    case StatementKind::next_loop: return Flow::next_loop;
  }
  return Flow::on;
}

void Interpreter::print(const Value& value) {
  const String* text = value.is(Type::string) ? value.string : to_text(*this, value);
  if (writing_->size() + text->size > max_output_bytes) fail("the prompt is longer than " + std::to_string(max_output_bytes >> 20) + " MiB (max_output_bytes)");
  work.charge(text->size / 256);
  writing_->append(*text);
}

const String* Interpreter::captured(List<Statement*> body) {
  Builder inner(heap);
  Builder* outer = std::exchange(writing_, &inner);
  execute(body);  // a failure ends the rendering: nobody writes afterwards
  writing_ = outer;
  return inner.finish();
}

void Interpreter::clear(const Scope& scope) {
  work.charge((scope.own_end - scope.begin) / slots_a_step);
  std::fill(frame_->slots + scope.begin, frame_->slots + scope.own_end, unset());
}

void Interpreter::execute_set_block(const Statement& statement) {
  clear(statement.scope);
  Value value = Value::of(captured(statement.body));
  if (statement.a) {
    piped_ = value;
    value = evaluate(*statement.a);
  }
  assign(statement.target, value);
}

Interpreter::Flow Interpreter::execute_with(const Statement& statement) {
  std::vector<Value> values;
  for (const Expression* value : statement.values) values.push_back(evaluate(*value));
  clear(statement.scope);
  for (size_t i = 0; i < values.size(); ++i) assign(statement.targets[i], values[i]);
  return execute(statement.body);
}

void Interpreter::assign(const Target& target, const Value& value) {
  switch (target.kind) {
    case Target::Kind::name: frame_->slots[target.slot] = value; return;
    case Target::Kind::attribute: {
      const Value object = evaluate(*target.object);
      if (!object.is(Type::space)) fail("cannot assign attribute on non-namespace object");
      put(work, heap, *object.dict, Value::of(target.name), value);
      return;
    }
    case Target::Kind::tuple: {
      const Items items = iterate(*this, value);
      if (items.size != target.parts.size) {
        fail(std::string(items.size < target.parts.size ? "not enough" : "too many") + " values to unpack (expected " + std::to_string(target.parts.size) + ")");
      }
      for (size_t i = 0; i < items.size; ++i) assign(target.parts[i], items.data[i]);
    }
  }
}

// The elements that the loop's `if` lets through.
const Value* Interpreter::filtered(const Statement& statement, const Value* items, size_t& size) {
  Sequence* out = new_sequence(heap, 0);
  for (size_t i = 0; i < size; ++i) {
    work.charge(1);
    clear(statement.scope);
    assign(statement.target, items[i]);
    if (truth(evaluate(*statement.b))) append(heap, *out, items[i]);
  }
  size = out->size;
  return out->items;
}

Interpreter::Flow Interpreter::execute_loop(const Statement& statement, const Value& what, int64_t depth) {
  const Items all = iterate(*this, what);
  const Value* items = all.data;
  size_t size = all.size;
  if (statement.b) items = filtered(statement, items, size);
  if (size == 0) return execute(statement.otherwise);
  Value object;
  if (statement.uses_loop) {
    object = Value::with(Type::loop);
    object.loop = heap.make<Loop>(&statement, frame_, items, size, size_t{0}, depth, Value());
  }
  for (size_t i = 0; i < size; ++i) {
    work.charge(1);
    clear(statement.scope);
    if (statement.uses_loop) {
      object.loop->index = i;
      frame_->slots[statement.loop_slot] = object;
    }
    assign(statement.target, items[i]);
    if (execute(statement.body) == Flow::stop_loop) break;
  }
  return Flow::on;
}

// loop(…) inside a recursive loop: the same body over other elements, as a text.
Value Interpreter::call_loop(Loop& loop, const Arguments& arguments) {
  const Statement& statement = *loop.statement;
  if (!statement.recursive) fail("the loop must have the 'recursive' marker to be called");
  arguments.expect({"iterable"}, 1);
  Frame* before = std::exchange(frame_, loop.frame);
  Builder inner(heap);
  Builder* outer = std::exchange(writing_, &inner);
  work.charge((statement.scope.end - statement.scope.begin) / slots_a_step);
  const std::vector<Value> kept(frame_->slots + statement.scope.begin, frame_->slots + statement.scope.end);
  const size_t index = loop.index;
  execute_loop(statement, *arguments.find(0, "iterable"), loop.depth + 1);
  loop.index = index;
  std::copy(kept.begin(), kept.end(), frame_->slots + statement.scope.begin);
  writing_ = outer;
  frame_ = before;
  return Value::of(inner.finish());
}

Value Interpreter::call_macro(const Macro& macro, const Arguments& arguments) {
  const Routine& routine = *macro.routine;
  work.charge(routine.slots / slots_a_step);
  Frame* before = std::exchange(frame_, new_frame(heap, routine.slots, macro.frame));
  const uint32_t line = line_;
  bind_parameters(routine, arguments);
  const String* out = captured(routine.body);
  frame_ = before;
  line_ = line;
  return Value::of(out);
}

void Interpreter::bind_parameters(const Routine& routine, const Arguments& arguments) {
  const size_t parameters = routine.parameters.size;
  Value* slots = frame_->slots;
  const size_t given = std::min(parameters, arguments.count());
  for (size_t i = 0; i < given; ++i) slots[routine.parameter_slots[i]] = arguments.at(i);
  const std::string name = "macro '" + std::string(routine.name->view()) + "'";
  Dict* surplus = routine.kwargs_slot >= 0 ? heap.make<Dict>() : nullptr;
  for (size_t i = 0; i < arguments.named_count(); ++i) {
    const Named& named = arguments.named(i);
    size_t at = 0;
    while (at < parameters && routine.parameters[at]->view() != named.name->view()) ++at;
    work.charge(at / 4 + named.name->size / 64);
    if (at < parameters) {
      if (at < given) fail(name + " got multiple values for argument '" + std::string(named.name->view()) + "'");
      slots[routine.parameter_slots[at]] = named.value;
    } else if (named.name->view() == "caller" && routine.caller_slot >= 0) {
      slots[routine.caller_slot] = named.value;
    } else if (surplus) {
      put(work, heap, *surplus, Value::of(named.name), named.value);
    } else {
      fail(name + " takes no keyword argument '" + std::string(named.name->view()) + "'");
    }
  }
  if (routine.varargs_slot >= 0) {
    const size_t more = arguments.count() - given;
    slots[routine.varargs_slot] = list_of(*this, {more > 0 ? &arguments.at(given) : nullptr, more}, Sequence::Flavor::tuple);
  } else if (arguments.count() > parameters) {
    fail(name + " takes not more than " + std::to_string(parameters) + " argument(s)");
  }
  if (surplus) slots[routine.kwargs_slot] = Value::of(surplus);
  if (routine.caller_slot >= 0 && is_unset(slots[routine.caller_slot])) slots[routine.caller_slot] = Value::undefined(view_string(heap, "caller", Source::fixed));
  for (size_t i = 0; i < parameters; ++i) {
    Value& slot = slots[routine.parameter_slots[i]];
    if (!is_unset(slot)) continue;
    const size_t first = parameters - routine.defaults.size;
    if (i < first) {
      slot = Value::undefined(routine.parameters[i]);
    } else {
      const Value value = evaluate(*routine.defaults[i - first]);
      slot = value;
    }
  }
}

}  // namespace vigil::text::jinja
