// From a request's body to its reply: reading and tokenising here or in the workers, the desk, and the sink that turns tokens into a reply.
// Not here: fields of a body, shapes of a reply.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/api/parameters.hpp"
#include "server/api/reply_format.hpp"
#include "server/api/state.hpp"

namespace vigil::api {

inline constexpr size_t max_prompt_text_bytes = 16 * 1024 * 1024;  // more than max_prompt_tokens of any usual text; tokenising takes time and memory
inline constexpr size_t max_prompt_tokens = 2'000'000;  // what fits one line to an engine (protocol::max_line_to_child_bytes) with room to spare

struct GenerationPlan {
  std::shared_ptr<const Model> model;
  Parameters parameters;
  std::string prompt_field;                                   // "messages" or "prompt", for errors about the prompt
  size_t text_bytes = 0;                                      // how long the tokenising will take
  std::function<std::vector<gguf::TokenId>()> tokenise;       // perhaps on a worker's thread
  std::vector<turn::Picture> pictures;                        // in the order of their places in the prompt
  std::string id_prefix;                                      // "chatcmpl-"
  std::function<std::unique_ptr<ReplyFormat>(ReplyFacts)> format;
};

// A dialect's reading of its body; runs perhaps on a worker's thread. Nothing when the fields have failed.
using PlanReader = std::function<std::optional<GenerationPlan>(Fields&, const std::shared_ptr<const Model>&)>;

// Answers on the channel now or later; null when now.
std::unique_ptr<Exchange> generate(const std::shared_ptr<ApiState>& state, HttpRequest request, std::shared_ptr<Channel> channel, PlanReader read);

}  // namespace vigil::api
