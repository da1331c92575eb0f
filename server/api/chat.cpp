// POST /v1/chat/completions: a body to a generation. Replies are written by chat_reply.cpp.
#include <optional>
#include <utility>

#include "server/api/chat_messages.hpp"
#include "server/api/chat_reply.hpp"
#include "server/api/dialect.hpp"
#include "server/api/generation.hpp"
#include "server/api/model_choice.hpp"
#include "server/api/thinking.hpp"
#include "server/json/json.hpp"

namespace vigil::api {

namespace {

using json = nlohmann::ordered_json;

void read_logprobs(Fields& fields, protocol::Sampling& sampling) {
  const bool wanted = fields.flag("logprobs").value_or(false);
  const auto top = fields.integer("top_logprobs", 0, protocol::max_logprobs);
  if (top && *top > 0 && !wanted) fields.fail("top_logprobs", "needs logprobs to be true");
  if (wanted) sampling.logprobs = static_cast<int>(top.value_or(0));
}

void refuse_unsupported(Fields& fields) {
  refuse_if_asked(fields, "functions", "is OpenAI's older form; send tools");
  const json* legacy = fields.find("function_call");
  if (legacy && *legacy != "none" && *legacy != "auto") fields.fail("function_call", "is OpenAI's older form; send tools and tool_choice");
  if (const json* modalities = fields.array("modalities")) {
    for (const json& entry : *modalities) {
      if (entry != "text") fields.fail("modalities", "may hold \"text\" only");
    }
  }
  refuse_if_asked(fields, "audio", "is not supported: this server gives text only");
  refuse_if_asked(fields, "web_search_options", "is not supported: this server does not search");
}

std::optional<GenerationPlan> read_chat(Fields& fields, const std::shared_ptr<const Model>& served, const VisionStatus& vision) {
  GenerationPlan plan;
  plan.model = choose_model(fields, served);
  if (!plan.model) return std::nullopt;
  plan.parameters = read_parameters(fields, *plan.model->vocabulary);
  read_logprobs(fields, plan.parameters.sampling);
  refuse_unsupported(fields);
  Pictures pictures(vision);
  text::Conversation conversation;
  conversation.messages = read_messages(fields, pictures);
  conversation.tools = read_tools(fields);
  conversation.tool_choice = read_tool_choice(fields, conversation.tools);
  conversation.parallel_tool_calls = fields.flag("parallel_tool_calls").value_or(true);
  apply_tool_choice(conversation);
  read_thinking(fields, conversation, plan.parameters);
  conversation.continue_last = read_continuation(fields, conversation.messages);
  plan.shape = read_shape(fields);
  plan.pictures = pictures.release();
  if (!plan.pictures.empty() && !plan.model->image) fields.fail(no_image_token(plan.pictures.front()));
  if (fields.failed()) return std::nullopt;
  plan.prompt = std::move(conversation);
  plan.prompt_field = "messages";
  plan.id_prefix = "chatcmpl-";
  plan.format = [](ReplyFacts facts) { return make_chat_reply(std::move(facts)); };
  return plan;
}

}  // namespace

std::unique_ptr<Exchange> Api::chat_completions(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(request, channel, [&]() -> std::unique_ptr<Exchange> {
    return generate(state_, std::move(request), channel, [vision = state_->vision()](Fields& fields, const std::shared_ptr<const Model>& served) {
      return read_chat(fields, served, vision);
    });
  });
}

}  // namespace vigil::api
