// The `messages` of a chat request, checked and brought to role and text. Not here: the prompt that they become (text/chat_prompt.hpp).
#pragma once

#include <vector>

#include "server/api/pictures.hpp"
#include "server/api/request_fields.hpp"
#include "server/text/chat_prompt.hpp"

namespace vigil::api {

// Roles: system and developer (one and the same), user, assistant, tool (and its older name function). Content: a string, null or absent
// (assistant only), or an array of text parts and pictures, joined in order; `pictures` gets the latter, of every turn. Tool calls of earlier assistant messages become text in the form
// <tool_call>\n{"name": …, "arguments": …}\n</tool_call>. Failures stick to `fields`.
std::vector<text::ChatMessage> read_messages(Fields& fields, Pictures& pictures);

}  // namespace vigil::api
