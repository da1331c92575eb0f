// Methods of strings that look for something or say what they are, and format().
#include <algorithm>
#include <utf8proc.h>

#include "server/text/jinja/format.hpp"
#include "server/text/jinja/function_tables.hpp"
#include "server/text/jinja/operations.hpp"
#include "server/text/jinja/print.hpp"
#include "server/text/jinja/text_tools.hpp"

namespace vigil::text::jinja {

namespace {

// The part of the string that the arguments `start` and `end` name, in bytes.
Span part_of(Interpreter& in, const String& all, const Arguments& given) {
  in.work.charge_bytes(all.size);
  const int64_t size = static_cast<int64_t>(characters(all));
  const auto place = [&](size_t position, std::string_view name, int64_t otherwise) {
    const Value* value = given.find(position, name);
    int64_t at = !value || value->is(Type::none) ? otherwise : given.integer_or(position, name, 0);
    if (at < 0) at = std::max<int64_t>(0, at + size);
    return at;
  };
  const int64_t begin = place(1, "start", 0), end = std::min(place(2, "end", size), size);
  if (begin > end) return {all.size + 1, all.size};  // nothing, not even an empty string, is found there
  return {byte_of(all, static_cast<size_t>(begin)), byte_of(all, static_cast<size_t>(end))};
}

template <Side side>
Value has_affix(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({"affix", "start", "end"}, 1);
  Span part{0, self.string->size};
  if (given.count() > 1) part = part_of(in, *self.string, given);
  if (part.begin > part.end) return Value::of(false);
  const std::string_view view = self.string->view().substr(part.begin, part.end - part.begin);
  const auto has = [&view, &in](const Value& affix) {
    if (!affix.is(Type::string)) fail("startswith and endswith take a str or a tuple of str, not " + type_name(affix));
    in.work.charge(affix.string->size / 64);
    return side == Side::left ? view.starts_with(affix.string->view()) : view.ends_with(affix.string->view());
  };
  const Value& affix = *given.find(0, "affix");
  if (affix.is(Type::sequence) && affix.sequence->flavor == Sequence::Flavor::tuple) {
    in.work.charge(affix.sequence->size);
    return Value::of(std::any_of(affix.sequence->items, affix.sequence->items + affix.sequence->size, has));
  }
  return Value::of(has(affix));
}

template <Side from, bool must>
Value found(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({"sub", "start", "end"}, 1);
  const String* wanted = given.string_or_null(0, "sub");
  if (!wanted) fail("find() takes a string");
  const String& all = *self.string;
  const Span part = part_of(in, all, given);
  size_t at = std::string_view::npos;
  if (part.begin <= part.end) {
    const std::string_view view = all.view().substr(part.begin, part.end - part.begin);
    at = from == Side::left ? find_first(in.work, view, wanted->view()) : find_last(in.work, view, wanted->view());
  }
  if (at == std::string_view::npos) {
    if (must) fail("substring not found");
    return Value::of(int64_t{-1});
  }
  String before = all;
  before.size = part.begin + at;
  if (before.ascii != 1) before.ascii = -1;
  return Value::of(static_cast<int64_t>(characters(before)));
}

Value counted(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({"sub", "start", "end"}, 1);
  const String* wanted = given.string_or_null(0, "sub");
  if (!wanted) fail("count() takes a string");
  const Span part = part_of(in, *self.string, given);
  if (part.begin > part.end) return Value::of(int64_t{0});
  String all = *self.string;
  all.data += part.begin;
  all.size = part.end - part.begin;
  if (all.ascii != 1) all.ascii = -1;
  if (wanted->size == 0) return Value::of(static_cast<int64_t>(characters(all)) + 1);
  int64_t count = 0;
  for (size_t at = find_first(in.work, all.view(), wanted->view()); at != std::string_view::npos; at = find_first(in.work, all.view(), wanted->view(), at + wanted->size)) ++count;
  return Value::of(count);
}

auto category(uint32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }
bool is_letter(uint32_t c) { return category(c) >= UTF8PROC_CATEGORY_LU && category(c) <= UTF8PROC_CATEGORY_LO; }
bool is_decimal(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_numeric(uint32_t c) { return category(c) >= UTF8PROC_CATEGORY_ND && category(c) <= UTF8PROC_CATEGORY_NO; }
bool is_digit(uint32_t c) { return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || (c >= 0x2070 && c <= 0x2089); }
bool is_alphanumeric(uint32_t c) { return is_letter(c) || is_numeric(c); }

template <bool (*is)(uint32_t)>
Value all_are(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({});
  in.work.charge_bytes(self.string->size * 8);
  return Value::of(all_characters(*self.string, is));
}

Value ascii(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({});
  in.work.charge(self.string->size / 64);
  return Value::of(is_ascii(*self.string));
}

// islower, isupper: every cased character is of that case, and there is one.
template <bool lower>
Value is_case(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({});
  in.work.charge_bytes(self.string->size * 8);
  bool some = false, other = false;
  all_characters(*self.string, [&](uint32_t c) {
    const bool small = category(c) == UTF8PROC_CATEGORY_LL, large = category(c) == UTF8PROC_CATEGORY_LU || category(c) == UTF8PROC_CATEGORY_LT;
    some = some || (lower ? small : large);
    other = other || (lower ? large : small);
    return true;
  });
  return Value::of(some && !other);
}

Value is_title(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({});
  in.work.charge_bytes(self.string->size * 8);
  bool some = false, inside = false;
  const bool fits = all_characters(*self.string, [&](uint32_t c) {
    const bool small = category(c) == UTF8PROC_CATEGORY_LL, large = category(c) == UTF8PROC_CATEGORY_LU || category(c) == UTF8PROC_CATEGORY_LT;
    if ((large && inside) || (small && !inside)) return false;
    inside = small || large;
    some = some || inside;
    return true;
  });
  return Value::of(some && fits);
}

Value formatted(Interpreter& in, const Value& self, const Arguments& given) { return Value::of(format_braces(in, *self.string, given)); }

}  // namespace

Table<Method> string_look_methods() {
  return {{"startswith", has_affix<Side::left>}, {"endswith", has_affix<Side::right>}, {"find", found<Side::left, false>}, {"rfind", found<Side::right, false>},
          {"index", found<Side::left, true>}, {"rindex", found<Side::right, true>}, {"count", counted}, {"isalpha", all_are<is_letter>},
          {"isalnum", all_are<is_alphanumeric>}, {"isdigit", all_are<is_digit>}, {"isdecimal", all_are<is_decimal>}, {"isnumeric", all_are<is_numeric>},
          {"isspace", all_are<is_space>}, {"isascii", ascii}, {"islower", is_case<true>}, {"isupper", is_case<false>}, {"istitle", is_title},
          {"format", formatted}};
}

}  // namespace vigil::text::jinja
