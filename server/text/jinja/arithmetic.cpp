// Python's operators. See operations.hpp.
#include <cmath>
#include <limits>

#include "server/text/jinja/operations.hpp"
#include "server/text/jinja/print.hpp"

namespace vigil::text::jinja {

namespace {

[[noreturn]] void unsupported(const char* symbol, const Value& left, const Value& right) {
  if (left.is(Type::undefined)) fail_undefined(left);
  if (right.is(Type::undefined)) fail_undefined(right);
  fail(std::string("unsupported operand type(s) for ") + symbol + ": '" + type_name(left) + "' and '" + type_name(right) + "'");
}

[[noreturn]] void too_large() { fail("a number is larger than 64 bits"); }

bool both_integral(const Value& left, const Value& right) { return left.is_integral() && right.is_integral(); }

Value repeat(Interpreter& in, const Value& what, int64_t times) {
  if (times < 0) times = 0;
  const size_t size = what.is(Type::string) ? what.string->size : what.sequence->size;
  const size_t element = what.is(Type::string) ? 1 : sizeof(Value);
  if (size > 0 && static_cast<size_t>(times) > max_heap_bytes / element / size) fail("the template needs too much memory (max_heap_bytes)");
  in.work.charge_bytes(size * static_cast<size_t>(times));
  if (size == 0) times = 0;
  if (what.is(Type::string)) {
    Builder out(in.heap);
    for (int64_t i = 0; i < times; ++i) out.append(*what.string);
    in.work.charge(static_cast<uint64_t>(times));
    return Value::of(with_markup(in.heap, *out.finish(), what.string->markup));
  }
  Sequence* out = new_sequence(in.heap, size * static_cast<size_t>(times), what.sequence->flavor);
  for (int64_t i = 0; i < times; ++i) {
    for (size_t k = 0; k < size; ++k) append(in.heap, *out, what.sequence->items[k]);
  }
  return Value::of(out);
}

bool can_repeat(const Value& value) { return value.is(Type::string) || (value.is(Type::sequence) && value.sequence->flavor <= Sequence::Flavor::tuple); }

Value add(Interpreter& in, const Value& left, const Value& right, bool typed) {
  if (left.is(Type::string) && right.is(Type::string)) {
    in.work.charge(right.string->size / 64);
    return Value::of(plus(in, *left.string, *right.string));
  }
  if (both_integral(left, right)) {
    int64_t out = 0;
    if (__builtin_add_overflow(left.integral(), right.integral(), &out)) too_large();
    return Value::of(out, typed);
  }
  if (left.is_number() && right.is_number()) return Value::of(left.number() + right.number(), typed);
  if (left.is(Type::sequence) && right.is(Type::sequence) && left.sequence->flavor == right.sequence->flavor &&
      left.sequence->flavor <= Sequence::Flavor::tuple) {
    const Sequence &a = *left.sequence, &b = *right.sequence;
    Sequence* out = new_sequence(in.heap, a.size + b.size, a.flavor);
    for (size_t i = 0; i < a.size; ++i) append(in.heap, *out, a.items[i]);
    for (size_t i = 0; i < b.size; ++i) append(in.heap, *out, b.items[i]);
    in.work.charge(out->size / 8);
    out->typed = a.typed && b.typed;
    return Value::of(out);
  }
  if (left.is(Type::string) && !right.is(Type::undefined)) fail("can only concatenate str (not \"" + type_name(right) + "\") to str");
  unsupported("+", left, right);
}

Value multiply(Interpreter& in, const Value& left, const Value& right, bool typed) {
  if (both_integral(left, right)) {
    int64_t out = 0;
    if (__builtin_mul_overflow(left.integral(), right.integral(), &out)) too_large();
    return Value::of(out, typed);
  }
  if (left.is_number() && right.is_number()) return Value::of(left.number() * right.number(), typed);
  if (can_repeat(left) && right.is_integral()) return repeat(in, left, right.integral());
  if (can_repeat(right) && left.is_integral()) return repeat(in, right, left.integral());
  unsupported("*", left, right);
}

double floored_remainder(double a, double b) {
  const double out = std::fmod(a, b);
  return out != 0 && (out < 0) != (b < 0) ? out + b : out;
}

Value divide(Operator operation, const Value& left, const Value& right, bool typed) {
  const char* symbol = operation == Operator::divide ? "/" : operation == Operator::floor_divide ? "//" : "%";
  if (!left.is_number() || !right.is_number()) unsupported(symbol, left, right);
  if (right.number() == 0) fail("division by zero");
  if (operation == Operator::divide) return Value::of(left.number() / right.number(), typed);
  if (!both_integral(left, right)) {
    const double remainder = floored_remainder(left.number(), right.number());
    return Value::of(operation == Operator::modulo ? remainder : std::floor((left.number() - remainder) / right.number() + 0.5), typed);
  }
  const int64_t a = left.integral(), b = right.integral();
  if (b == -1) {  // the smallest number has no opposite
    if (operation == Operator::modulo) return Value::of(int64_t{0}, typed);
    if (a == std::numeric_limits<int64_t>::min()) too_large();
    return Value::of(-a, typed);
  }
  int64_t quotient = a / b, remainder = a % b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    --quotient;
    remainder += b;
  }
  return Value::of(operation == Operator::modulo ? remainder : quotient, typed);
}

Value power(const Value& left, const Value& right, bool typed) {
  if (!left.is_number() || !right.is_number()) unsupported("**", left, right);
  if (!both_integral(left, right) || right.integral() < 0) {
    if (left.number() == 0 && right.number() < 0) fail("0.0 cannot be raised to a negative power");
    return Value::of(std::pow(left.number(), right.number()), typed);
  }
  int64_t base = left.integral(), out = 1;
  for (int64_t exponent = right.integral(); exponent > 0; exponent >>= 1) {
    if ((exponent & 1) && __builtin_mul_overflow(out, base, &out)) too_large();
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) too_large();
  }
  return Value::of(out, typed);
}

}  // namespace

const String* plus(Interpreter& in, const String& left, const String& right) {
  if (!left.markup && !right.markup) return concat(in.heap, left, right);
  return with_markup(in.heap, *concat(in.heap, *escape_markup(in.heap, left), *escape_markup(in.heap, right)), true);
}

Value operate(Interpreter& in, Operator operation, const Value& left, const Value& right) {
  const bool typed = (left.is_number() && left.typed) || (right.is_number() && right.typed);
  switch (operation) {
    case Operator::add: return add(in, left, right, typed);
    case Operator::subtract: {
      if (!left.is_number() || !right.is_number()) unsupported("-", left, right);
      if (!both_integral(left, right)) return Value::of(left.number() - right.number(), typed);
      int64_t out = 0;
      if (__builtin_sub_overflow(left.integral(), right.integral(), &out)) too_large();
      return Value::of(out, typed);
    }
    case Operator::multiply: return multiply(in, left, right, typed);
    case Operator::modulo:
      if (left.is(Type::string)) return Value::of(format_percent(in, *left.string, right));
      [[fallthrough]];
    case Operator::divide:
    case Operator::floor_divide: return divide(operation, left, right, typed);
    case Operator::power: return power(left, right, typed);
    default: return Value::of(compare(in, operation, left, right));
  }
}

bool compare(Interpreter& in, Operator operation, const Value& left, const Value& right) {
  switch (operation) {
    case Operator::equal: return equal(in, left, right);
    case Operator::unequal: return !equal(in, left, right);
    case Operator::in: return contains(in, right, left);
    case Operator::not_in: return !contains(in, right, left);
    default: break;
  }
  if (left.is(Type::undefined)) fail_undefined(left);
  if (right.is(Type::undefined)) fail_undefined(right);
  const int order = compare(in.work, left, right);
  switch (operation) {
    case Operator::less: return order == -1;
    case Operator::less_equal: return order == -1 || order == 0;
    case Operator::greater: return order == 1;
    default: return order == 1 || order == 0;
  }
}

Value negate(const Value& value, bool minus) {
  if (value.is(Type::undefined)) fail_undefined(value);
  if (!value.is_number()) fail(std::string("bad operand type for unary ") + (minus ? "-" : "+") + ": '" + type_name(value) + "'");
  if (value.is(Type::real)) return Value::of(minus ? -value.real : value.real, value.typed);
  if (minus && value.integral() == std::numeric_limits<int64_t>::min()) too_large();
  return Value::of(minus ? -value.integral() : value.integral(), value.typed);
}

}  // namespace vigil::text::jinja
