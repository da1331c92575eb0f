// JSON as values of a template. Texts are views where they can be: the JSON must outlive them. Not here: what the variables are called.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "server/text/jinja/value.hpp"

namespace vigil::text::jinja {

// `source` of every text and number in it. Fails for values nested deeper than max_value_depth. Integers beyond 64 bits lose digits.
Value value_of_json(Heap& heap, const nlohmann::ordered_json& json, Source source);
// What the text says, as json.loads; its texts have the text's source.
Value value_of_json_text(Heap& heap, const String& text);

}  // namespace vigil::text::jinja
