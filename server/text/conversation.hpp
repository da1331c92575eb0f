// A conversation as every dialect hands it to the chat template: messages, tools and wishes, checked, with no trace of the dialect's JSON.
// Not here: fields of a body (server/api), the prompt that becomes of it (chat_template.hpp).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/json/json.hpp"


namespace vigil::text {

using Json = nlohmann::ordered_json;  // members keep the order they were sent in: templates print them, and models were trained on that order

struct ContentPart {
  enum class Kind { text, picture };
  Kind kind = Kind::text;
  std::string text = {};        // valid UTF-8; empty for a picture
};

// A call that an assistant made in an earlier turn.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;        // as sent, usually a JSON object; "{}" when the client sent nothing
};

struct ChatMessage {
  std::string role;             // system, user, assistant or tool; developer has become system, function has become tool
  std::vector<ContentPart> content = {};
  std::string reasoning = {};   // assistant: the thinking of that turn, when the client sends it back
  std::vector<ToolCall> tool_calls = {};  // assistant
  std::string tool_call_id = {};          // tool: which call this answers
  std::string name = {};        // tool: the function's name, taken from the call of that id when not sent; else the sender's name
};

struct ToolDefinition {
  std::string name;
  std::string description = {};
  Json parameters = Json::object();       // JSON Schema of the arguments
  bool strict = false;
};

struct ToolChoice {
  enum class Kind { none, automatic, required, named };
  Kind kind = Kind::automatic;
  std::string name = {};        // named
};

struct Conversation {
  std::vector<ChatMessage> messages;      // at least one
  std::vector<ToolDefinition> tools = {}; // what the model is told of
  ToolChoice tool_choice = {};
  bool parallel_tool_calls = true;
  std::optional<bool> thinking = {};      // nothing = the template's own default
  std::string reasoning_effort = {};      // "low", "medium", "high"…; empty = not said
  bool continue_last = false;             // the last message is an assistant's, and the answer goes on behind it
  Json template_variables = Json::object();  // chat_template_kwargs: further variables, as sent
};

}  // namespace vigil::text
