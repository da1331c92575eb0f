// Replies of POST /v1/completions: text_completion, also for each event of a stream. Source: OpenAI's API reference.
#pragma once

#include <memory>
#include <string>

#include "server/api/reply_format.hpp"

namespace vigil::api {

// `echo`: text that stands before the answer (the prompt's); empty for none.
std::unique_ptr<ReplyFormat> make_completions_reply(ReplyFacts facts, std::string echo);

}  // namespace vigil::api
