// What type a raw argument has: its tag says so, or the tool's schema does. Not here: checking arguments against schemas.
#pragma once

#include <string>
#include <string_view>

#include "server/text/conversation.hpp"

namespace vigil::text {

enum class ArgumentType {
  text,   // the raw text is a string
  list, object,
  other,  // a number, a boolean, null: JSON
  any     // JSON if it is some, else text
};

// `attributes`: what the argument's tag says beside its name; string="true" and type="string" are understood.
ArgumentType argument_type(const ToolDefinition& tool, std::string_view key, std::string_view attributes = {});
// The type that a schema allows, told by its "type", "enum", "const", "anyOf" and "oneOf".
ArgumentType schema_type(const Json& schema);
const Json* property_schema(const Json& schema, std::string_view key);  // null: none

// The raw text as JSON. Text that is no JSON becomes a string, whatever the type: the tool's owner can say more about it than a refused call.
std::string typed_value(ArgumentType type, std::string_view raw);

}  // namespace vigil::text
