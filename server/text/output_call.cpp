// Which reader a way of writing calls has, and the declared tools. See output_call.hpp.
#include "server/text/output_call.hpp"

#include <algorithm>

namespace vigil::text {

const ToolDefinition* DeclaredTools::find(std::string_view name) const {
  const auto found = std::find_if(tools_.begin(), tools_.end(), [&](const ToolDefinition& tool) { return tool.name == name; });
  return found == tools_.end() ? nullptr : &*found;
}

bool DeclaredTools::a_name_begins_with(std::string_view text) const {
  return std::any_of(tools_.begin(), tools_.end(), [&](const ToolDefinition& tool) { return tool.name.starts_with(text); });
}

std::unique_ptr<CallReader> make_call_reader(const CallSyntax& syntax, bool section, const DeclaredTools& tools) {
  return (void)syntax, (void)section, (void)tools, nullptr;
}

std::unique_ptr<CallReader> make_arguments_reader(const CallSyntax& syntax, std::string name, const DeclaredTools& tools) {
  return (void)syntax, (void)name, (void)tools, nullptr;
}

}  // namespace vigil::text
