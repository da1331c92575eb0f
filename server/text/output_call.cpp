// Which reader a way of writing calls has, and what readers share. See output_call.hpp and call_readers.hpp.
#include "server/text/output_call.hpp"

#include <algorithm>

#include "server/text/call_readers.hpp"

namespace vigil::text {

const ToolDefinition* DeclaredTools::find(std::string_view name) const {
  const auto found = std::find_if(tools_.begin(), tools_.end(), [&](const ToolDefinition& tool) { return tool.name == name; });
  return found == tools_.end() ? nullptr : &*found;
}

bool DeclaredTools::a_name_begins_with(std::string_view text) const {
  return std::any_of(tools_.begin(), tools_.end(), [&](const ToolDefinition& tool) { return tool.name.starts_with(text); });
}

bool DeclaredTools::begins_with_a_name(std::string_view text) const {
  return std::any_of(tools_.begin(), tools_.end(), [&](const ToolDefinition& tool) { return text.starts_with(tool.name); });
}

bool may_be_name(const DeclaredTools& tools, std::string_view text) {
  return tools.a_name_begins_with(text) || tools.begins_with_a_name(text);
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_white_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_white_space(text.back())) text.remove_suffix(1);
  return text;
}

OneOf::OneOf(std::vector<std::string_view> texts) : texts_(std::move(texts)) {
  std::erase_if(texts_, [](std::string_view text) { return text.empty(); });
}

std::string_view OneOf::feed(char c) {
  read_ += c;
  bool possible = false;
  for (const std::string_view text : texts_) {
    if (text == read_) return text;
    possible = possible || text.starts_with(read_);
  }
  failed_ = !possible;
  return {};
}

std::unique_ptr<CallReader> make_call_reader(const CallSyntax& syntax, bool section, const DeclaredTools& tools) {
  switch (syntax.kind) {
    case CallSyntax::Kind::json: return make_json_reader(syntax, tools);
    case CallSyntax::Kind::name_then_json:
    case CallSyntax::Kind::bare_keys: return make_named_reader(syntax, section, tools);
    case CallSyntax::Kind::xml_parameters: return make_xml_reader(syntax, section, tools);
    case CallSyntax::Kind::nested_tags: return make_nested_reader(syntax, section, tools);
    case CallSyntax::Kind::python_calls: return make_python_reader(syntax, tools);
    case CallSyntax::Kind::python_tag: return make_python_tag_reader(syntax, tools);
    case CallSyntax::Kind::python_code: return make_python_code_reader();
  }
  return nullptr;
}

std::unique_ptr<CallReader> make_arguments_reader(const CallSyntax& syntax, std::string name, const DeclaredTools& tools) {
  return make_named_reader(syntax, tools, std::move(name));
}

}  // namespace vigil::text
