// The body of POST /v1/messages and /v1/messages/count_tokens as a conversation. Source: Anthropic's API reference (Messages). Not here: settings
// of the generation (parameters.hpp), replies (messages_reply.hpp).
#pragma once

#include <cstdint>
#include <optional>

#include "server/api/pictures.hpp"
#include "server/api/request_fields.hpp"
#include "server/api/tools.hpp"
#include "server/text/conversation.hpp"

namespace vigil::api {

inline constexpr size_t max_stop_sequences = 64;  // Anthropic names no limit; each costs time for every byte of the answer

struct MessagesBody {
  text::Conversation conversation;
  std::optional<int64_t> thinking_budget;  // tokens
  OutputShape shape;                       // of output_config.format
};

// Roles: user, assistant (and system inside the list). Blocks: text, image, document with plain text, thinking, redacted_thinking (dropped), tool_use,
// tool_result. Neighbours of one role become one message, and each tool_result a message of its own, in order. A last message of the
// assistant is continued. Failures stick to `fields`.
MessagesBody read_messages_body(Fields& fields, Pictures& pictures);

}  // namespace vigil::api
