// "{:>5}".format(…): Python's format strings; the percent form is declared in operations.hpp. Not here: str() (print.hpp).
#pragma once

#include "server/text/jinja/interpreter.hpp"

namespace vigil::text::jinja {

const String* format_braces(Interpreter& in, const String& format, const Arguments& given);

}  // namespace vigil::text::jinja
