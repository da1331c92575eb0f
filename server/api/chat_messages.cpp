// See chat_messages.hpp.
#include "server/api/chat_messages.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "server/json/json.hpp"
#include "server/text/utf8.hpp"

namespace vigil::api {

namespace {

using json = nlohmann::ordered_json;

std::string in_quotes(const std::string& value) { return "\"" + std::string(text::clip_utf8(value, 60)) + "\""; }

std::optional<std::string> known_role(const std::string& role) {
  if (role == "developer") return "system";
  if (role == "function") return "tool";
  if (role == "system" || role == "user" || role == "assistant" || role == "tool") return role;
  return std::nullopt;
}

void add_text(text::ChatMessage& message, std::string text) { message.content.push_back({text::ContentPart::Kind::text, std::move(text)}); }

// One element of a content array; it goes onto the message's.
void read_part(const json& part, const std::string& where, Fields& fields, text::ChatMessage& message, Pictures& pictures) {
  if (part.is_string()) {
    return add_text(message, part.get<std::string>());
  }
  if (!part.is_object()) return fields.fail(bad_field(where, "must be an object with a type"));
  Fields inner(part, where);
  const std::string type = inner.text("type").value_or("");
  const char* field = type == "refusal" ? "refusal" : "text";
  if (type == "text" || type == "input_text" || type == "output_text" || type == "refusal") {
    const auto text = inner.text(field);
    if (!text && !inner.failed()) inner.fail(field, "is missing");
    if (text) add_text(message, *text);
  } else if (is_picture_type(type)) {
    pictures.take(inner, where);
    message.content.push_back({text::ContentPart::Kind::picture});
  } else if (!inner.failed()) {
    inner.fail("type", type.empty() ? "is missing" : "is " + in_quotes(type) + "; text parts and pictures are supported");
  }
  if (inner.failed()) fields.fail(*inner.error());
}

void read_content(Fields& fields, text::ChatMessage& message, Pictures& pictures) {
  const json* content = fields.find("content");
  if (!content) return;
  if (content->is_string()) {
    return add_text(message, content->get<std::string>());
  }
  if (!content->is_array()) return fields.fail("content", std::string("must be a string or an array of parts, not ") + content->type_name());
  for (size_t i = 0; i < content->size() && !fields.failed(); ++i) {
    read_part((*content)[i], fields.path("content") + "[" + std::to_string(i) + "]", fields, message, pictures);
  }
}

// {"name","arguments"}: arguments are JSON text; an object, which some clients send, is written as text.
std::optional<text::ToolCall> read_called_function(Fields& fields, const json& function, const std::string& where) {
  Fields inner(function, where);
  text::ToolCall call;
  call.name = inner.text("name").value_or("");
  if (const json* arguments = inner.find("arguments"); arguments && arguments->is_object()) {
    call.arguments = arguments->dump(-1, ' ', false, json::error_handler_t::replace);
  } else {
    call.arguments = inner.text("arguments").value_or("");
  }
  if (call.arguments.empty()) call.arguments = "{}";
  if (call.name.empty()) inner.fail("name", "is missing");
  if (!inner.failed()) return call;
  fields.fail(*inner.error());
  return std::nullopt;
}

// What an assistant called in an earlier turn.
void read_tool_calls(Fields& fields, text::ChatMessage& message) {
  const json* calls = fields.array("tool_calls");
  for (size_t i = 0; calls && i < calls->size() && !fields.failed(); ++i) {
    const std::string where = fields.path("tool_calls") + "[" + std::to_string(i) + "]";
    const json& value = (*calls)[i];
    if (!value.is_object()) return fields.fail(bad_field(where, "must be an object"));
    Fields outer(value, where);
    std::string id = outer.text("id").value_or("");
    const json* function = outer.object("function");
    if (!function) return fields.fail(outer.failed() ? *outer.error() : bad_field(where + ".function", "is missing"));
    auto call = read_called_function(outer, *function, where + ".function");
    if (!call) return fields.fail(*outer.error());
    call->id = std::move(id);
    message.tool_calls.push_back(std::move(*call));
  }
  const json* legacy = fields.object("function_call");
  if (!legacy) return;
  if (auto call = read_called_function(fields, *legacy, fields.path("function_call"))) message.tool_calls.push_back(std::move(*call));
}

// The thinking of an earlier turn, under either of its names.
void read_reasoning(Fields& fields, text::ChatMessage& message) {
  const auto first = fields.text("reasoning_content");
  const json* second = fields.find("reasoning");
  if (first && !first->empty()) {
    message.reasoning = *first;
  } else if (second && second->is_string()) {
    message.reasoning = second->get<std::string>();
  }
}

text::ChatMessage read_message(const json& value, const std::string& where, Fields& fields, Pictures& pictures) {
  text::ChatMessage message;
  if (!value.is_object()) {
    fields.fail(bad_field(where, "must be an object"));
    return message;
  }
  Fields inner(value, where);
  const auto role = inner.text("role");
  if (!role) {
    inner.fail("role", "is missing");
  } else if (const auto known = known_role(*role)) {
    message.role = *known;
  } else {
    inner.fail("role", "is " + in_quotes(*role) + "; it must be system, developer, user, assistant or tool");
  }
  if (message.role != "assistant" && !inner.find("content") && !inner.failed()) inner.fail("content", "is missing");
  read_content(inner, message, pictures);
  if (message.role == "assistant") {
    read_tool_calls(inner, message);
    read_reasoning(inner, message);
  }
  message.name = inner.text("name").value_or("");
  if (message.role == "tool") message.tool_call_id = inner.text("tool_call_id").value_or("");
  if (inner.failed()) fields.fail(*inner.error());
  return message;
}

}  // namespace

void name_tool_results(std::vector<text::ChatMessage>& messages) {
  std::map<std::string_view, std::string_view> names;  // call ids; the last call of an id counts
  for (text::ChatMessage& message : messages) {
    for (const text::ToolCall& call : message.tool_calls)
      if (!call.id.empty()) names[call.id] = call.name;
    if (message.role != "tool" || !message.name.empty()) continue;
    const auto found = names.find(message.tool_call_id);
    if (found != names.end()) message.name = found->second;
  }
}

std::vector<text::ChatMessage> read_messages(Fields& fields, Pictures& pictures) {
  std::vector<text::ChatMessage> out;
  const json* messages = fields.array("messages");
  if (!messages || messages->empty()) {
    fields.fail("messages", messages ? "must not be empty" : "is missing");
    return out;
  }
  for (size_t i = 0; i < messages->size() && !fields.failed(); ++i) {
    out.push_back(read_message((*messages)[i], "messages[" + std::to_string(i) + "]", fields, pictures));
  }
  name_tool_results(out);
  return out;
}

}  // namespace vigil::api
