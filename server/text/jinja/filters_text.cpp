// Filters that make texts of texts.
#include <algorithm>

#include "server/text/jinja/function_tables.hpp"
#include "server/text/jinja/operations.hpp"
#include "server/text/jinja/print.hpp"
#include "server/text/jinja/text_tools.hpp"

namespace vigil::text::jinja {

namespace {

Value text(const String* string) { return Value::of(string); }

template <Case to>
Value cased(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({});
  return text(change_case(in, *soft_text(in, input), to));
}

// title: unlike the method, every word behind a blank, a hyphen or an opening bracket.
Value titled(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({});
  const String& all = *soft_text(in, input);
  in.work.charge_bytes(all.size * 4);
  Builder out(in.heap);
  size_t begin = 0;
  const auto add_word = [&](size_t end) {
    if (end > begin) out.append(*change_case(in, *slice(in.heap, all, begin, end), Case::capitalize));
  };
  for (size_t at = 0; at < all.size;) {
    const size_t bytes = character_bytes(all.view(), at);
    const uint32_t c = code_point(all.view(), at, bytes);
    if (is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<') {
      add_word(at);
      out.append(all, at, at + bytes);
      begin = at + bytes;
    }
    at += bytes;
  }
  add_word(all.size);
  return text(with_markup(in.heap, *out.finish(), all.markup));
}

Value trim(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"chars"});
  return text(strip_text(in, *soft_text(in, input), given.string_or_null(0, "chars"), Side::both));
}

Value replaced(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"old", "new", "count"}, 2);
  const Value* count = given.find(2, "count");
  const int64_t times = !count || count->is(Type::none) ? -1 : given.integer_or(2, "count", -1);
  return text(replace(in, *to_text(in, input), *to_text(in, *given.find(0, "old")), *to_text(in, *given.find(1, "new")), times));
}

// Every line but the first gets the blanks, blank ones only on demand.
Value indent(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"width", "first", "blank"});
  const Value* width = given.find(0, "width");
  const bool first = given.truth_or(1, "first", false), blank = given.truth_or(2, "blank", false);
  const String* blanks = width && width->is(Type::string) ? width->string
                         : pad(in, *view_string(in.heap, "", Source::fixed), given.integer_or(0, "width", 4), nullptr, Side::right);
  const String* all = soft_text(in, input);
  const bool markup = all->markup;
  const String* line_end = view_string(in.heap, "\n", Source::fixed);
  all = concat(in.heap, *all, *line_end);  // as Jinja2 does: a text that ends in a line break keeps it
  const Value lines = split_lines(in, *all, false);
  Builder out(in.heap);
  for (size_t i = 0; i < lines.sequence->size; ++i) {
    const String& line = *lines.sequence->items[i].string;
    in.work.charge_bytes(blanks->size);
    if (i > 0) out.append(*line_end);
    if ((i > 0 || first) && (i == 0 || blank || line.size > 0)) out.append(*blanks);
    out.append(line);
  }
  return text(with_markup(in.heap, *out.finish(), markup));
}

Value centered(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"width"});
  return text(pad(in, *soft_text(in, input), given.integer_or(0, "width", 80), nullptr, Side::both));
}

Value safe(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({});
  return text(with_markup(in.heap, *to_text(in, input), true));
}

Value escaped(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({});
  return text(escape_markup(in.heap, *soft_text(in, input)));
}

Value force_escaped(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({});
  return text(escape_markup(in.heap, *to_text(in, input)));
}

// Python's str() of markup and text alike.
Value stringified(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({});
  return text(soft_text(in, input));
}

Value format(Interpreter& in, const Value& input, const Arguments& given) {
  const String& form = *soft_text(in, input);
  if (given.named_count() == 0) return text(format_percent(in, form, list_of(in, {given.count() > 0 ? &given.at(0) : nullptr, given.count()}, Sequence::Flavor::tuple)));
  if (given.count() > 0) fail("can't handle positional and keyword arguments at the same time");
  Dict* named = in.heap.make<Dict>();
  for (size_t i = 0; i < given.named_count(); ++i) put(in.work, in.heap, *named, Value::of(given.named(i).name), given.named(i).value);
  return text(format_percent(in, form, Value::of(named)));
}

Value truncate(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({"length", "killwords", "end", "leeway"});
  const String& all = *soft_text(in, input);
  const int64_t length = given.integer_or(0, "length", 255), leeway = given.integer_or(3, "leeway", 5);
  const String* end = given.string_or_null(2, "end");
  if (!end) end = view_string(in.heap, "...", Source::fixed);
  in.work.charge(end->size / 64);
  const int64_t room = length - static_cast<int64_t>(characters(*end));
  if (room < 0 || leeway < 0) fail("truncate: the length is below that of the end");
  in.work.charge_bytes(all.size);
  if (static_cast<int64_t>(characters(all)) <= length + leeway) return text(&all);
  const String* cut = slice(in.heap, all, 0, byte_of(all, static_cast<size_t>(room)));
  if (!given.truth_or(1, "killwords", false)) {
    const size_t blank = cut->view().rfind(' ');
    if (blank != std::string_view::npos) cut = slice(in.heap, *cut, 0, blank);
  }
  return text(concat(in.heap, *cut, *end));
}

Value word_count(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({});
  const String& all = *soft_text(in, input);
  in.work.charge_bytes(all.size * 4);
  int64_t count = 0;
  bool inside = false;
  all_characters(all, [&](uint32_t c) {
    const bool word = c == '_' || (c < 0x80 ? (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') : !is_space(c));
    count += word && !inside;
    inside = word;
    return true;
  });
  return Value::of(count);
}

Value url_encoded(Interpreter& in, const Value& input, const Arguments& given) {
  given.expect({});
  if (!input.is(Type::string)) fail("urlencode takes a string here, not " + type_name(input));
  in.work.charge_bytes(input.string->size * 4);
  Builder out(in.heap);
  for_each_run(*input.string, [&](std::string_view run, Source source) {
    std::string quoted;
    for (const char c : run) {
      static constexpr char digits[] = "0123456789ABCDEF";
      const unsigned char byte = static_cast<unsigned char>(c);
      if ((c >= '0' && c <= '9') || (byte < 0x80 && (c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' || c == '.' || c == '-' || c == '~' || c == '/') {
        quoted += c;
      } else {
        quoted += {'%', digits[byte >> 4], digits[byte & 15]};
      }
    }
    out.append(quoted, source);
  });
  return text(out.finish());
}

}  // namespace

Table<Filter> text_filters() {
  return {{"lower", cased<Case::lower>}, {"upper", cased<Case::upper>}, {"capitalize", cased<Case::capitalize>}, {"title", titled}, {"trim", trim},
          {"replace", replaced}, {"indent", indent}, {"center", centered}, {"safe", safe}, {"escape", escaped}, {"e", escaped},
          {"forceescape", force_escaped}, {"string", stringified}, {"format", format}, {"truncate", truncate}, {"wordcount", word_count},
          {"urlencode", url_encoded}};
}

}  // namespace vigil::text::jinja
