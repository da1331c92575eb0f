// The GBNF rules of JSON itself, which every grammar of structured output shares. Not here: schemas.
#pragma once

#include <string>
#include <string_view>

namespace vigil::text {

// Names of rules in json_rules(). Blank space is bounded everywhere, so that a model cannot write blanks for ever; numbers are bounded so that
// every one is finite and exact enough to be compared.
inline constexpr std::string_view lead_rule = "lead";            // before the value: nothing, a blank or up to two line breaks
inline constexpr std::string_view space_rule = "ws";             // between tokens: nothing, a blank, or a line break and indentation
inline constexpr std::string_view value_rule = "value";
inline constexpr std::string_view object_rule = "object";
inline constexpr std::string_view array_rule = "array";
inline constexpr std::string_view string_rule = "string";
inline constexpr std::string_view character_rule = "char";       // one code point inside a string, as it stands or escaped
inline constexpr std::string_view number_rule = "number";
inline constexpr std::string_view integer_rule = "integer";
inline constexpr std::string_view boolean_rule = "boolean";

std::string_view json_rules();

}  // namespace vigil::text
