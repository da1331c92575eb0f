// Replies of POST /v1/completions: text_completion, also for each event of a stream. Source: OpenAI's API reference.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/api/reply_format.hpp"

namespace vigil::api {

// `echoes`: text that stands before the answers to each prompt (the prompt's); empty for none.
std::unique_ptr<ReplyFormat> make_completions_reply(ReplyFacts facts, std::vector<std::string> echoes);

}  // namespace vigil::api
