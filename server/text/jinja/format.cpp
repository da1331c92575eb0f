// See format.hpp. Widths and precisions are capped; conversions that no template uses are refused by name.
#include "server/text/jinja/format.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "server/text/jinja/operations.hpp"
#include "server/text/jinja/print.hpp"
#include "server/text/jinja/text_tools.hpp"

namespace vigil::text::jinja {

namespace {

constexpr int64_t max_width = 4096, max_precision = 100;

struct Style {
  char align = '\0', sign = '\0', kind = '\0';
  const String* fill = nullptr;
  bool zero = false, alternate = false, grouped = false;
  int64_t width = 0, precision = -1;
};

int64_t number_in(std::string_view text, size_t& at, int64_t cap) {
  int64_t out = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    out = out * 10 + (text[at] - '0');
    if (out > cap) fail("a width or precision in a format is larger than " + std::to_string(cap));
  }
  return out;
}

std::string group(std::string digits) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (size_t at = whole; at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string real_digits(double value, char kind, int64_t precision) {
  char buffer[512];
  const char format[] = {'%', '.', '*', kind, '\0'};
  const int size = std::snprintf(buffer, sizeof buffer, format, static_cast<int>(precision < 0 ? 6 : precision), value);
  return {buffer, static_cast<size_t>(std::clamp(size, 0, static_cast<int>(sizeof buffer) - 1))};
}

std::string integer_digits(uint64_t value, int base, bool capital) {
  char buffer[70];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, base);
  std::string out(buffer, end.ptr);
  if (capital) std::transform(out.begin(), out.end(), out.begin(), [](char c) { return c >= 'a' && c <= 'f' ? static_cast<char>(c - 32) : c; });
  return out;
}

// A number by its style: the sign apart from the digits.
const String* number_text(Interpreter& in, const Value& value, const Style& style) {
  std::string digits, sign;
  const bool negative = value.number() < 0 || (value.is(Type::real) && std::signbit(value.real));
  const char kind = style.kind;
  const auto magnitude = [&value] {
    const int64_t number = value.is(Type::real) ? 0 : value.integral();
    return number < 0 ? uint64_t{0} - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  };
  if (std::string_view("feEgGF%").find(kind) != std::string_view::npos && kind != '\0') {
    digits = real_digits(std::fabs(value.number()) * (kind == '%' ? 100 : 1), kind == '%' ? 'f' : kind, style.precision);
    if (kind == '%') digits += '%';
  } else if (kind == 'x' || kind == 'X' || kind == 'o' || kind == 'b') {
    if (value.is(Type::real)) fail(std::string("format '") + kind + "' takes an integer");
    digits = integer_digits(magnitude(), kind == 'o' ? 8 : kind == 'b' ? 2 : 16, kind == 'X');
    if (style.alternate) digits = std::string("0") + kind + digits;
  } else if (value.is(Type::real) && kind != 'd') {
    digits = style.precision >= 0 ? real_digits(std::fabs(value.real), 'g', style.precision) : real_text(std::fabs(value.real));
  } else if (value.is(Type::real)) {
    fail("format 'd' takes an integer");
  } else {
    digits = integer_digits(magnitude(), 10, false);
  }
  if (style.grouped) digits = group(digits);
  sign = negative ? "-" : style.sign == '+' || style.sign == ' ' ? std::string(1, style.sign) : "";
  const int64_t missing = style.width - static_cast<int64_t>(digits.size() + sign.size());
  if ((style.zero || style.align == '=') && missing > 0) digits.insert(0, static_cast<size_t>(missing), style.fill ? style.fill->data[0] : '0');
  return copy_string(in.heap, sign + digits, source_of(value));
}

const String* styled(Interpreter& in, const Value& value, const Style& style) {
  const bool number = value.is_number() && !(value.is(Type::boolean) && style.kind == '\0');
  const String* out = nullptr;
  if (number && style.kind != 's') {
    out = number_text(in, value, style);
  } else {
    if (style.kind != '\0' && style.kind != 's') fail(std::string("unknown format code '") + style.kind + "' for '" + type_name(value) + "'");
    out = to_text(in, value);
    if (style.precision >= 0) out = slice(in.heap, *out, 0, byte_of(*out, static_cast<size_t>(style.precision)));
  }
  const char align = style.align != '\0' ? style.align : number ? '>' : '<';
  if (align == '^') {  // unlike center(), the odd blank goes to the right
    const int64_t size = static_cast<int64_t>(characters(*out));
    out = pad(in, *out, size + (style.width - size) / 2, style.fill, Side::left);
  }
  return pad(in, *out, style.width, style.fill, align == '<' || align == '^' ? Side::right : Side::left);
}

// [[fill]align][sign][#][0][width][,][.precision][type]
Style read_style(Interpreter& in, const String& spec) {
  Style out;
  const std::string_view text = spec.view();
  size_t at = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const size_t first = text.empty() ? 0 : character_bytes(text, 0);
  if (text.size() > first && is_align(text[first])) {
    out.fill = slice(in.heap, spec, 0, first);
    out.align = text[first];
    at = first + 1;
  } else if (!text.empty() && is_align(text[0])) {
    out.align = text[at++];
  }
  if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' ')) out.sign = text[at++];
  if (at < text.size() && text[at] == '#') out.alternate = (++at, true);
  if (at < text.size() && text[at] == '0') out.zero = (++at, out.align == '\0');
  out.width = number_in(text, at, max_width);
  if (at < text.size() && text[at] == ',') out.grouped = (++at, true);
  if (at < text.size() && text[at] == '.') {
    ++at;
    out.precision = number_in(text, at, max_precision);
  }
  if (at < text.size()) out.kind = text[at++];
  if (at < text.size() || (out.kind != '\0' && std::string_view("sdfFeEgGxXobn%").find(out.kind) == std::string_view::npos)) {
    fail("the format '" + std::string(text) + "' is not known");
  }
  if (out.kind == 'n') out.kind = 'd';
  return out;
}

// name.attribute[key] of a field.
Value field_value(Interpreter& in, std::string_view path, const Arguments& given, size_t& next) {
  const size_t head = std::min(path.find_first_of(".["), path.size());
  const std::string_view name = path.substr(0, head);
  const Value* found = nullptr;
  size_t number = 0;
  if (name.empty()) {
    number = next++;
    if (number < given.count()) found = &given.at(number);
  } else if (std::from_chars(name.data(), name.data() + name.size(), number).ptr == name.data() + name.size()) {
    if (number < given.count()) found = &given.at(number);
  } else {
    found = given.find(given.count(), name);
  }
  in.work.charge(given.named_count() / 16);
  if (!found) fail("format(): there is no argument for the field '" + std::string(name) + "'");
  Value out = *found;
  for (size_t at = head; at < path.size();) {
    const bool bracket = path[at] == '[';
    const size_t end = std::min(bracket ? path.find(']', at) : path.find_first_of(".[", at + 1), path.size());
    const String* key = copy_string(in.heap, path.substr(at + 1, end - at - 1), Source::fixed);
    out = bracket ? attribute_path(in, out, Value::of(key)) : attribute(in, out, *key);
    at = bracket ? end + 1 : end;
  }
  return out;
}

}  // namespace

const String* format_braces(Interpreter& in, const String& format, const Arguments& given) {
  const std::string_view text = format.view();
  in.work.charge_bytes(text.size());
  Builder out(in.heap);
  size_t next = 0, begin = 0;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '{' && text[at] != '}') {
      ++at;
      continue;
    }
    out.append(format, begin, at);
    if (at + 1 < text.size() && text[at + 1] == text[at]) {
      out.append(format, at, at + 1);
      begin = at += 2;
      continue;
    }
    const size_t end = text[at] == '{' ? text.find('}', at) : std::string_view::npos;
    if (end == std::string_view::npos) fail("format(): a single '" + std::string(1, text[at]) + "'");
    const std::string_view field = text.substr(at + 1, end - at - 1);
    if (field.find('{') != std::string_view::npos) fail("format(): fields inside fields are not supported");
    const size_t colon = std::min(field.find(':'), field.size());
    const size_t mark = std::min(field.find('!'), colon);
    Value value = field_value(in, field.substr(0, mark), given, next);
    if (mark < colon) {
      const Value one = list_of(in, {&value, 1}, Sequence::Flavor::list);
      const String* shown = to_text(in, one);  // [repr]
      value = Value::of(field.substr(mark + 1, colon - mark - 1) == "r" ? slice(in.heap, *shown, 1, shown->size - 1) : to_text(in, value));
    }
    const String* spec = colon < field.size() ? slice(in.heap, format, at + 2 + colon, end) : view_string(in.heap, "", Source::fixed);
    out.append(*(spec->size > 0 ? styled(in, value, read_style(in, *spec)) : to_text(in, value)));
    begin = at = end + 1;
  }
  out.append(format, begin, text.size());
  return with_markup(in.heap, *out.finish(), format.markup);
}

const String* format_percent(Interpreter& in, const String& format, const Value& arguments) {
  const std::string_view text = format.view();
  in.work.charge_bytes(text.size());
  const bool tuple = arguments.is(Type::sequence) && arguments.sequence->flavor == Sequence::Flavor::tuple;
  size_t next = 0;
  bool by_name = false;
  const auto take = [&]() -> Value {
    if (!tuple && next == 0) return ++next, arguments;
    if (tuple && next < arguments.sequence->size) return arguments.sequence->items[next++];
    fail("not enough arguments for format string");
  };
  Builder out(in.heap);
  for (size_t at = 0; at < text.size();) {
    const size_t mark = std::min(text.find('%', at), text.size());
    out.append(format, at, mark);
    if (mark == text.size()) break;
    at = mark + 1;
    if (at < text.size() && text[at] == '%') {
      out.append(format, at, at + 1);
      ++at;
      continue;
    }
    Value value;
    bool named = false;
    if (at < text.size() && text[at] == '(') {
      const size_t end = text.find(')', at);
      if (end == std::string_view::npos) fail("incomplete format key");
      if (!arguments.is(Type::dict)) fail("format requires a mapping");
      value = item(in, arguments, Value::of(slice(in.heap, format, at + 1, end)));
      named = by_name = true;
      at = end + 1;
    }
    Style style;
    for (; at < text.size() && std::string_view("-+ #0").find(text[at]) != std::string_view::npos; ++at) {
      if (text[at] == '-') style.align = '<';
      if (text[at] == '+' || (text[at] == ' ' && style.sign == '\0')) style.sign = text[at];
      if (text[at] == '#') style.alternate = true;
      if (text[at] == '0') style.zero = true;
    }
    if (style.align == '<') style.zero = false;
    else style.align = '>';
    style.width = number_in(text, at, max_width);
    if (at < text.size() && text[at] == '.') style.precision = number_in(text, ++at, max_precision);
    if (at >= text.size()) fail("incomplete format");
    style.kind = text[at++];
    if (!named) value = take();
    if (style.kind == 'r') {
      const Value one = list_of(in, {&value, 1}, Sequence::Flavor::list);
      const String* shown = to_text(in, one);
      value = Value::of(slice(in.heap, *shown, 1, shown->size - 1));
      style.kind = 's';
    }
    if (style.kind == 'i' || style.kind == 'u') style.kind = 'd';
    if (std::string_view("sdfFeEgGxXo").find(style.kind) == std::string_view::npos) fail(std::string("unsupported format character '") + style.kind + "'");
    if (style.kind == 'd' && value.is(Type::real)) value = Value::of(static_cast<int64_t>(std::clamp(value.real, -9e18, 9e18)), value.typed);
    if (style.kind != 's' && !value.is_number()) fail(std::string("%") + style.kind + " format: a real number is required, not " + type_name(value));
    const String* piece = styled(in, value, style);
    out.append(*(format.markup ? escape_markup(in.heap, *piece) : piece));
  }
  if (tuple && next < arguments.sequence->size) fail("not all arguments converted during string formatting");
  if (!tuple && next == 0 && !by_name && !arguments.is(Type::dict)) fail("not all arguments converted during string formatting");
  return with_markup(in.heap, *out.finish(), format.markup);
}

}  // namespace vigil::text::jinja
