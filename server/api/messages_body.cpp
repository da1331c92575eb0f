// See messages_body.hpp.
#include "server/api/messages_body.hpp"

#include <map>
#include <string_view>
#include <utility>

#include "server/api/thinking.hpp"
#include "server/json/json.hpp"
#include "server/text/utf8.hpp"

namespace vigil::api {

namespace {

using text::ChatMessage;
using text::ContentPart;
using text::Json;

constexpr int64_t max_budget_tokens = int64_t{1} << 31;

std::string in_quotes(const std::string& value) { return "\"" + std::string(text::clip_utf8(value, 60)) + "\""; }
std::string at(const std::string& list, size_t index) { return list + "[" + std::to_string(index) + "]"; }

// Reads the list of messages; `names` remembers which tool each call was of, for its result.
class Turns {
 public:
  Turns(Fields& fields, Pictures& pictures, std::vector<ChatMessage>& out) : fields_(fields), pictures_(pictures), out_(out) {}

  void read_system() {
    const Json* system = fields_.find("system");
    if (!system) return;
    ChatMessage message{"system"};
    if (system->is_string()) {
      add_text(message, system->get<std::string>());
    } else if (system->is_array()) {
      for (size_t i = 0; i < system->size() && !fields_.failed(); ++i) read_system_block((*system)[i], at("system", i), message);
    } else {
      return fields_.fail("system", std::string("must be a string or an array of text blocks, not ") + system->type_name());
    }
    if (!message.content.empty()) out_.push_back(std::move(message));
  }

  void read_all() {
    const Json* messages = fields_.array("messages");
    if (!messages || messages->empty()) return fields_.fail("messages", messages ? "must not be empty" : "is missing");
    for (size_t i = 0; i < messages->size() && !fields_.failed(); ++i) read_message((*messages)[i], at("messages", i));
  }

 private:
  static void add_text(ChatMessage& message, std::string text) {
    if (!text.empty()) message.content.push_back({ContentPart::Kind::text, std::move(text)});
  }

  // The message that content of this role goes to: the last one when it is of the same role.
  ChatMessage& open(const std::string& role) {
    if (out_.empty() || out_.back().role != role || role == "tool") out_.push_back(ChatMessage{role});
    return out_.back();
  }

  void read_system_block(const Json& block, const std::string& where, ChatMessage& message) {
    if (!block.is_object()) return fields_.fail(bad_field(where, "must be a text block"));
    Fields inner(block, where);
    const auto type = inner.text("type");
    if (type && *type != "text") inner.fail("type", "is " + in_quotes(*type) + "; system takes text blocks only");
    const auto text = inner.text("text");
    if (!text && !inner.failed()) inner.fail("text", "is missing");
    if (inner.failed()) return fields_.fail(*inner.error());
    add_text(message, *text);
  }

  void read_message(const Json& value, const std::string& where) {
    if (!value.is_object()) return fields_.fail(bad_field(where, "must be an object"));
    Fields inner(value, where);
    const std::string role = inner.text("role").value_or("");
    if (role != "user" && role != "assistant" && role != "system") {
      inner.fail("role", role.empty() ? "is missing" : "is " + in_quotes(role) + "; it must be user or assistant");
    }
    const Json* content = inner.find("content");
    if (!content) inner.fail("content", "is missing");
    if (inner.failed()) return fields_.fail(*inner.error());
    const bool joins = !out_.empty() && out_.back().role == role && !out_.back().content.empty();
    if (joins && role != "assistant") add_text(out_.back(), "\n\n");
    if (content->is_string()) return add_text(open(role), content->get<std::string>());
    if (!content->is_array()) {
      return fields_.fail(bad_field(where + ".content", std::string("must be a string or an array of blocks, not ") + content->type_name()));
    }
    if (content->empty()) open(role);
    for (size_t i = 0; i < content->size() && !fields_.failed(); ++i) {
      const std::string place = at(where + ".content", i);
      if (!(*content)[i].is_object()) return fields_.fail(bad_field(place, "must be an object with a type"));
      Fields block((*content)[i], place);
      read_block(block, place, role);
      if (block.failed()) fields_.fail(*block.error());
    }
  }

  void read_block(Fields& block, const std::string& where, const std::string& role) {
    const std::string type = block.text("type").value_or("");
    if (type == "text" || type == "image" || type == "document") return read_shown(block, where, type, open(role));
    if (role == "assistant") {
      if (type == "thinking") {
        open(role).reasoning += block.text("thinking").value_or("");
        return;
      }
      if (type == "redacted_thinking") return;  // nothing that a model here could read
      if (type == "tool_use") return read_tool_use(block, open(role));
    }
    if (role == "user" && type == "tool_result") return read_tool_result(block, where);
    if (block.failed()) return;
    block.fail("type", type.empty() ? "is missing" : "is " + in_quotes(type) + ", which is not supported in a message of the role " + role);
  }

  // Blocks that may also stand in a tool's result.
  void read_shown(Fields& block, const std::string& where, const std::string& type, ChatMessage& message) {
    if (type == "image") {
      pictures_.take(block, where);
      message.content.push_back({ContentPart::Kind::picture});
      return;
    }
    if (type == "text") {
      const auto text = block.text("text");
      if (!text) return block.fail("text", "is missing");
      return add_text(message, *text);
    }
    const Json* source = block.object("source");
    if (!source) return block.fail("source", "is missing");
    Fields inner(*source, where + ".source");
    const std::string kind = inner.text("type").value_or("");
    const auto data = inner.text("data");
    if (kind != "text" || !data) return block.fail("source", "must be of the type \"text\" with its data; other documents are not read here");
    if (const auto title = block.text("title")) add_text(message, *title + "\n\n");
    add_text(message, *data);
  }

  void read_tool_use(Fields& block, ChatMessage& message) {
    text::ToolCall call;
    call.id = block.text("id").value_or("");
    const auto name = block.text("name");
    if (!name) return block.fail("name", "is missing");
    call.name = *name;
    const Json* input = block.object("input");
    call.arguments = input ? input->dump() : "{}";
    names_[call.id] = call.name;
    message.tool_calls.push_back(std::move(call));
  }

  void read_tool_result(Fields& block, const std::string& where) {
    const auto id = block.text("tool_use_id");
    if (!id) return block.fail("tool_use_id", "is missing");
    ChatMessage message{"tool"};
    message.tool_call_id = *id;
    const auto named = names_.find(*id);
    if (named == names_.end()) return block.fail("tool_use_id", "is " + in_quotes(*id) + ", and no tool_use block before it has that id");
    message.name = named->second;
    if (block.flag("is_error").value_or(false)) add_text(message, "Error: ");  // templates know no other way to say it
    const Json* content = block.find("content");
    if (content && content->is_string()) {
      add_text(message, content->get<std::string>());
    } else if (content && content->is_array()) {
      for (size_t i = 0; i < content->size() && !block.failed(); ++i) read_result_block(block, (*content)[i], at(where + ".content", i), message);
    } else if (content) {
      block.fail("content", std::string("must be a string or an array of blocks, not ") + content->type_name());
    }
    if (!block.failed()) out_.push_back(std::move(message));
  }

  void read_result_block(Fields& outer, const Json& value, const std::string& where, ChatMessage& message) {
    if (!value.is_object()) return outer.fail(bad_field(where, "must be an object with a type"));
    Fields inner(value, where);
    const std::string type = inner.text("type").value_or("");
    if (type == "text" || type == "image" || type == "document") {
      read_shown(inner, where, type, message);
    } else {
      inner.fail("type", type.empty() ? "is missing" : "is " + in_quotes(type) + ", which is not supported in a tool's result");
    }
    if (inner.failed()) outer.fail(*inner.error());
  }

  Fields& fields_;
  Pictures& pictures_;
  std::vector<ChatMessage>& out_;
  std::map<std::string, std::string, std::less<>> names_;
};

void read_custom_tools(Fields& fields, text::Conversation& conversation) {
  const Json* tools = fields.array("tools");
  if (!tools) return;
  if (tools->size() > max_tools) return fields.fail("tools", "holds more than " + std::to_string(max_tools) + " tools (max_tools)");
  for (size_t i = 0; i < tools->size() && !fields.failed(); ++i) {
    const std::string where = at("tools", i);
    if (!(*tools)[i].is_object()) return fields.fail(bad_field(where, "must be an object"));
    Fields inner((*tools)[i], where);
    const std::string type = inner.text("type").value_or("custom");
    if (type != "custom") inner.fail("type", "is " + in_quotes(type) + "; tools that the server itself brings do not exist here, send tools with an input_schema");
    text::ToolDefinition tool;
    tool.name = inner.text("name").value_or("");
    if (tool.name.empty()) inner.fail("name", "is missing");
    if (tool.name.size() > max_tool_name_bytes) inner.fail("name", "is longer than " + std::to_string(max_tool_name_bytes) + " bytes");
    tool.description = inner.text("description").value_or("");
    tool.strict = inner.flag("strict").value_or(false);
    if (const Json* schema = inner.object("input_schema")) tool.parameters = *schema;
    if (inner.failed()) return fields.fail(*inner.error());
    conversation.tools.push_back(std::move(tool));
  }
  check_tool_names(fields, conversation.tools, "tools");
}

void read_choice(Fields& fields, text::Conversation& conversation) {
  const Json* choice = fields.object("tool_choice");
  if (!choice) return;
  Fields inner(*choice, "tool_choice");
  const std::string type = inner.text("type").value_or("");
  using Kind = text::ToolChoice::Kind;
  if (type == "auto" || type == "any" || type == "none") {
    conversation.tool_choice.kind = type == "auto" ? Kind::automatic : type == "any" ? Kind::required : Kind::none;
  } else if (type == "tool") {
    conversation.tool_choice = {Kind::named, inner.text("name").value_or("")};
    bool declared = false;
    for (const text::ToolDefinition& tool : conversation.tools) declared |= tool.name == conversation.tool_choice.name;
    if (!declared) inner.fail("name", "is " + in_quotes(conversation.tool_choice.name) + ", which is none of the tools");
  } else {
    inner.fail("type", type.empty() ? "is missing" : "is " + in_quotes(type) + "; it must be auto, any, tool or none");
  }
  if (type == "any" && conversation.tools.empty()) inner.fail("type", "is \"any\", and there are no tools");
  conversation.parallel_tool_calls = !inner.flag("disable_parallel_tool_use").value_or(false);
  if (inner.failed()) return fields.fail(*inner.error());
  apply_tool_choice(conversation);
}

void read_thinking_wish(Fields& fields, MessagesBody& out) {
  out.conversation.thinking = false;  // as the reference says: off unless it is asked for
  if (const Json* thinking = fields.object("thinking")) {
    Fields inner(*thinking, "thinking");
    const std::string type = inner.text("type").value_or("");
    if (type == "enabled") {
      out.conversation.thinking = true;
      out.thinking_budget = inner.integer("budget_tokens", 1, max_budget_tokens);
    } else if (type == "adaptive") {
      out.conversation.thinking.reset();  // the model's own way
    } else if (type != "disabled") {
      inner.fail("type", type.empty() ? "is missing" : "is " + in_quotes(type) + "; it must be enabled, adaptive or disabled");
    }
    if (inner.failed()) return fields.fail(*inner.error());
  }
  const Json* config = fields.object("output_config");
  if (!config) return;
  Fields inner(*config, "output_config");
  set_effort(inner, "output_config.effort", inner.text("effort").value_or(""), out.conversation);
  out.shape = read_output_format(inner, "format");
  if (inner.failed()) fields.fail(*inner.error());
}

// The answer goes on behind a last message of the assistant.
void continue_last(Fields& fields, text::Conversation& conversation) {
  ChatMessage& last = conversation.messages.back();
  if (last.role != "assistant") return;
  if (!last.tool_calls.empty()) return fields.fail("messages", "end with a tool_use block; send its tool_result");
  if (last.content.empty() && last.reasoning.empty()) {
    conversation.messages.pop_back();
    if (conversation.messages.empty()) fields.fail("messages", "hold no text");
    return;
  }
  conversation.continue_last = true;
}

void refuse_servers(Fields& fields) {
  const Json* servers = fields.array("mcp_servers");
  if (servers && !servers->empty()) fields.fail("mcp_servers", "is not supported: this server calls no other; connect to them yourself and send tools");
}

}  // namespace

MessagesBody read_messages_body(Fields& fields, Pictures& pictures) {
  MessagesBody out;
  Turns turns(fields, pictures, out.conversation.messages);
  turns.read_system();
  turns.read_all();
  read_custom_tools(fields, out.conversation);
  read_choice(fields, out.conversation);
  read_thinking_wish(fields, out);
  refuse_servers(fields);
  if (!fields.failed()) continue_last(fields, out.conversation);
  return out;
}

}  // namespace vigil::api
