// From a request's body to its reply: reading, templating and tokenising here or in the workers, the desk, and the sinks that turn tokens into
// a reply. Not here: fields of a body, shapes of a reply.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/api/parameters.hpp"
#include "server/api/prompt.hpp"
#include "server/api/reply_format.hpp"
#include "server/api/state.hpp"
#include "server/api/tools.hpp"

namespace vigil::api {

inline constexpr size_t max_prompt_text_bytes = 16 * 1024 * 1024;  // more than max_prompt_tokens of any usual text; tokenising takes time and memory
inline constexpr size_t max_prompt_tokens = 2'000'000;  // what fits one line to an engine (protocol::max_line_to_child_bytes) with room to spare

// What a dialect made of its body. A chat is a conversation (tools and their choice inside, apply_tool_choice() done); plain prompts give
// parameters.choices choices each, numbered prompt by prompt.
struct GenerationPlan {
  std::shared_ptr<const Model> model;
  Parameters parameters;
  std::string prompt_field;                                   // "messages" or "prompt", for errors about the prompt
  std::variant<text::Conversation, std::vector<TextPrompt>> prompt;
  std::vector<turn::Picture> pictures;                        // of the conversation, in the order of their places in the prompt
  OutputShape shape;                                          // of the answer
  std::string id_prefix;                                      // "chatcmpl-"
  std::function<std::unique_ptr<ReplyFormat>(ReplyFacts)> format;
};

// A dialect's reading of its body; runs perhaps on a worker's thread. Nothing when the fields have failed.
using PlanReader = std::function<std::optional<GenerationPlan>(Fields&, const std::shared_ptr<const Model>&)>;

// Answers on the channel now or later; null when now. `shape`: of errors before the reply has begun.
std::unique_ptr<Exchange> generate(const std::shared_ptr<ApiState>& state, HttpRequest request, std::shared_ptr<Channel> channel, PlanReader read,
                                   ErrorShape shape = openai_error);

// The same way up to the ids of the prompt, which are counted instead of sent; `body` makes the answer's body of their number. No field of the
// plan but model, prompt, prompt_field and pictures is used.
std::unique_ptr<Exchange> count_prompt(const std::shared_ptr<ApiState>& state, HttpRequest request, std::shared_ptr<Channel> channel, PlanReader read,
                                       std::function<std::string(int64_t tokens)> body, ErrorShape shape = openai_error);

}  // namespace vigil::api
