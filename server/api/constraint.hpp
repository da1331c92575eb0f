// What an answer must look like as the grammar that makes it so: JSON, a schema, a user's own grammar, a forced call. Runs perhaps on a
// worker's thread. Not here: reading the wish (tools.hpp), grammars themselves (server/text), the engine's ability (turn/desk.hpp).
#pragma once

#include <optional>
#include <string>

#include "server/api/generation.hpp"

namespace vigil::api {

// The field that asks for a grammar: response_format…, grammar, tool_choice; empty when the answer is free.
std::string constrained_by(const GenerationPlan& plan);
// Puts the plan's grammar into `sampling`. `thinking_open`: the answer begins with thinking, which the grammar leaves alone. The error names
// the place in the schema, or the line of the grammar.
std::optional<turn::RequestError> constrain(const GenerationPlan& plan, bool thinking_open, protocol::Sampling& sampling);

// How thinking that the prompt opened is brought to its end: after `most` tokens, or when only `reserve` are left for the answer. Nothing
// when this family's thinking has no closing token, or when there is no limit.
std::optional<turn::ThinkingEnd> thinking_end(const Model& model, std::optional<int64_t> most, int64_t reserve);

}  // namespace vigil::api
