// See text_tools.hpp.
#include "server/text/jinja/text_tools.hpp"

#include <algorithm>
#include <utf8proc.h>

#include "server/text/jinja/operations.hpp"
#include "server/text/jinja/print.hpp"

namespace vigil::text::jinja {

namespace {

bool cased(uint32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}
uint32_t lower(uint32_t c) { return c < 0x80 ? (c >= 'A' && c <= 'Z' ? c + 32 : c) : static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))); }
uint32_t upper(uint32_t c) { return c < 0x80 ? (c >= 'a' && c <= 'z' ? c - 32 : c) : static_cast<uint32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))); }

void append_case(std::string& out, uint32_t c, Case to, bool begin) {
  if (c == 0xDF && (to == Case::upper || to == Case::swap || to == Case::fold || (begin && to != Case::lower))) {  // ß has no capital in common use
    out += to == Case::fold ? "ss" : to == Case::title || to == Case::capitalize ? "Ss" : "SS";
    return;
  }
  switch (to) {
    case Case::lower:
    case Case::fold: return append_utf8(out, lower(c));
    case Case::upper: return append_utf8(out, upper(c));
    case Case::swap: return append_utf8(out, upper(c) == c ? lower(c) : upper(c));
    case Case::title:
    case Case::capitalize: return append_utf8(out, begin ? upper(c) : lower(c));
  }
}

const String* part(Interpreter& in, const String& text, size_t begin, size_t end) {
  if (begin == 0 && end == text.size) return &text;
  return slice(in.heap, text, begin, end);
}

Value split_at(Interpreter& in, const String& text, const String& separator, int64_t limit) {
  if (separator.size == 0) fail("empty separator");
  Sequence* out = new_sequence(in.heap, 0);
  size_t begin = 0;
  while (limit < 0 || limit-- > 0) {
    const size_t at = find_first(in.work, text.view(), separator.view(), begin);
    if (at == std::string_view::npos) break;
    append(in.heap, *out, Value::of(part(in, text, begin, at)));
    begin = at + separator.size;
  }
  append(in.heap, *out, Value::of(part(in, text, begin, text.size)));
  return Value::of(out);
}

Value split_at_from_right(Interpreter& in, const String& text, const String& separator, int64_t limit) {
  if (separator.size == 0) fail("empty separator");
  Sequence* out = new_sequence(in.heap, 0);
  size_t end = text.size;
  while (limit < 0 || limit-- > 0) {
    const size_t at = find_last(in.work, text.view().substr(0, end), separator.view());
    if (at == std::string_view::npos) break;
    append(in.heap, *out, Value::of(part(in, text, at + separator.size, end)));
    end = at;
  }
  append(in.heap, *out, Value::of(part(in, text, 0, end)));
  std::reverse(out->items, out->items + out->size);
  return Value::of(out);
}

Value split_at_spaces(Interpreter& in, const String& text, int64_t limit, Side from) {
  Sequence* out = new_sequence(in.heap, 0);
  Span rest = strip(in.work, text, nullptr, Side::both);
  const std::string_view view = text.view();
  while (rest.begin < rest.end && (limit < 0 || limit-- > 0)) {
    if (from == Side::left) {
      size_t at = rest.begin;
      while (at < rest.end && !is_space(code_point(view, at, character_bytes(view, at)))) at += character_bytes(view, at);
      append(in.heap, *out, Value::of(part(in, text, rest.begin, at)));
      while (at < rest.end && is_space(code_point(view, at, character_bytes(view, at)))) at += character_bytes(view, at);
      rest.begin = at;
    } else {
      size_t at = rest.end, word = rest.end;
      const auto before = [&view](size_t place) {
        do --place;
        while (place > 0 && (static_cast<unsigned char>(view[place]) & 0xC0) == 0x80);
        return place;
      };
      while (at > rest.begin && !is_space(code_point(view, before(at), at - before(at)))) at = word = before(at);
      append(in.heap, *out, Value::of(part(in, text, word, rest.end)));
      while (at > rest.begin && is_space(code_point(view, before(at), at - before(at)))) at = before(at);
      rest.end = at;
    }
  }
  // What the limit leaves keeps the white space at its far end.
  if (rest.begin < rest.end) append(in.heap, *out, Value::of(from == Side::left ? part(in, text, rest.begin, text.size) : part(in, text, 0, rest.end)));
  if (from == Side::right) std::reverse(out->items, out->items + out->size);
  return Value::of(out);
}

}  // namespace

const String* change_case(Interpreter& in, const String& text, Case to) {
  in.work.charge_bytes(text.size * 4);
  Builder out(in.heap);
  bool begin = true;
  std::string changed;
  for_each_run(text, [&](std::string_view run, Source source) {
    changed.clear();
    for (size_t at = 0; at < run.size();) {
      const size_t bytes = character_bytes(run, at);
      const uint32_t c = code_point(run, at, bytes);
      append_case(changed, c, to, begin);
      begin = to == Case::title ? !cased(c) : false;
      at += bytes;
    }
    out.append(changed, source);
  });
  return with_markup(in.heap, *out.finish(), text.markup);
}

const String* replace(Interpreter& in, const String& text, const String& old, const String& fresh, int64_t count) {
  in.work.charge_bytes(text.size);
  Builder out(in.heap);
  size_t begin = 0;
  if (old.size == 0) {  // before every character and at the end
    for (size_t at = 0; count != 0; --count) {
      in.work.charge_bytes(fresh.size);
      out.append(text, begin, at);
      out.append(fresh);
      begin = at;
      if (at >= text.size) break;
      at += character_bytes(text.view(), at);
    }
  } else {
    for (; count != 0; --count) {
      const size_t at = find_first(in.work, text.view(), old.view(), begin);
      if (at == std::string_view::npos) break;
      in.work.charge_bytes(fresh.size);
      out.append(text, begin, at);
      out.append(fresh);
      begin = at + old.size;
    }
    if (begin == 0) return &text;
  }
  out.append(text, begin, text.size);
  return with_markup(in.heap, *out.finish(), text.markup);
}

Value split(Interpreter& in, const String& text, const String* separator, int64_t limit, Side from) {
  in.work.charge_bytes(text.size);
  if (!separator) return split_at_spaces(in, text, limit, from);
  return from == Side::left ? split_at(in, text, *separator, limit) : split_at_from_right(in, text, *separator, limit);
}

Value split_lines(Interpreter& in, const String& text, bool keep_ends) {
  in.work.charge_bytes(text.size * 4);
  Sequence* out = new_sequence(in.heap, 0);
  const std::string_view view = text.view();
  size_t begin = 0;
  for (size_t at = 0; at < text.size;) {
    const size_t bytes = character_bytes(view, at);
    const uint32_t c = code_point(view, at, bytes);
    const bool ends = (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    const size_t end = at;
    at += bytes;
    if (!ends) continue;
    if (c == '\r' && at < text.size && view[at] == '\n') ++at;
    append(in.heap, *out, Value::of(part(in, text, begin, keep_ends ? at : end)));
    begin = at;
  }
  if (begin < text.size) append(in.heap, *out, Value::of(part(in, text, begin, text.size)));
  return Value::of(out);
}

const String* strip_text(Interpreter& in, const String& text, const String* chars, Side side) {
  const Span span = strip(in.work, text, chars, side);
  in.work.charge_bytes((text.size - (span.end - span.begin)) * 4);
  return part(in, text, span.begin, span.end);
}

const String* join(Interpreter& in, const String& separator, const Value* items, size_t count) {
  Builder out(in.heap);
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) out.append(separator);
    const String* text = to_text(in, items[i]);
    in.work.charge_bytes(text->size + separator.size);
    out.append(*text);
  }
  return out.finish();
}

const String* pad(Interpreter& in, const String& text, int64_t width, const String* fill, Side where) {
  in.work.charge((text.size + (fill ? fill->size : 0)) / 64);
  if (fill && characters(*fill) != 1) fail("the fill character must be exactly one character long");
  const int64_t missing = width - static_cast<int64_t>(characters(text));
  if (missing <= 0) return &text;
  if (missing > static_cast<int64_t>(max_output_bytes)) fail("a width of " + std::to_string(width) + " is too large (max_output_bytes)");
  in.work.charge_bytes(static_cast<size_t>(missing) * 16);
  // Python puts the odd blank to the left when the width is odd.
  const int64_t left = where == Side::left ? missing : where == Side::right ? 0 : missing / 2 + (missing & width & 1);
  const String* blank = fill ? fill : view_string(in.heap, " ", Source::fixed);
  Builder out(in.heap);
  for (int64_t i = 0; i < left; ++i) out.append(*blank);
  out.append(text);
  for (int64_t i = left; i < missing; ++i) out.append(*blank);
  return with_markup(in.heap, *out.finish(), text.markup);
}

}  // namespace vigil::text::jinja
