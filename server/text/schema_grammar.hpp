// Grammars (GBNF) for what an answer must look like: any JSON object, a JSON Schema, a user's own grammar. docs/structured-output.md says which
// keywords are kept, which are refused and why. Not here: tool calls (tool_grammar.hpp), masks (engine/sample).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "protocol/result.hpp"
#include "server/text/conversation.hpp"

namespace vigil::text {

inline constexpr size_t max_schema_values = 50'000;          // JSON values in a schema
inline constexpr size_t max_schema_rules = 8'000;            // different combinations of subschemas that one schema may lead to
inline constexpr size_t max_schema_properties = 2'000;       // names of one object
inline constexpr size_t max_schema_set = 1'000;              // subschemas that one value must satisfy together
inline constexpr size_t max_schema_work = 20'000'000;        // names and values looked at, again for each combination
inline constexpr size_t max_schema_alternatives = 4'096;     // ways through the anyOf and oneOf of one place, multiplied out
inline constexpr size_t max_schema_automaton_states = 2'000; // of one string's pattern, length and forbidden names together
inline constexpr size_t max_grammar_bytes = 256 * 1024;      // of a grammar as text, made or given

// What becomes of a keyword that a grammar cannot enforce (docs/structured-output.md lists them): an error that names it, or nothing: the model
// is then held to the rest. "strict" of the dialects means refuse.
enum class Unenforceable { refuse, ignore };

// GBNF whose root is JSON text that validates against the schema. Bounded in time and memory by the limits above, whatever the schema.
// An error begins with the place in the schema, to be put behind the name of the field that held it: "" for the schema itself, else
// ".properties.name.items"; then ": " and what is wrong.
Result<std::string> schema_grammar(const Json& schema, Unenforceable unenforceable = Unenforceable::refuse);

// Any JSON object, for response_format json_object.
std::string any_object_grammar();

// Whether the engine will understand it; an error says line and column.
Result<void> check_grammar(std::string_view gbnf);

}  // namespace vigil::text
