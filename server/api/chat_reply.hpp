// Replies of POST /v1/chat/completions: chat.completion and chat.completion.chunk. Source: OpenAI's API reference.
#pragma once

#include <memory>

#include "server/api/reply_format.hpp"

namespace vigil::api {

std::unique_ptr<ReplyFormat> make_chat_reply(ReplyFacts facts);

}  // namespace vigil::api
