// What can be done with values: Python's operators, attributes, elements and loops, as Jinja2 uses them. All fail for values that have no such
// operation. Not here: printing (print.hpp).
#pragma once

#include "server/text/jinja/interpreter.hpp"

namespace vigil::text::jinja {

// a.name: a method or attribute, else the member of that name, else undefined. `hash` and `method` belong to the name.
Value attribute(Interpreter& in, const Value& of, const String& name, size_t hash, int method);
Value attribute(Interpreter& in, const Value& of, const String& name);
// a[key]: the element, else the attribute of that name, else undefined.
Value item(Interpreter& in, const Value& of, const Value& key);
Value slice_value(Interpreter& in, const Value& of, const Value& begin, const Value& end, const Value& step);
// `a.b.0`, as selectattr and its kin take it.
Value attribute_path(Interpreter& in, const Value& of, const Value& path);

struct Items {
  const Value* data = nullptr;
  size_t size = 0;
  const Value* begin() const { return data; }
  const Value* end() const { return data + size; }
};
// What a loop would walk over: elements, keys, characters; nothing for an undefined value.
Items iterate(Interpreter& in, const Value& over);
int64_t length(const Value& of);
bool contains(Interpreter& in, const Value& container, const Value& value);
bool equal(Interpreter& in, const Value& left, const Value& right);

Value operate(Interpreter& in, Operator operation, const Value& left, const Value& right);
bool compare(Interpreter& in, Operator operation, const Value& left, const Value& right);
Value negate(const Value& value, bool minus);
// "%s and %d" % arguments
const String* format_percent(Interpreter& in, const String& format, const Value& arguments);

const String* plus(Interpreter& in, const String& left, const String& right);  // escapes beside markup
Value list_of(Interpreter& in, const Items& items, Sequence::Flavor flavor = Sequence::Flavor::list, bool typed = false);
Value pair(Interpreter& in, const Value& first, const Value& second, bool typed);
// Loses the value's place among tokens of the template: "Undefined" would otherwise print as nothing.
[[noreturn]] void fail_undefined(const Value& value);

}  // namespace vigil::text::jinja
