// See responses_body.hpp.
#include "server/api/responses_body.hpp"

#include <utility>

#include "protocol/base64.hpp"
#include "server/json/json.hpp"
#include "server/text/utf8.hpp"

namespace vigil::api {

namespace {

using text::ChatMessage;
using text::ContentPart;
using text::Json;

constexpr std::string_view seal = "vigil1.";

std::string in_quotes(const std::string& value) { return "\"" + std::string(text::clip_utf8(value, 60)) + "\""; }
std::string at(const std::string& list, size_t index) { return list + "[" + std::to_string(index) + "]"; }
// A string field of an object that needs no check yet; null when it has none.
const Json* string_at(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? &*found : nullptr;
}

std::string flat_name(const std::string& space, const std::string& name) { return space + "__" + name; }

class Items {
 public:
  Items(Fields& fields, Pictures& pictures, std::vector<ChatMessage>& out) : fields_(fields), pictures_(pictures), out_(out) {}

  void read() {
    if (const auto instructions = fields_.text("instructions"); instructions && !instructions->empty()) {
      out_.push_back(ChatMessage{"system", {{ContentPart::Kind::text, *instructions}}});
    }
    const Json* input = fields_.find("input");
    if (!input) return fields_.fail("input", "is missing");
    if (input->is_string()) {
      out_.push_back(ChatMessage{"user", {{ContentPart::Kind::text, input->get<std::string>()}}});
      return;
    }
    if (!input->is_array() || input->empty()) return fields_.fail("input", "must be a string or an array with at least one item");
    for (size_t i = 0; i < input->size() && !fields_.failed(); ++i) {
      const std::string where = at("input", i);
      if (!(*input)[i].is_object()) return fields_.fail(bad_field(where, "must be an object"));
      Fields item((*input)[i], where);
      read_item(item, where);
      if (item.failed()) fields_.fail(*item.error());
    }
    if (out_.empty()) fields_.fail("input", "holds no message");
  }

 private:
  void read_item(Fields& item, const std::string& where) {
    const std::string type = item.text("type").value_or("message");
    if (type == "message") return read_message(item, where);
    if (type == "reasoning") return read_reasoning(item, where);
    if (type == "function_call") return read_call(item);
    if (type == "function_call_output") return read_output(item, where);
    if (item.failed()) return;
    if (type == "item_reference") return item.fail("type", "is \"item_reference\", and this server stores nothing: send the item itself");
    item.fail("type", "is " + in_quotes(type) + "; items of the types message, function_call, function_call_output and reasoning are supported");
  }

  void read_message(Fields& item, const std::string& where) {
    std::string role = item.text("role").value_or("");
    if (role == "developer") role = "system";
    if (role != "system" && role != "user" && role != "assistant") {
      return item.fail("role", role.empty() ? "is missing" : "is " + in_quotes(role) + "; it must be system, developer, user or assistant");
    }
    const Json* content = item.find("content");
    if (!content) return item.fail("content", "is missing");
    ChatMessage& message = role == "assistant" ? assistant() : role == "system" ? system() : out_.emplace_back(ChatMessage{role});
    read_content(item, *content, where + ".content", message);
  }

  void read_content(Fields& item, const Json& content, const std::string& where, ChatMessage& message) {
    if (content.is_string()) {
      message.content.push_back({ContentPart::Kind::text, content.get<std::string>()});
    } else if (content.is_array()) {
      for (size_t i = 0; i < content.size() && !item.failed(); ++i) read_part(item, content[i], at(where, i), message);
    } else {
      item.fail(bad_field(where, std::string("must be a string or an array of parts, not ") + content.type_name()));
    }
  }

  void read_part(Fields& item, const Json& value, const std::string& where, ChatMessage& message) {
    if (!value.is_object()) return item.fail(bad_field(where, "must be an object with a type"));
    Fields part(value, where);
    const std::string type = part.text("type").value_or("");
    if (type == "input_text" || type == "output_text" || type == "text" || type == "refusal") {
      const char* field = type == "refusal" ? "refusal" : "text";
      const auto text = part.text(field);
      if (text) {
        message.content.push_back({ContentPart::Kind::text, *text});
      } else {
        part.fail(field, "is missing");
      }
    } else if (is_picture_type(type)) {
      pictures_.take(part, where);
      message.content.push_back({ContentPart::Kind::picture});
    } else {
      part.fail("type", type.empty() ? "is missing" : "is " + in_quotes(type) + "; text parts and pictures are supported");
    }
    if (part.failed()) item.fail(*part.error());
  }

  // Instructions come in several messages; most templates know one system message at the beginning.
  ChatMessage& system() {
    if (out_.size() == 1 && out_.back().role == "system") {
      out_.back().content.push_back({ContentPart::Kind::text, "\n\n"});
      return out_.back();
    }
    return out_.emplace_back(ChatMessage{"system"});
  }

  // One turn of the assistant is spread over items: its thinking, its words, its calls.
  ChatMessage& assistant() {
    if (out_.empty() || out_.back().role != "assistant") out_.push_back(ChatMessage{"assistant"});
    return out_.back();
  }

  // The first that is there: the thinking as text, what we sealed, its summary.
  void read_reasoning(Fields& item, const std::string& where) {
    const std::string sealed = item.text("encrypted_content").value_or("");
    std::string reasoning = texts(item, "content", where);
    if (reasoning.empty() && sealed.starts_with(seal)) {
      auto opened = protocol::decode_base64(std::string_view(sealed).substr(seal.size()));
      if (opened) reasoning = text::valid_utf8(*opened);
    }
    if (reasoning.empty()) reasoning = texts(item, "summary", where);
    if (item.failed() || reasoning.empty()) return;
    ChatMessage& message = assistant();
    if (!message.content.empty() || !message.tool_calls.empty()) out_.push_back(ChatMessage{"assistant"});  // thinking opens a turn
    out_.back().reasoning += reasoning;
  }

  static std::string texts(Fields& item, const char* name, const std::string& where) {
    std::string out;
    const Json* parts = item.array(name);
    for (size_t i = 0; parts && i < parts->size() && !item.failed(); ++i) {
      if (!(*parts)[i].is_object()) {
        item.fail(bad_field(at(where + "." + name, i), "must be an object with a text"));
        break;
      }
      Fields part((*parts)[i], at(where + "." + name, i));
      if (!out.empty()) out += "\n\n";
      out += part.text("text").value_or("");
      if (part.failed()) item.fail(*part.error());
    }
    return out;
  }

  void read_call(Fields& item) {
    text::ToolCall call;
    call.id = item.text("call_id").value_or("");
    call.name = item.text("name").value_or("");
    if (call.name.empty()) item.fail("name", "is missing");
    if (const auto space = item.text("namespace"); space && !space->empty()) call.name = flat_name(*space, call.name);
    call.arguments = item.text("arguments").value_or("");
    if (call.arguments.empty()) call.arguments = "{}";
    if (item.failed()) return;
    names_[call.id] = call.name;
    assistant().tool_calls.push_back(std::move(call));
  }

  void read_output(Fields& item, const std::string& where) {
    const auto id = item.text("call_id");
    if (!id) return item.fail("call_id", "is missing");
    const auto named = names_.find(*id);
    if (named == names_.end()) return item.fail("call_id", "is " + in_quotes(*id) + ", and no function_call before it has that call_id");
    ChatMessage message{"tool"};
    message.tool_call_id = *id;
    message.name = named->second;
    if (const Json* output = item.find("output")) read_content(item, *output, where + ".output", message);
    if (!item.failed()) out_.push_back(std::move(message));
  }

  Fields& fields_;
  Pictures& pictures_;
  std::vector<ChatMessage>& out_;
  std::map<std::string, std::string, std::less<>> names_;
};

void read_namespace(Fields& inner, const std::string& where, ResponsesBody& out) {
  const std::string space = inner.text("name").value_or("");
  if (space.empty()) inner.fail("name", "is missing");
  const Json* tools = inner.array("tools");
  for (size_t i = 0; tools && i < tools->size() && !inner.failed(); ++i) {
    const std::string place = at(where + ".tools", i);
    if (!(*tools)[i].is_object()) return inner.fail(bad_field(place, "must be an object"));
    Fields nested((*tools)[i], place);
    const std::string type = nested.text("type").value_or("function");
    if (type != "function") nested.fail("type", "is " + in_quotes(type) + "; a namespace holds functions");
    if (nested.failed()) return inner.fail(*nested.error());
    auto tool = read_function(inner, (*tools)[i], place);
    if (!tool) return;
    const std::string flat = flat_name(space, tool->name);
    out.namespaced.emplace(flat, NamespacedName{space, tool->name});
    tool->name = flat;
    out.conversation.tools.push_back(std::move(*tool));
  }
}

void read_all_tools(Fields& fields, ResponsesBody& out) {
  const Json* tools = fields.array("tools");
  for (size_t i = 0; tools && i < tools->size() && !fields.failed(); ++i) {
    const std::string where = at("tools", i);
    if (!(*tools)[i].is_object()) return fields.fail(bad_field(where, "must be an object"));
    Fields inner((*tools)[i], where);
    const std::string type = inner.text("type").value_or("");
    if (type == "function") {
      if (auto tool = read_function(inner, (*tools)[i], where)) out.conversation.tools.push_back(std::move(*tool));
    } else if (type == "namespace") {
      read_namespace(inner, where, out);
    } else if (!type.starts_with("web_search")) {  // agents send it always and live without it: the model is not told of it
      inner.fail("type", type.empty() ? "is missing" : "is " + in_quotes(type) + "; tools that the server itself brings do not exist here, send functions");
    }
    if (inner.failed()) fields.fail(*inner.error());
    if (out.conversation.tools.size() > max_tools) fields.fail("tools", "holds more than " + std::to_string(max_tools) + " functions (max_tools)");
  }
  check_tool_names(fields, out.conversation.tools, "tools");
}

// As in the chat dialect, but that a function in a namespace is named by both names.
void read_choice(Fields& fields, text::Conversation& conversation) {
  const Json* choice = fields.find("tool_choice");
  const Json* space = choice && choice->is_object() ? string_at(*choice, "namespace") : nullptr;
  if (!space) {
    conversation.tool_choice = read_tool_choice(fields, conversation.tools);
  } else {
    const Json* name = string_at(*choice, "name");
    Json flat = Json::object();
    flat["tool_choice"]["name"] = flat_name(space->get<std::string>(), name ? name->get<std::string>() : "");
    Fields outer(flat);
    conversation.tool_choice = read_tool_choice(outer, conversation.tools);
    if (outer.failed()) fields.fail(*outer.error());
  }
  apply_tool_choice(conversation);
}

void read_reasoning_wish(Fields& fields, ResponsesBody& out) {
  if (const Json* reasoning = fields.object("reasoning")) {
    Fields inner(*reasoning, "reasoning");
    const std::string summary = inner.text("summary").value_or(inner.text("generate_summary").value_or("none"));
    out.summary_wanted = summary != "none";
    if (inner.failed()) return fields.fail(*inner.error());
  }
  const Json* include = fields.array("include");
  for (size_t i = 0; include && i < include->size(); ++i) {
    const Json& entry = (*include)[i];
    if (!entry.is_string()) return fields.fail("include", "must hold strings only");
    if (entry == "reasoning.encrypted_content") out.encrypted_wanted = true;
    if (entry == "message.output_text.logprobs") out.logprobs_wanted = true;
  }
}

void read_format(Fields& fields, ResponsesBody& out) {
  const Json* wish = fields.object("text");
  if (!wish) return;
  Fields inner(*wish, "text");
  out.shape = read_output_format(inner, "format");
  if (inner.failed()) fields.fail(*inner.error());
}

// What would need a memory that this server does not have.
void refuse_memory(Fields& fields) {
  const auto refuse = [&](const char* name, const char* why) {
    if (fields.find(name)) fields.fail(name, why);
  };
  refuse("previous_response_id", "is not supported: this server stores no responses; send the whole conversation in input");
  refuse("conversation", "is not supported: this server stores no conversations; send the whole conversation in input");
  refuse("prompt", "is not supported: this server stores no prompts; send instructions and input");
  if (fields.flag("background").value_or(false)) fields.fail("background", "is not supported: this server stores no responses to ask for later");
  const auto truncation = fields.text("truncation");
  if (truncation && *truncation != "auto" && *truncation != "disabled") fields.fail("truncation", "must be auto or disabled");
}

}  // namespace

ResponsesBody read_responses_body(Fields& fields, Pictures& pictures) {
  ResponsesBody out;
  refuse_memory(fields);
  Items(fields, pictures, out.conversation.messages).read();
  read_all_tools(fields, out);
  read_choice(fields, out.conversation);
  out.conversation.parallel_tool_calls = fields.flag("parallel_tool_calls").value_or(true);
  read_reasoning_wish(fields, out);
  read_format(fields, out);
  return out;
}

std::string seal_reasoning(std::string_view reasoning) { return std::string(seal) + protocol::encode_base64(reasoning); }

}  // namespace vigil::api
