// See dialect.hpp.
#include "server/api/dialect.hpp"

#include <string>

#include <nlohmann/json.hpp>

namespace vigil::api {

namespace {

using json = nlohmann::ordered_json;

bool asks_for_nothing(const json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_structured() && value.empty();
}

void refuse_tool_choice(Fields& fields, std::string_view name) {
  const json* choice = fields.find(name);
  if (!choice || *choice == "none" || *choice == "auto") return;
  fields.fail(name, "asks for a tool call, and this server does not do tool calls yet; send \"none\" or \"auto\"");
}

}  // namespace

void refuse_if_asked(Fields& fields, std::string_view name, std::string_view why) {
  const json* value = fields.find(name);
  if (value && !asks_for_nothing(*value)) fields.fail(name, std::string(why));
}

void refuse_tools_and_formats(Fields& fields) {
  constexpr std::string_view no_tools = "is not supported: this server does not do tool calls yet; leave it out or send an empty list";
  fields.array("tools");
  refuse_if_asked(fields, "tools", no_tools);
  refuse_if_asked(fields, "functions", no_tools);
  refuse_tool_choice(fields, "tool_choice");
  refuse_tool_choice(fields, "function_call");
  if (const json* format = fields.object("response_format")) {
    Fields inner(*format, fields.path("response_format"));
    const auto type = inner.text("type");
    if (inner.failed()) {
      fields.fail(*inner.error());
    } else if (!type || *type != "text") {
      fields.fail("response_format",
                  "has a type that is not supported: this server gives text only for now; send {\"type\":\"text\"} or leave it out");
    }
  }
  for (const std::string_view name :
       {"grammar", "json_schema", "guided_json", "guided_regex", "guided_choice", "guided_grammar", "structured_outputs"}) {
    refuse_if_asked(fields, name, "is not supported: this server does not do structured output yet; leave it out");
  }
}

}  // namespace vigil::api
