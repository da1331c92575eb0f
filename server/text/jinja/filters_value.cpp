// Filters that turn one value into another: numbers, JSON, defaults.
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "server/text/jinja/function_tables.hpp"
#include "server/text/jinja/input.hpp"
#include "server/text/jinja/operations.hpp"
#include "server/text/jinja/print.hpp"

namespace vigil::text::jinja {

namespace {

Value defaulted(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"default_value", "boolean"});
  const bool absent = input.is(Type::undefined) || (given.truth_or(1, "boolean", false) && !truth(input));
  if (!absent) return input;
  const Value* otherwise = given.find(0, "default_value");
  return otherwise ? *otherwise : Value::of(view_string(in.heap, "", Source::fixed));
}

// The text of a number as Python's int() and float() take it: white space around, underscores between digits.
bool number_text(Work& work, const String& text, std::string& out) {
  work.charge(text.size / 16);
  const Span span = strip(work, text, nullptr, Side::both);
  const std::string_view view = text.view().substr(span.begin, span.end - span.begin);
  if (view.empty() || view.size() > 400 || view.front() == '_' || view.back() == '_' || view.find("__") != std::string_view::npos) return false;
  for (const char c : view) {
    if (c != '_') out += c;
  }
  return true;
}

bool read_real(Work& work, const String& text, double& out) {
  std::string digits;
  if (!number_text(work, text, digits) || digits.find_first_of("xXpP()") != std::string::npos) return false;
  char* end = nullptr;
  out = std::strtod(digits.c_str(), &end);
  return end == digits.c_str() + digits.size();
}

bool read_integer(Work& work, const String& text, int base, int64_t& out) {
  std::string digits;
  if (!number_text(work, text, digits)) return false;
  char* end = nullptr;
  errno = 0;
  if (base == 2 && (digits.starts_with("0b") || digits.starts_with("0B"))) digits.erase(0, 2);
  if (base == 8 && (digits.starts_with("0o") || digits.starts_with("0O"))) digits.erase(0, 2);
  out = std::strtoll(digits.c_str(), &end, base);
  return errno == 0 && end == digits.c_str() + digits.size();
}

Value to_integer(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"default", "base"});
  const Value* otherwise = given.find(0, "default");
  const int64_t base = given.integer_or(1, "base", 10);
  if (base != 0 && (base < 2 || base > 36)) fail("int: the base must be 0 or 2 to 36");
  if (input.is(Type::undefined)) fail_undefined(input);
  int64_t out = 0;
  double real = 0;
  if (input.is_integral()) return Value::of(input.integral(), input.typed);
  if (input.is(Type::string) && read_integer(in.work, *input.string, static_cast<int>(base), out)) return Value::of(out, source_of(input) != Source::fixed);
  if (input.is(Type::real) || (input.is(Type::string) && read_real(in.work, *input.string, real))) {
    if (input.is(Type::real)) real = input.real;
    if (std::fabs(real) < 9.2e18) return Value::of(static_cast<int64_t>(real), source_of(input) != Source::fixed);
  }
  return otherwise ? *otherwise : Value::of(int64_t{0});
}

Value to_real(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"default"});
  if (input.is(Type::undefined)) fail_undefined(input);
  double out = 0;
  if (input.is_number()) return Value::of(input.number(), input.typed);
  if (input.is(Type::string) && read_real(in.work, *input.string, out)) return Value::of(out, source_of(input) != Source::fixed);
  const Value* otherwise = given.find(0, "default");
  return otherwise ? *otherwise : Value::of(0.0);
}

Value absolute(Interpreter&, const Value& input, const Arguments& given) {
  given.expect({});
  if (input.is(Type::undefined)) fail_undefined(input);
  if (!input.is_number()) fail("bad operand type for abs(): '" + type_name(input) + "'");
  const bool negative = input.is(Type::real) ? std::signbit(input.real) : input.integral() < 0;
  return negative ? negate(input, true) : negate(input, false);
}

Value rounded(Interpreter&, const Value& input, const Arguments& given) {
  given.expect({"precision", "method"});
  if (input.is(Type::undefined)) fail_undefined(input);
  if (!input.is_number()) fail("round takes a number, not " + type_name(input));
  const int64_t precision = given.integer_or(0, "precision", 0);
  const String* method = given.string_or_null(1, "method");
  const std::string_view how = method ? method->view() : std::string_view("common");
  if (precision < -300 || precision > 300) fail("round: the precision is out of range");
  const double value = input.number(), scale = std::pow(10.0, static_cast<double>(precision));
  if (how == "ceil") return Value::of(std::ceil(value * scale) / scale, input.typed);
  if (how == "floor") return Value::of(std::floor(value * scale) / scale, input.typed);
  if (how != "common") fail("method must be common, ceil or floor");
  if (input.is_integral()) return Value::of(precision >= 0 ? input.integral() : static_cast<int64_t>(std::nearbyint(value * scale) / scale), input.typed);
  if (precision < 0) return Value::of(std::nearbyint(value * scale) / scale, input.typed);
  char digits[700];  // exactly rounded in decimal, halves to even, as Python's round
  std::snprintf(digits, sizeof digits, "%.*f", static_cast<int>(precision), value);
  return Value::of(std::strtod(digits, nullptr), input.typed);
}

Value tojson(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = given.truth_or(0, "ensure_ascii", false);
  style.sort_keys = given.truth_or(3, "sort_keys", false);
  if (const Value* indent = given.find(1, "indent"); indent && !indent->is(Type::none)) {
    if (indent->is(Type::string)) {
      style.indent_text = indent->string;
    } else {
      style.indent = std::max<int64_t>(given.integer_or(1, "indent", 0), 0);
    }
  }
  if (const Value* separators = given.find(2, "separators"); separators && !separators->is(Type::none)) {
    const Items both = iterate(in, *separators);
    if (both.size != 2 || !both.data[0].is(Type::string) || !both.data[1].is(Type::string)) fail("tojson: separators must be two strings");
    style.item_separator = both.data[0].string;
    style.key_separator = both.data[1].string;
  }
  return Value::of(to_json(in, input, style));
}

Value from_json(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({});
  if (!input.is(Type::string)) fail("the JSON object must be str, not " + type_name(input));
  in.work.charge_bytes(input.string->size * 16);
  return value_of_json_text(in.heap, *input.string);
}

}  // namespace

Table<Filter> value_filters() {
  return {{"default", defaulted}, {"d", defaulted}, {"int", to_integer}, {"float", to_real}, {"abs", absolute}, {"round", rounded},
          {"tojson", tojson}, {"from_json", from_json}};
}

}  // namespace vigil::text::jinja
