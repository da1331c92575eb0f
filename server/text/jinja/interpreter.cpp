// Expressions. See interpreter.hpp.
#include "server/text/jinja/interpreter.hpp"

#include <algorithm>

#include "server/text/jinja/operations.hpp"
#include "server/text/jinja/print.hpp"

namespace vigil::text::jinja {

using ExpressionKind = Expression::Kind;

// Counts evaluations inside each other; the machine's stack is bounded by it.
class Interpreter::Deeper {
 public:
  explicit Deeper(size_t& depth) : depth_(depth) {
    if (++depth_ > max_call_depth) {
      --depth_;
      fail("the template calls itself too deep (max_call_depth)");
    }
  }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;

 private:
  size_t& depth_;
};

Value Interpreter::evaluate(const Expression& expression) {
  work.charge(1);
  switch (expression.kind) {
    case ExpressionKind::constant: return expression.value;
    case ExpressionKind::name: return evaluate_name(expression);
    case ExpressionKind::piped: return piped_;
    default: break;
  }
  const Deeper deeper(depth_);
  switch (expression.kind) {
    case ExpressionKind::attribute: return attribute(*this, evaluate(*expression.a), *expression.name, expression.hash, expression.index);
    case ExpressionKind::item: {
      const Value of = evaluate(*expression.a);
      return item(*this, of, evaluate(*expression.b));
    }
    case ExpressionKind::logical_not: return Value::of(!truth(evaluate(*expression.a)));
    case ExpressionKind::logical_and: {
      const Value left = evaluate(*expression.a);
      return truth(left) ? evaluate(*expression.b) : left;
    }
    case ExpressionKind::logical_or: {
      const Value left = evaluate(*expression.a);
      return truth(left) ? left : evaluate(*expression.b);
    }
    case ExpressionKind::binary: {
      const Value left = evaluate(*expression.a), right = evaluate(*expression.b);
      if (expression.operation >= Operator::equal) return Value::of(compare(*this, expression.operation, left, right));
      return operate(*this, expression.operation, left, right);
    }
    case ExpressionKind::conditional:
      if (truth(evaluate(*expression.b))) return evaluate(*expression.a);
      return expression.c ? evaluate(*expression.c) : Value::undefined();
    case ExpressionKind::negate: return negate(evaluate(*expression.a), true);
    case ExpressionKind::plus: return negate(evaluate(*expression.a), false);
    case ExpressionKind::slice: return evaluate_slice(expression);
    case ExpressionKind::call: return evaluate_call(expression);
    case ExpressionKind::filter: return evaluate_filter(expression);
    case ExpressionKind::test: return evaluate_test(expression);
    case ExpressionKind::compare: return evaluate_compare(expression);
    case ExpressionKind::concat: return evaluate_concat(expression);
    default: return evaluate_collection(expression);
  }
}

Value Interpreter::evaluate_name(const Expression& expression) {
  work.charge(expression.places.size / 16);
  Frame* frame = frame_;
  uint32_t hops = 0;
  for (const Place& place : expression.places) {
    for (; hops < place.hops; ++hops) frame = frame->around;
    const Value& value = frame->slots[place.slot];
    if (!is_unset(value)) return value;
  }
  const Value& input = (*inputs_)[static_cast<size_t>(expression.input)];
  return is_unset(input) ? Value::undefined(expression.name) : input;
}

Value Interpreter::evaluate_collection(const Expression& expression) {
  if (expression.kind == ExpressionKind::dict) {
    Dict* dict = heap.make<Dict>();
    for (size_t i = 0; i < expression.items.size; i += 2) {
      const Value key = evaluate(*expression.items[i]);
      put(work, heap, *dict, key, evaluate(*expression.items[i + 1]));
    }
    return Value::of(dict);
  }
  const bool tuple = expression.kind == ExpressionKind::tuple;
  Sequence* out = new_sequence(heap, expression.items.size, tuple ? Sequence::Flavor::tuple : Sequence::Flavor::list);
  for (const Expression* part : expression.items) append(heap, *out, evaluate(*part));
  return Value::of(out);
}

Value Interpreter::evaluate_slice(const Expression& expression) {
  const Value of = evaluate(*expression.a);
  Value bounds[3] = {Value::none(), Value::none(), Value::none()};
  for (size_t i = 0; i < 3; ++i) {
    if (expression.items[i]) bounds[i] = evaluate(*expression.items[i]);
  }
  return slice_value(*this, of, bounds[0], bounds[1], bounds[2]);
}

Value Interpreter::evaluate_compare(const Expression& expression) {
  Value left = evaluate(*expression.a);
  for (size_t i = 0; i < expression.items.size; ++i) {
    const Value right = evaluate(*expression.items[i]);
    if (!compare(*this, expression.operations[i], left, right)) return Value::of(false);
    left = right;
  }
  return Value::of(true);
}

Value Interpreter::evaluate_concat(const Expression& expression) {
  const String* out = to_text(*this, evaluate(*expression.items[0]));
  for (size_t i = 1; i < expression.items.size; ++i) {
    const String* next = to_text(*this, evaluate(*expression.items[i]));
    work.charge_bytes(next->size);
    out = concat(heap, *out, *next);
  }
  return Value::of(out);
}

void Interpreter::evaluate_arguments(const Expression& expression, Given& given, const Value* caller) {
  if (expression.items.size > few_arguments) given.positional = heap.array<Value>(expression.items.size);
  for (const Expression* part : expression.items) new (&given.positional[given.count++]) Value(evaluate(*part));
  const size_t named = expression.named.size + (caller ? 1 : 0);
  if (named > 0) given.named = heap.array<Named>(named);
  for (const NamedExpression& part : expression.named) new (&given.named[given.named_count++]) Named{part.name, evaluate(*part.value)};
  if (caller) new (&given.named[given.named_count++]) Named{view_string(heap, "caller", Source::fixed), *caller};
  if (expression.star || expression.star_star) add_star_arguments(expression, given);
}

// f(*list, **dict)
void Interpreter::add_star_arguments(const Expression& expression, Given& given) {
  if (expression.star) {
    const Items more = iterate(*this, evaluate(*expression.star));
    Value* all = heap.array<Value>(given.count + more.size);
    std::copy(given.positional, given.positional + given.count, all);
    std::copy(more.begin(), more.end(), all + given.count);
    given.positional = all;
    given.count += more.size;
  }
  if (!expression.star_star) return;
  const Value more = evaluate(*expression.star_star);
  if (!more.is(Type::dict)) fail("the argument behind ** must be a mapping, not " + type_name(more));
  Named* all = heap.array<Named>(given.named_count + more.dict->size);
  std::copy(given.named, given.named + given.named_count, all);
  for (size_t i = 0; i < more.dict->size; ++i) {
    const Dict::Entry& entry = more.dict->entries[i];
    if (!entry.key.is(Type::string)) fail("keywords must be strings");
    new (&all[given.named_count++]) Named{entry.key.string, entry.value};
  }
  given.named = all;
}

Value Interpreter::evaluate_call(const Expression& expression) {
  const Expression& what = *expression.a;
  Value self, callee;
  Method method = nullptr;
  if (what.kind == ExpressionKind::attribute) {
    self = evaluate(*what.a);
    if (what.index >= 0) method = method_of(self, what.index);
    if (!method) callee = attribute(*this, self, *what.name, what.hash, what.index);
  } else {
    callee = evaluate(what);
  }
  Given given;
  evaluate_arguments(expression, given, nullptr);
  const std::string_view name = what.name ? what.name->view() : std::string_view("call");
  const Arguments arguments(name, given.positional, given.count, given.named, given.named_count);
  return method ? method(*this, self, arguments) : call(callee, arguments);
}

Value Interpreter::evaluate_filter(const Expression& expression) {
  const Value input = evaluate(*expression.a);
  Given given;
  evaluate_arguments(expression, given, nullptr);
  return filter(expression.index, expression.name->view(), input, {expression.name->view(), given.positional, given.count, given.named, given.named_count});
}

Value Interpreter::evaluate_test(const Expression& expression) {
  const Value input = evaluate(*expression.a);
  Given given;
  evaluate_arguments(expression, given, nullptr);
  return Value::of(test(expression.index, expression.name->view(), input,
                        {expression.name->view(), given.positional, given.count, given.named, given.named_count}));
}

Value Interpreter::filter(int number, std::string_view name, const Value& input, const Arguments& arguments) {
  if (number < 0) fail("no filter named '" + std::string(name) + "'");
  return filter_at(number).function(*this, input, arguments);
}

bool Interpreter::test(int number, std::string_view name, const Value& input, const Arguments& arguments) {
  if (number < 0) fail("no test named '" + std::string(name) + "'");
  return test_at(number).function(*this, input, arguments);
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  work.charge(1);
  switch (callee.type) {
    case Type::function: return global_at(callee.function).function(*this, arguments);
    case Type::method: return method_of(callee.method->self, callee.method->number)(*this, callee.method->self, arguments);
    case Type::macro: {
      const Deeper deeper(depth_);
      return call_macro(*callee.macro, arguments);
    }
    case Type::loop: {
      const Deeper deeper(depth_);
      return call_loop(*callee.loop, arguments);
    }
    case Type::joiner: {
      const bool first = std::exchange(callee.cycler->at, 1) == 0;
      return first ? Value::of(view_string(heap, "", Source::fixed)) : callee.cycler->items->items[0];
    }
    case Type::undefined: fail_undefined(callee);
    default: fail("'" + type_name(callee) + "' object is not callable");
  }
}

}  // namespace vigil::text::jinja
