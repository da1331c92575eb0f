// See thinking.hpp.
#include "server/api/thinking.hpp"

#include <string>

namespace vigil::api {

namespace {

using json = nlohmann::ordered_json;

void read_template_variables(Fields& fields, text::Conversation& conversation) {
  const json* variables = fields.object("chat_template_kwargs");
  if (!variables) return;
  conversation.template_variables = *variables;
  const auto thinking = variables->find("enable_thinking");
  if (thinking != variables->end() && thinking->is_boolean()) conversation.thinking = thinking->get<bool>();
  const auto effort = variables->find("reasoning_effort");
  if (effort != variables->end() && effort->is_string()) conversation.reasoning_effort = effort->get<std::string>();
}

// Anthropic's form, which several servers take in chats as well.
void read_thinking_object(Fields& fields, text::Conversation& conversation, Parameters& parameters) {
  const json* thinking = fields.object("thinking");
  if (!thinking) return;
  Fields inner(*thinking, fields.path("thinking"));
  const std::string type = inner.text("type").value_or("enabled");
  if (type == "disabled") {
    conversation.thinking = false;
  } else if (type == "enabled") {
    conversation.thinking = true;
  } else if (type != "adaptive" && type != "auto") {
    inner.fail("type", "must be enabled, disabled or adaptive");
  }
  if (const auto budget = inner.integer("budget_tokens", 0, max_tokens_limit)) parameters.max_thinking = *budget;
  if (inner.failed()) fields.fail(*inner.error());
}

}  // namespace

void set_effort(Fields& fields, const std::string& field, const std::string& effort, text::Conversation& conversation) {
  if (effort.size() > max_effort_bytes) return fields.fail(bad_field(field, "is longer than " + std::to_string(max_effort_bytes) + " bytes"));
  if (effort.empty()) return;
  if (effort == "none") {
    conversation.thinking = false;
    conversation.reasoning_effort.clear();
  } else {
    conversation.reasoning_effort = effort;
  }
}

void read_thinking(Fields& fields, text::Conversation& conversation, Parameters& parameters) {
  read_template_variables(fields, conversation);
  set_effort(fields, fields.path("reasoning_effort"), fields.text("reasoning_effort").value_or(""), conversation);
  if (const json* reasoning = fields.object("reasoning")) {
    Fields inner(*reasoning, fields.path("reasoning"));
    set_effort(inner, inner.path("effort"), inner.text("effort").value_or(""), conversation);
    if (const auto enabled = inner.flag("enabled")) conversation.thinking = *enabled;
    if (const auto most = inner.integer("max_tokens", 0, max_tokens_limit)) parameters.max_thinking = *most;
    if (inner.failed()) fields.fail(*inner.error());
  }
  read_thinking_object(fields, conversation, parameters);
  if (const auto enabled = fields.flag("enable_thinking")) conversation.thinking = *enabled;
  for (const char* name : {"max_thinking_tokens", "thinking_budget", "thinking_budget_tokens"}) {
    if (const auto most = fields.integer(name, 0, max_tokens_limit)) parameters.max_thinking = *most;
  }
  parameters.split_thinking = fields.flag("separate_reasoning").value_or(true);
}

bool read_continuation(Fields& fields, const std::vector<text::ChatMessage>& messages) {
  bool wanted = fields.flag("continue_final_message").value_or(false);
  const auto prompt = fields.flag("add_generation_prompt");
  if (wanted && prompt.value_or(false)) fields.fail("continue_final_message", "and add_generation_prompt cannot both be true");
  if (const json* list = fields.array("messages"); list && !list->empty() && list->back().is_object()) {
    Fields last(list->back(), fields.path("messages") + "[" + std::to_string(list->size() - 1) + "]");
    const auto prefix = last.flag("prefix");
    if (prefix.value_or(false)) wanted = true;
    if (last.failed()) fields.fail(*last.error());
  }
  if (!wanted || fields.failed()) return false;
  if (messages.empty() || messages.back().role != "assistant") {
    fields.fail("messages", "must end with an assistant's message that can be continued (continue_final_message, prefix)");
    return false;
  }
  if (!messages.back().tool_calls.empty()) {
    fields.fail("messages", "ends with an assistant's message that calls tools; it cannot be continued");
    return false;
  }
  return true;
}

}  // namespace vigil::api
