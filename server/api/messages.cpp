// POST /v1/messages and /v1/messages/count_tokens: a body to a generation, or to the number of its prompt's tokens. Replies: messages_reply.cpp.
#include <optional>
#include <utility>

#include "server/api/generation.hpp"
#include "server/api/messages_body.hpp"
#include "server/api/messages_reply.hpp"
#include "server/api/model_choice.hpp"
#include "server/json/json.hpp"

namespace vigil::api {

namespace {

std::optional<GenerationPlan> read_plan(Fields& fields, const std::shared_ptr<const Model>& served, const VisionStatus& vision) {
  GenerationPlan plan;
  plan.model = choose_model(fields, served);
  if (!plan.model) return std::nullopt;
  Parameters& parameters = plan.parameters;
  parameters.stream = fields.flag("stream").value_or(false);
  parameters.max_new = fields.integer("max_tokens", 1, max_tokens_limit).value_or(0);
  parameters.stop = read_stop_strings(fields, "stop_sequences", max_stop_sequences);
  parameters.return_token_ids = fields.flag("return_token_ids").value_or(false);
  read_sampling(fields, *plan.model->vocabulary, parameters.sampling);
  read_client(fields, parameters);
  Pictures pictures(vision);
  MessagesBody body = read_messages_body(fields, pictures);
  plan.pictures = pictures.release();
  if (!plan.pictures.empty() && !plan.model->image) fields.fail(no_image_token(plan.pictures.front()));
  if (fields.failed()) return std::nullopt;
  parameters.max_thinking = body.thinking_budget;
  plan.prompt = std::move(body.conversation);
  plan.shape = std::move(body.shape);
  plan.prompt_field = "messages";
  plan.id_prefix = "msg_";
  plan.format = [](ReplyFacts facts) { return make_messages_reply(std::move(facts)); };
  return plan;
}

PlanReader plan_reader(VisionStatus vision) {
  return [vision = std::move(vision)](Fields& fields, const std::shared_ptr<const Model>& served) { return read_plan(fields, served, vision); };
}

}  // namespace

std::unique_ptr<Exchange> Api::messages(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(
      request, channel,
      [&]() -> std::unique_ptr<Exchange> { return generate(state_, std::move(request), channel, plan_reader(state_->vision()), messages_error); },
      messages_error);
}

std::unique_ptr<Exchange> Api::count_tokens(HttpRequest request, std::shared_ptr<Channel> channel) {
  const auto body = [](int64_t tokens) { return R"({"input_tokens":)" + std::to_string(tokens) + "}"; };
  return guarded(
      request, channel,
      [&]() -> std::unique_ptr<Exchange> {
        return count_prompt(state_, std::move(request), channel, plan_reader(state_->vision()), body, messages_error);
      },
      messages_error);
}

Response messages_error_response(const turn::RequestError& error) { return messages_error(error_facts(error)); }

}  // namespace vigil::api
