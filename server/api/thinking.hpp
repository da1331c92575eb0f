// What a chat's body says about thinking, template variables and whether its last message goes on. Not here: thinking in messages and answers.
#pragma once

#include <vector>

#include "server/api/parameters.hpp"
#include "server/api/request_fields.hpp"
#include "server/text/conversation.hpp"

namespace vigil::api {

inline constexpr size_t max_effort_bytes = 32;

// `enable_thinking`, `reasoning_effort` ("none" = no thinking), `thinking` {"type","budget_tokens"}, `max_thinking_tokens`,
// `separate_reasoning`, `chat_template_kwargs`. Where they differ, what is said by name counts more than chat_template_kwargs.
void read_thinking(Fields& fields, text::Conversation& conversation, Parameters& parameters);
// "none" switches thinking off; other words go to the template. Empty says nothing.
void set_effort(Fields& fields, const std::string& field, const std::string& effort, text::Conversation& conversation);
// Whether the answer goes on behind the last message, an assistant's: `prefix` true in it, or `continue_final_message` true.
bool read_continuation(Fields& fields, const std::vector<text::ChatMessage>& messages);

}  // namespace vigil::api
