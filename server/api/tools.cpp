// See tools.hpp.
#include "server/api/tools.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "server/text/utf8.hpp"

namespace vigil::api {

namespace {

using json = nlohmann::ordered_json;

std::string in_quotes(const std::string& value) { return "\"" + std::string(text::clip_utf8(value, 60)) + "\""; }

std::string at(const std::string& where, size_t i) { return where + "[" + std::to_string(i) + "]"; }

}  // namespace

std::optional<text::ToolDefinition> read_function(Fields& fields, const json& value, const std::string& where) {
  if (!value.is_object()) {
    fields.fail(bad_field(where, "must be an object"));
    return std::nullopt;
  }
  Fields inner(value, where);
  text::ToolDefinition tool;
  tool.name = inner.text("name").value_or("");
  if (tool.name.empty()) inner.fail("name", "is missing");
  if (tool.name.size() > max_tool_name_bytes) inner.fail("name", "is longer than " + std::to_string(max_tool_name_bytes) + " bytes");
  tool.description = inner.text("description").value_or("");
  tool.strict = inner.flag("strict").value_or(false);
  if (const json* parameters = inner.object("parameters")) tool.parameters = *parameters;
  if (inner.failed()) {
    fields.fail(*inner.error());
    return std::nullopt;
  }
  return tool;
}

std::vector<text::ToolDefinition> read_tools(Fields& fields) {
  std::vector<text::ToolDefinition> out;
  const json* tools = fields.array("tools");
  if (!tools) return out;
  const std::string field = fields.path("tools");
  if (tools->size() > max_tools) {
    fields.fail("tools", "holds " + std::to_string(tools->size()) + " tools; at most " + std::to_string(max_tools) + " are allowed (max_tools)");
  }
  for (size_t i = 0; i < tools->size() && !fields.failed(); ++i) {
    const std::string where = at(field, i);
    const json& tool = (*tools)[i];
    if (!tool.is_object()) {
      fields.fail(bad_field(where, "must be an object"));
      break;
    }
    Fields outer(tool, where);
    const std::string type = outer.text("type").value_or("function");
    const json* function = outer.object("function");
    if (!outer.failed() && type != "function") outer.fail("type", "is " + in_quotes(type) + "; only function tools are supported here");
    if (!outer.failed() && !function) outer.fail("function", "is missing");
    if (outer.failed()) {
      fields.fail(*outer.error());
      break;
    }
    if (auto found = read_function(fields, *function, where + ".function")) out.push_back(std::move(*found));
  }
  check_tool_names(fields, out, field);
  return out;
}

void check_tool_names(Fields& fields, const std::vector<text::ToolDefinition>& tools, const std::string& field) {
  std::set<std::string_view> names;
  for (const text::ToolDefinition& tool : tools) {
    if (!names.insert(tool.name).second) return fields.fail(bad_field(field, "declares the name " + in_quotes(tool.name) + " twice"));
  }
}

text::ToolChoice read_tool_choice(Fields& fields, const std::vector<text::ToolDefinition>& tools) {
  text::ToolChoice out;
  const json* choice = fields.find("tool_choice");
  if (!choice) return out;
  using Kind = text::ToolChoice::Kind;
  if (choice->is_string()) {
    const std::string word = choice->get<std::string>();
    if (word == "none") {
      out.kind = Kind::none;
    } else if (word == "required" || word == "any") {
      out.kind = Kind::required;
    } else if (word != "auto") {
      fields.fail("tool_choice", "is " + in_quotes(word) + R"(; it must be "none", "auto", "required" or name a function)");
    }
  } else if (choice->is_object()) {
    Fields outer(*choice, fields.path("tool_choice"));
    const std::string type = outer.text("type").value_or("function");
    if (!outer.failed() && type != "function") outer.fail("type", "is " + in_quotes(type) + "; only function is supported");
    const json* function = outer.object("function");
    if (function) {
      Fields inner(*function, outer.path("function"));
      out.name = inner.text("name").value_or("");
      if (inner.failed()) outer.fail(*inner.error());
    } else {
      out.name = outer.text("name").value_or("");
    }
    if (!outer.failed() && out.name.empty()) outer.fail(function ? "function.name" : "name", "is missing");
    if (outer.failed()) fields.fail(*outer.error());
    out.kind = Kind::named;
  } else {
    fields.fail("tool_choice", std::string("must be a string or an object, not ") + choice->type_name());
  }
  if (fields.failed() || out.kind == Kind::none || out.kind == Kind::automatic) return out;
  if (tools.empty()) {
    fields.fail("tool_choice", "asks for a tool call, and tools is empty");
  } else if (out.kind == Kind::named && std::none_of(tools.begin(), tools.end(), [&](const auto& tool) { return tool.name == out.name; })) {
    fields.fail("tool_choice", "names the function " + in_quotes(out.name) + ", which is not among tools");
  }
  return out;
}

void apply_tool_choice(text::Conversation& conversation) {
  const text::ToolChoice& choice = conversation.tool_choice;
  if (choice.kind == text::ToolChoice::Kind::none) conversation.tools.clear();
  if (choice.kind == text::ToolChoice::Kind::named) {
    std::erase_if(conversation.tools, [&](const text::ToolDefinition& tool) { return tool.name != choice.name; });
  }
}

OutputShape read_output_format(Fields& fields, std::string_view name) {
  OutputShape out;
  const json* format = fields.object(name);
  if (!format) return out;
  out.field = fields.path(name);
  Fields outer(*format, out.field);
  const std::string type = outer.text("type").value_or("");
  if (outer.failed()) {
    // reported below
  } else if (type == "text") {
    return out;
  } else if (type == "json_object") {
    out.kind = OutputShape::Kind::object;
  } else if (type == "json_schema") {
    out.kind = OutputShape::Kind::schema;
    const json* nested = outer.object("json_schema");
    Fields inner(nested ? *nested : *format, nested ? outer.path("json_schema") : out.field);
    out.field = inner.path("schema");
    const json* schema = inner.find("schema");
    out.strict = inner.flag("strict").value_or(false);
    if (schema && !schema->is_object() && !schema->is_boolean()) inner.fail("schema", "must be a JSON schema");
    if (inner.failed()) outer.fail(*inner.error());
    if (schema) {
      out.schema = *schema;
    } else {
      out.kind = OutputShape::Kind::object;  // a schema without a schema asks for JSON and no more
    }
  } else {
    outer.fail("type", type.empty() ? "is missing" : "is " + in_quotes(type) + "; it must be text, json_object or json_schema");
  }
  if (outer.failed()) fields.fail(*outer.error());
  return out;
}

}  // namespace vigil::api
