// See chat_messages.hpp.
#include "server/api/chat_messages.hpp"

#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "server/text/utf8.hpp"

namespace vigil::api {

namespace {

using json = nlohmann::ordered_json;

std::string quoted(const std::string& value) { return "\"" + std::string(text::clip_utf8(value, 60)) + "\""; }

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
    inner.fail("type", type.empty() ? "is missing" : "is " + quoted(type) + "; text parts and pictures are supported");
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

// What an assistant called in an earlier turn.
void read_tool_calls(Fields& fields, text::ChatMessage& message) {
  const json* calls = fields.array("tool_calls");
  if (!calls) return;
  for (size_t i = 0; i < calls->size() && !fields.failed(); ++i) {
    const std::string where = fields.path("tool_calls") + "[" + std::to_string(i) + "]";
    const json& call = (*calls)[i];
    if (!call.is_object()) return fields.fail(bad_field(where, "must be an object"));
    Fields outer(call, where);
    text::ToolCall found;
    found.id = outer.text("id").value_or("");
    const json* function = outer.object("function");
    if (!function) return fields.fail(outer.failed() ? *outer.error() : bad_field(where + ".function", "is missing"));
    Fields inner(*function, where + ".function");
    const auto name = inner.text("name");
    found.arguments = inner.text("arguments").value_or("");
    if (inner.failed()) return fields.fail(*inner.error());
    if (!name) return fields.fail(bad_field(where + ".function.name", "is missing"));
    found.name = *name;
    if (found.arguments.empty()) found.arguments = "{}";
    message.tool_calls.push_back(std::move(found));
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
    inner.fail("role", "is " + quoted(*role) + "; it must be system, developer, user, assistant or tool");
  }
  if (message.role != "assistant" && !inner.find("content") && !inner.failed()) inner.fail("content", "is missing");
  read_content(inner, message, pictures);
  if (message.role == "assistant") read_tool_calls(inner, message);
  if (inner.failed()) fields.fail(*inner.error());
  return message;
}

}  // namespace

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
  return out;
}

}  // namespace vigil::api
