// The `messages` of a chat request, checked and brought to messages of a conversation. Not here: the prompt that they become (text/chat_prompt.hpp).
#pragma once

#include <vector>

#include "server/api/pictures.hpp"
#include "server/api/request_fields.hpp"
#include "server/text/conversation.hpp"

namespace vigil::api {

// Roles: system and developer (one and the same), user, assistant, tool (and its older name function). Content: a string, null or absent
// (assistant only), or an array of text parts and pictures, in order; `pictures` gets the bytes of the latter, of every turn. Failures stick
// to `fields`.
std::vector<text::ChatMessage> read_messages(Fields& fields, Pictures& pictures);
// Gives tool results without a name that of the call they answer, by its id.
void name_tool_results(std::vector<text::ChatMessage>& messages);

}  // namespace vigil::api
