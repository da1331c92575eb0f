// Methods of strings that make something of them. Those that only look are in methods_string_look.cpp.
#include "server/text/jinja/function_tables.hpp"
#include "server/text/jinja/operations.hpp"
#include "server/text/jinja/print.hpp"
#include "server/text/jinja/text_tools.hpp"

namespace vigil::text::jinja {

namespace {

Value text(const String* string) { return Value::of(string); }

template <Case to>
Value cased(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({});
  return text(change_case(in, *self.string, to));
}

template <Side side>
Value stripped(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({"chars"});
  return text(strip_text(in, *self.string, given.string_or_null(0, "chars"), side));
}

template <Side from>
Value split_method(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({"sep", "maxsplit"});
  return split(in, *self.string, given.string_or_null(0, "sep"), given.integer_or(1, "maxsplit", -1), from);
}

Value lines(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({"keepends"});
  return split_lines(in, *self.string, given.truth_or(0, "keepends", false));
}

const String& required(const Arguments& given, size_t position, std::string_view name) {
  const String* out = given.string_or_null(position, name);
  if (!out) fail(std::string(given.function()) + "(): '" + std::string(name) + "' must be a string");
  return *out;
}

Value replaced(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({"old", "new", "count"}, 2);
  const String* fresh = &required(given, 1, "new");
  if (self.string->markup) fresh = escape_markup(in.heap, *fresh);
  return text(replace(in, *self.string, required(given, 0, "old"), *fresh, given.integer_or(2, "count", -1)));
}

Value joined(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({"iterable"}, 1);
  const Items items = iterate(in, *given.find(0, "iterable"));
  Sequence* parts = new_sequence(in.heap, items.size);
  for (size_t i = 0; i < items.size; ++i) {
    if (!items.data[i].is(Type::string)) fail("sequence item " + std::to_string(i) + ": expected str instance, " + type_name(items.data[i]) + " found");
    append(in.heap, *parts, self.string->markup ? text(escape_markup(in.heap, *items.data[i].string)) : items.data[i]);
  }
  return text(with_markup(in.heap, *join(in, *self.string, parts->items, parts->size), self.string->markup));
}

template <Side where>
Value padded(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({"width", "fillchar"}, 1);
  return text(pad(in, *self.string, given.integer_or(0, "width", 0), given.string_or_null(1, "fillchar"), where));
}

Value zero_filled(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({"width"}, 1);
  const String& all = *self.string;
  const size_t sign = all.size > 0 && (all.data[0] == '-' || all.data[0] == '+') ? 1 : 0;
  const String* digits = slice(in.heap, all, sign, all.size);
  const String* filled = pad(in, *digits, given.integer_or(0, "width", 0) - static_cast<int64_t>(sign), view_string(in.heap, "0", Source::fixed), Side::left);
  return text(concat(in.heap, *slice(in.heap, all, 0, sign), *filled));
}

template <Side side>
Value without_affix(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({"affix"}, 1);
  const String& affix = required(given, 0, "affix");
  const String& all = *self.string;
  in.work.charge(affix.size / 64);
  if (side == Side::left) return text(all.view().starts_with(affix.view()) ? slice(in.heap, all, affix.size, all.size) : &all);
  return text(all.view().ends_with(affix.view()) ? slice(in.heap, all, 0, all.size - affix.size) : &all);
}

template <Side from>
Value partitioned(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({"sep"}, 1);
  const String& separator = required(given, 0, "sep");
  const String& all = *self.string;
  if (separator.size == 0) fail("empty separator");
  in.work.charge_bytes(all.size);
  const size_t at = from == Side::left ? find_first(in.work, all.view(), separator.view()) : find_last(in.work, all.view(), separator.view());
  const Value empty = text(view_string(in.heap, "", Source::fixed));
  Value parts[3] = {self, empty, empty};
  if (at != std::string_view::npos) {
    parts[0] = text(slice(in.heap, all, 0, at));
    parts[1] = text(slice(in.heap, all, at, at + separator.size));
    parts[2] = text(slice(in.heap, all, at + separator.size, all.size));
  } else if (from == Side::right) {
    std::swap(parts[0], parts[2]);
  }
  return list_of(in, {parts, 3}, Sequence::Flavor::tuple);
}

Value tabs_expanded(Interpreter& in, const Value& self, const Arguments& given) {
  given.expect({"tabsize"});
  const int64_t width = std::min<int64_t>(given.integer_or(0, "tabsize", 8), 1024);
  const String& all = *self.string;
  Builder out(in.heap);
  int64_t column = 0;
  in.work.charge_bytes(all.size * 16);
  for (size_t at = 0; at < all.size;) {
    const size_t bytes = character_bytes(all.view(), at);
    const char c = all.data[at];
    if (c == '\t') {
      const int64_t blanks = width > 0 ? width - column % width : 0;
      in.work.charge_bytes(static_cast<size_t>(blanks) * 16);
      for (int64_t i = 0; i < blanks; ++i) out.append(' ', Source::typed);
      column += blanks;
    } else {
      out.append(all, at, at + bytes);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    at += bytes;
  }
  return text(out.finish());
}

}  // namespace

Table<Method> string_methods() {
  return {{"lower", cased<Case::lower>}, {"upper", cased<Case::upper>}, {"title", cased<Case::title>}, {"capitalize", cased<Case::capitalize>},
          {"swapcase", cased<Case::swap>}, {"casefold", cased<Case::fold>}, {"strip", stripped<Side::both>}, {"lstrip", stripped<Side::left>},
          {"rstrip", stripped<Side::right>}, {"split", split_method<Side::left>}, {"rsplit", split_method<Side::right>}, {"splitlines", lines},
          {"replace", replaced}, {"join", joined}, {"ljust", padded<Side::right>}, {"rjust", padded<Side::left>}, {"center", padded<Side::both>},
          {"zfill", zero_filled}, {"removeprefix", without_affix<Side::left>}, {"removesuffix", without_affix<Side::right>},
          {"partition", partitioned<Side::left>}, {"rpartition", partitioned<Side::right>}, {"expandtabs", tabs_expanded}};
}

}  // namespace vigil::text::jinja
