// Grammars that force tool calls, written as the model's family writes them, so that the output parser reads them back.
// Not here: reading calls (output_parser.hpp), schemas of arguments (schema_grammar.hpp).
#pragma once

#include <string>
#include <vector>

#include "protocol/result.hpp"
#include "server/text/conversation.hpp"
#include "server/text/output_parser.hpp"

namespace vigil::text {

// GBNF for an answer that is one call (`parallel`: one or more) of the tools that `choice` demands: any of `tools` when required, the one it
// names when named. An error when the choice demands nothing, names no tool, or this family's calls cannot be described; a schema's
// error begins with "tools[i].function.parameters" and the place in it.
// With a `vocabulary`, markers that are control tokens may be written as these tokens, which no grammar reaches by their text.
// At most max_forced_calls calls, so that an answer ends. A tool that is not strict is held to what of its schema can be enforced.
inline constexpr size_t max_forced_calls = 16;
Result<std::string> tool_call_grammar(const OutputFormat& format, const std::vector<ToolDefinition>& tools, const ToolChoice& choice, bool parallel,
                                      const gguf::Vocabulary* vocabulary = nullptr);

}  // namespace vigil::text
