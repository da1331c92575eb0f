// The body of POST /v1/responses as a conversation. Source: OpenAI's API reference (Responses). Not here: settings of the generation
// (parameters.hpp), replies (responses_reply.hpp).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "server/api/pictures.hpp"
#include "server/api/request_fields.hpp"
#include "server/api/tools.hpp"
#include "server/text/conversation.hpp"

namespace vigil::api {

// A tool that stood in a namespace is shown to the model by one name, `namespace__name`; its calls go back by both.
struct NamespacedName {
  std::string space, name;
};

struct ResponsesBody {
  text::Conversation conversation;
  std::map<std::string, NamespacedName, std::less<>> namespaced;  // by the name that the model knows
  bool summary_wanted = false;          // reasoning.summary: thinking goes out as a summary, else as reasoning text
  bool encrypted_wanted = false;        // include holds reasoning.encrypted_content
  bool logprobs_wanted = false;         // include holds message.output_text.logprobs
  OutputShape shape;                    // text.format
};

// Input: a string, or items: message (also without a type), function_call, function_call_output, reasoning. Ids of items are ignored.
// Failures stick to `fields`.
ResponsesBody read_responses_body(Fields& fields, Pictures& pictures);

// What stands in reasoning.encrypted_content: the thinking itself, so that a client who stores nothing else can send it back. It is no secret.
std::string seal_reasoning(std::string_view reasoning);

}  // namespace vigil::api
