// See chat_template_inputs.hpp.
#include "server/text/chat_template_inputs.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/text/jinja/template.hpp"

namespace vigil::text {

namespace {

constexpr std::string_view between_merged = "\n\n";

std::string text_of(const ChatMessage& message) {
  std::string out;
  for (const ContentPart& part : message.content) out += part.text;
  return out;
}

bool has_picture(const ChatMessage& message) {
  return std::any_of(message.content.begin(), message.content.end(), [](const ContentPart& part) { return part.kind == ContentPart::Kind::picture; });
}

void add_text(ChatMessage& message, std::string_view text) { message.content.push_back({ContentPart::Kind::text, std::string(text)}); }

void put_in_front(ChatMessage& message, const std::string& text) {
  if (!message.content.empty()) message.content.insert(message.content.begin(), {ContentPart::Kind::text, std::string(between_merged)});
  message.content.insert(message.content.begin(), {ContentPart::Kind::text, text});
}

Json parsed_or_text(const std::string& arguments) {
  Json out = Json::parse(arguments, nullptr, false);
  return out.is_object() ? out : Json(arguments);
}

std::string dumped(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json tool_json(const ToolDefinition& tool) {
  Json function = Json::object();
  function["name"] = tool.name;
  function["description"] = tool.description;
  function["parameters"] = tool.parameters;
  return Json{{"type", "function"}, {"function", std::move(function)}};
}

// What a model without a form for tools is told; the answer's form is the one that most models know.
std::string tool_list(const std::vector<ToolDefinition>& tools) {
  std::string out = "You can call these functions; each is described by one line of JSON:\n<tools>\n";
  for (const ToolDefinition& tool : tools) out += dumped(tool_json(tool)) + "\n";
  return out + "</tools>\nTo call a function, answer with its name and arguments as JSON between tags:\n<tool_call>\n"
               "{\"name\": \"the function's name\", \"arguments\": {\"the argument's name\": \"its value\"}}\n</tool_call>";
}

std::string call_text(const ToolCall& call) {
  return "<tool_call>\n{\"name\": " + dumped(Json(call.name)) + ", \"arguments\": " + (call.arguments.empty() ? "{}" : call.arguments) + "}\n</tool_call>";
}

// Calls and results as text, for templates that would leave them out.
void write_tools_as_text(std::vector<ChatMessage>& messages, const TemplateShape& shape) {
  for (ChatMessage& message : messages) {
    if (!shape.tool_calls) {
      for (const ToolCall& call : message.tool_calls) add_text(message, (message.content.empty() ? "" : "\n") + call_text(call));
      message.tool_calls.clear();
    }
    if (message.role != "tool" || shape.tool_results) continue;
    message.role = "user";
    message.content.insert(message.content.begin(), {ContentPart::Kind::text, "<tool_response>\n"});
    add_text(message, "\n</tool_response>");
    message.tool_call_id.clear();
    message.name.clear();
  }
}

// System texts go in front of the first message of a user.
void move_system(std::vector<ChatMessage>& messages) {
  std::string all;
  std::erase_if(messages, [&all](const ChatMessage& message) {
    if (message.role != "system") return false;
    const std::string text = text_of(message);
    if (!text.empty()) all += (all.empty() ? std::string() : std::string(between_merged)) + text;
    return true;
  });
  if (all.empty()) return;
  const auto user = std::find_if(messages.begin(), messages.end(), [](const ChatMessage& message) { return message.role == "user"; });
  if (user != messages.end()) return put_in_front(*user, all);
  ChatMessage fresh{"user"};
  add_text(fresh, all);
  messages.insert(messages.begin(), std::move(fresh));
}

void merge_neighbours(std::vector<ChatMessage>& messages) {
  std::vector<ChatMessage> out;
  for (ChatMessage& message : messages) {
    const bool joins = !out.empty() && out.back().role == message.role && message.role != "tool" && out.back().tool_calls.empty();
    if (!joins) {
      out.push_back(std::move(message));
      continue;
    }
    ChatMessage& last = out.back();
    if (!last.content.empty() && !message.content.empty()) add_text(last, between_merged);
    for (ContentPart& part : message.content) last.content.push_back(std::move(part));
    if (!last.reasoning.empty() && !message.reasoning.empty()) last.reasoning += between_merged;
    last.reasoning += message.reasoning;
    last.tool_calls = std::move(message.tool_calls);
  }
  messages = std::move(out);
}

Json marked_text(const std::string& text) {
  std::vector<uint8_t> bytes(text.begin(), text.end());
  return Json::binary(std::move(bytes));
}

Json content_json(const ChatMessage& message, const TemplateShape& shape, bool marked) {
  if (shape.content_parts || (shape.pictures && has_picture(message))) {
    Json parts = Json::array();
    for (const ContentPart& part : message.content) {
      if (part.kind == ContentPart::Kind::picture) {
        if (shape.pictures) {
          parts.push_back(Json{{"type", "image"}});
        } else {
          parts.push_back(Json{{"type", "text"}, {"text", marked_text(end_mark())}});
        }
      } else {
        parts.push_back(Json{{"type", "text"}, {"text", part.text}});
      }
    }
    if (marked) parts.push_back(Json{{"type", "text"}, {"text", marked_text(end_mark())}});
    return parts;
  }
  std::string text;
  bool marks = marked;
  for (const ContentPart& part : message.content) {
    marks = marks || part.kind == ContentPart::Kind::picture;
    text += part.kind == ContentPart::Kind::picture ? end_mark() : part.text;
  }
  if (marked) text += end_mark();
  return marks ? marked_text(text) : Json(std::move(text));
}

Json message_json(const ChatMessage& message, const TemplateShape& shape, bool marked) {
  Json out = Json::object();
  out["role"] = message.role;
  const bool null = message.role == "assistant" && message.content.empty() && !message.tool_calls.empty() && shape.null_content && !marked;
  out["content"] = null ? Json(nullptr) : content_json(message, shape, marked);
  if (!message.reasoning.empty()) out[shape.reasoning_key] = message.reasoning;
  if (!message.tool_calls.empty()) {
    Json calls = Json::array();
    for (const ToolCall& call : message.tool_calls) {
      Json function = Json::object();
      function["name"] = call.name;
      function["arguments"] = shape.arguments_object ? parsed_or_text(call.arguments) : Json(call.arguments);
      Json one = Json::object();
      if (!call.id.empty()) one["id"] = call.id;
      one["type"] = "function";
      one["function"] = std::move(function);
      calls.push_back(std::move(one));
    }
    out["tool_calls"] = std::move(calls);
  }
  if (!message.tool_call_id.empty()) out["tool_call_id"] = message.tool_call_id;
  if (!message.name.empty()) out["name"] = message.name;
  return out;
}

}  // namespace

std::string end_mark() { return std::string(1, static_cast<char>(jinja::picture_mark)); }

TemplateVariables template_variables(const Conversation& conversation, const TemplateShape& shape, Neighbours neighbours) {
  TemplateVariables out;
  std::vector<ChatMessage> messages = conversation.messages;
  if (!conversation.tools.empty() && shape.tools) {
    out.tools = Json::array();
    for (const ToolDefinition& tool : conversation.tools) out.tools.push_back(tool_json(tool));
  } else if (!conversation.tools.empty()) {
    if (messages.empty() || messages.front().role != "system") messages.insert(messages.begin(), ChatMessage{"system"});
    ChatMessage& system = messages.front();
    if (!system.content.empty()) add_text(system, between_merged);
    add_text(system, tool_list(conversation.tools));
  }
  write_tools_as_text(messages, shape);
  if (!shape.system) move_system(messages);
  if (neighbours == Neighbours::merged) merge_neighbours(messages);
  for (size_t i = 0; i < messages.size(); ++i) {
    out.messages.push_back(message_json(messages[i], shape, conversation.continue_last && i + 1 == messages.size()));
  }
  return out;
}

}  // namespace vigil::text
