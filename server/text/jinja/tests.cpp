// The tests of `x is …`.
#include <algorithm>

#include "server/text/jinja/function_tables.hpp"
#include "server/text/jinja/operations.hpp"
#include "server/text/jinja/print.hpp"
#include "server/text/jinja/text_tools.hpp"

namespace vigil::text::jinja {

namespace {

template <Type type>
bool is_type(Interpreter&, const Value& value, const Arguments& given) {
  given.expect({});
  return value.is(type);
}

bool is_defined(Interpreter&, const Value& value, const Arguments& given) {
  given.expect({});
  return !value.is(Type::undefined);
}

bool is_number(Interpreter&, const Value& value, const Arguments& given) {
  given.expect({});
  return value.is_number();
}

template <bool wanted>
bool is_truth(Interpreter&, const Value& value, const Arguments& given) {
  given.expect({});
  return value.is(Type::boolean) && value.boolean == wanted;
}

bool is_iterable(Interpreter&, const Value& value, const Arguments& given) {
  given.expect({});
  return value.is(Type::undefined) || value.is(Type::string) || value.is(Type::sequence) || value.is(Type::dict) || value.is(Type::loop);
}

// What has a length and elements; Python asks for __getitem__.
bool is_sequence(Interpreter&, const Value& value, const Arguments& given) {
  given.expect({});
  if (value.is(Type::sequence)) return value.sequence->flavor <= Sequence::Flavor::range;
  return value.is(Type::undefined) || value.is(Type::string) || value.is(Type::dict);
}

bool is_callable(Interpreter&, const Value& value, const Arguments& given) {
  given.expect({});
  return value.is(Type::function) || value.is(Type::method) || value.is(Type::macro) || value.is(Type::loop) || value.is(Type::joiner) ||
         value.is(Type::undefined);
}

template <Operator operation>
bool is_compared(Interpreter& in, const Value& value, const Arguments& given) {
  given.expect({"other"}, 1);
  return compare(in, operation, value, *given.find(0, "other"));
}

bool is_same(Interpreter& in, const Value& value, const Arguments& given) {
  given.expect({"other"}, 1);
  const Value& other = *given.find(0, "other");
  if (value.type != other.type) return false;
  if (value.is(Type::none)) return true;
  if (value.is(Type::boolean)) return value.boolean == other.boolean;
  if (value.is(Type::string)) return equal(in.work, value, other);
  return value.integer == other.integer;
}

int64_t whole(const Value& value) {
  if (value.is(Type::undefined)) fail_undefined(value);
  if (!value.is_integral()) fail("an integer is required, not " + type_name(value));
  return value.integral();
}

template <int rest>
bool is_parity(Interpreter&, const Value& value, const Arguments& given) {
  given.expect({});
  return (whole(value) & 1) == rest;
}

bool is_divisible(Interpreter&, const Value& value, const Arguments& given) {
  given.expect({"num"}, 1);
  const int64_t by = whole(*given.find(0, "num"));
  if (by == 0) fail("integer modulo by zero");
  return by == -1 || whole(value) % by == 0;
}

template <Case to>
bool is_case(Interpreter& in, const Value& value, const Arguments& given) {
  given.expect({});
  const String* text = to_text(in, value);
  const int method = method_number(to == Case::lower ? "islower" : "isupper");
  return method_of(Value::of(text), method)(in, Value::of(text), given).boolean;
}

bool is_escaped(Interpreter&, const Value& value, const Arguments& given) {
  given.expect({});
  return value.is(Type::string) && value.string->markup;
}

template <bool filters>
bool is_known(Interpreter&, const Value& value, const Arguments& given) {
  given.expect({});
  return value.is(Type::string) && (filters ? filter_number(value.string->view()) : test_number(value.string->view())) >= 0;
}

}  // namespace

Table<Test> value_tests() {
  return {{"defined", is_defined}, {"undefined", is_type<Type::undefined>}, {"none", is_type<Type::none>}, {"string", is_type<Type::string>},
          {"number", is_number}, {"integer", is_type<Type::integer>}, {"float", is_type<Type::real>}, {"boolean", is_type<Type::boolean>},
          {"true", is_truth<true>}, {"false", is_truth<false>}, {"mapping", is_type<Type::dict>}, {"iterable", is_iterable}, {"sequence", is_sequence},
          {"callable", is_callable}, {"sameas", is_same}, {"odd", is_parity<1>}, {"even", is_parity<0>}, {"divisibleby", is_divisible},
          {"lower", is_case<Case::lower>}, {"upper", is_case<Case::upper>}, {"escaped", is_escaped}, {"filter", is_known<true>}, {"test", is_known<false>},
          {"in", is_compared<Operator::in>},
          {"eq", is_compared<Operator::equal>}, {"equalto", is_compared<Operator::equal>}, {"==", is_compared<Operator::equal>},
          {"ne", is_compared<Operator::unequal>}, {"!=", is_compared<Operator::unequal>},
          {"lt", is_compared<Operator::less>}, {"lessthan", is_compared<Operator::less>}, {"<", is_compared<Operator::less>},
          {"le", is_compared<Operator::less_equal>}, {"<=", is_compared<Operator::less_equal>},
          {"gt", is_compared<Operator::greater>}, {"greaterthan", is_compared<Operator::greater>}, {">", is_compared<Operator::greater>},
          {"ge", is_compared<Operator::greater_equal>}, {">=", is_compared<Operator::greater_equal>}};
}

}  // namespace vigil::text::jinja
