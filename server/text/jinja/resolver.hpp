// Says for each name of a template where its value lives, as Jinja2's scopes have it, and refuses unknown filters and tests where they would be
// reached for certain. Not here: the tree's grammar (parser.hpp).
#pragma once

#include "server/text/jinja/heap.hpp"
#include "server/text/jinja/syntax.hpp"

namespace vigil::text::jinja {

Program resolve(Heap& heap, List<Statement*> body);

}  // namespace vigil::text::jinja
