// Replies and errors of POST /v1/messages: a message, and its events. Source: Anthropic's API reference (Messages, Streaming, Errors).
#pragma once

#include <memory>
#include <string>

#include "server/api/errors.hpp"
#include "server/api/reply_format.hpp"

namespace vigil::api {

// What stands as the signature of thinking: clients send thinking back only with one. Nothing is signed, and none is checked.
inline constexpr std::string_view thinking_signature = "vigil";

std::unique_ptr<ReplyFormat> make_messages_reply(ReplyFacts facts);

// {"type":"error","error":{"type","message","code"}} with Anthropic's types.
std::string messages_error_object(const ErrorFacts& error);
Response messages_error(const ErrorFacts& error);

}  // namespace vigil::api
