// A template's tokens as a tree, by Jinja2's grammar with loop controls and the generation block. Not here: tokens (lexer.hpp), where names
// live (resolver.hpp).
#pragma once

#include <string_view>

#include "server/text/jinja/heap.hpp"
#include "server/text/jinja/lexer.hpp"
#include "server/text/jinja/syntax.hpp"

namespace vigil::text::jinja {

// The tree lies in `heap`; texts are views of `tokens`. Fails (syntax) with line and column.
List<Statement*> parse(Heap& heap, const Tokens& tokens, bool from_json);

}  // namespace vigil::text::jinja
