// Tools, their choice and the shape of the answer, as OpenAI's dialects send them: one reader for all. Not here: calls in earlier messages,
// calls in the answer, grammars.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/request_fields.hpp"
#include "server/text/conversation.hpp"

namespace vigil::api {

inline constexpr size_t max_tools = 512;
inline constexpr size_t max_tool_name_bytes = 256;

// {"name","description","parameters","strict"} at `where`, all but the name optional. Nothing after a failure, which sticks to `fields`.
std::optional<text::ToolDefinition> read_function(Fields& fields, const nlohmann::ordered_json& value, const std::string& where);
// `tools` of the chat dialect: {"type":"function","function":{…}}; other types are refused. Names must differ.
std::vector<text::ToolDefinition> read_tools(Fields& fields);
// A name that is declared twice fails with `field`.
void check_tool_names(Fields& fields, const std::vector<text::ToolDefinition>& tools, const std::string& field);
// `tool_choice`: "none", "auto", "required", {"type":"function","function":{"name"}} or {"type":"function","name"}. required and named need
// tools, and the named one must be among them.
text::ToolChoice read_tool_choice(Fields& fields, const std::vector<text::ToolDefinition>& tools);
// What a model that may not call is told of: nothing. A named choice leaves the one tool.
void apply_tool_choice(text::Conversation& conversation);

// What the answer must look like.
struct OutputShape {
  enum class Kind : uint8_t { free, object, schema, grammar };
  Kind kind = Kind::free;
  text::Json schema = {};       // JSON Schema
  bool strict = false;          // keywords that no grammar can hold an answer to are refused rather than left out
  std::string grammar = {};     // GBNF
  std::string field = {};       // where it was asked for, for errors
};
// `name`: "response_format" with {"type":"json_schema","json_schema":{"schema"}}, or the flat {"type":"json_schema","schema"} that Responses
// sends as text.format; types text, json_object, json_schema. Fields are read in `fields`, so pass the object that holds it.
OutputShape read_output_format(Fields& fields, std::string_view name);

}  // namespace vigil::api
