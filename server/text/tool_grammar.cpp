// Forced tool calls as grammars.
#include "server/text/tool_grammar.hpp"

namespace vigil::text {

Result<std::string> tool_call_grammar(const OutputFormat&, const std::vector<ToolDefinition>&, const ToolChoice&, bool) {
  return Error{"forced tool calls are not enforced by this version yet"};
}

}  // namespace vigil::text
