// Replies of POST /v1/responses: a response object, and its events. Source: OpenAI's API reference (Responses, Streaming events).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "server/api/reply_format.hpp"
#include "server/api/responses_body.hpp"

namespace vigil::api {

// What a response repeats of its request, and how thinking and calls go out.
struct ResponsesWish {
  std::string echo;   // fields of the response object that stand still: "instructions":…,"tools":[…], with a comma behind the last
  std::map<std::string, NamespacedName, std::less<>> namespaced;
  bool summary = false, encrypted = false;
};

std::unique_ptr<ReplyFormat> make_responses_reply(ReplyFacts facts, ResponsesWish wish);

}  // namespace vigil::api
