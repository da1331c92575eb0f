// Values as text: str(), repr() and json.dumps() of Python. Not here: what is printed where (interpreter.hpp).
#pragma once

#include <string>

#include "server/text/jinja/interpreter.hpp"

namespace vigil::text::jinja {

const String* to_text(Interpreter& in, const Value& value);       // str(); markup is plain text then
const String* soft_text(Interpreter& in, const Value& value);     // str(), but markup stays markup
std::string real_text(double value);                              // 1.0, 1e+16, inf
Source source_of(const Value& value);                             // of a number, a list's brackets

struct JsonStyle {
  int64_t indent = -1;             // -1: one line
  const String* indent_text = nullptr;  // instead of blanks
  const String* item_separator = nullptr;  // null: ", ", or "," with an indent
  const String* key_separator = nullptr;   // null: ": "
  bool sort_keys = false, ascii = false;
};
const String* to_json(Interpreter& in, const Value& value, const JsonStyle& style);

}  // namespace vigil::text::jinja
