// String work that filters and methods share. Each keeps the source of every byte. Not here: arguments.
#pragma once

#include "server/text/jinja/interpreter.hpp"

namespace vigil::text::jinja {

enum class Case { lower, upper, title, capitalize, swap, fold };
const String* change_case(Interpreter& in, const String& text, Case to);
// `count` < 0: all.
const String* replace(Interpreter& in, const String& text, const String& old, const String& fresh, int64_t count);
// `separator` null: runs of white space. `limit` < 0: none.
Value split(Interpreter& in, const String& text, const String* separator, int64_t limit, Side from);
Value split_lines(Interpreter& in, const String& text, bool keep_ends);
const String* strip_text(Interpreter& in, const String& text, const String* chars, Side side);
const String* join(Interpreter& in, const String& separator, const Value* items, size_t count);  // str() of each; markup does not escape
const String* pad(Interpreter& in, const String& text, int64_t width, const String* fill, Side where);  // where the fill goes
// Whether every character is of a kind, and there is one.
template <typename Is>
bool all_characters(const String& text, Is&& is) {
  for (size_t at = 0; at < text.size;) {
    const size_t bytes = character_bytes(text.view(), at);
    if (!is(code_point(text.view(), at, bytes))) return false;
    at += bytes;
  }
  return text.size > 0;
}

}  // namespace vigil::text::jinja
