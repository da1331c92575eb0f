// POST /v1/responses: a body to a generation. Stateless: nothing is stored. Replies: responses_reply.cpp.
#include <optional>
#include <utility>

#include "server/api/generation.hpp"
#include "server/api/json_text.hpp"
#include "server/api/model_choice.hpp"
#include "server/api/responses_body.hpp"
#include "server/api/responses_reply.hpp"
#include "server/api/thinking.hpp"
#include "server/json/json.hpp"

namespace vigil::api {

namespace {

using json = nlohmann::ordered_json;

// A field of the request as it stands there, else what the reference has as its default.
void repeat_field(std::string& out, Fields& fields, const char* name, std::string_view absent) {
  const json* value = fields.find(name);
  out += '"';
  out += name;
  out += "\":";
  out += value ? value->dump() : std::string(absent);
  out += ',';
}

std::string echo(Fields& fields, const Parameters& parameters) {
  std::string out;
  repeat_field(out, fields, "instructions", "null");
  repeat_field(out, fields, "max_output_tokens", "null");
  repeat_field(out, fields, "max_tool_calls", "null");
  repeat_field(out, fields, "metadata", "{}");
  repeat_field(out, fields, "parallel_tool_calls", "true");
  repeat_field(out, fields, "prompt_cache_key", "null");
  repeat_field(out, fields, "reasoning", R"({"effort":null,"summary":null})");
  repeat_field(out, fields, "safety_identifier", "null");
  repeat_field(out, fields, "text", R"({"format":{"type":"text"}})");
  repeat_field(out, fields, "tool_choice", R"("auto")");
  repeat_field(out, fields, "tools", "[]");
  repeat_field(out, fields, "top_logprobs", "0");
  repeat_field(out, fields, "truncation", R"("disabled")");
  repeat_field(out, fields, "user", "null");
  out += R"("temperature":)";
  append_json_number(out, parameters.sampling.temperature.value_or(default_temperature));
  out += R"(,"top_p":)";
  append_json_number(out, parameters.sampling.top_p.value_or(1));
  out += R"(,"background":false,"previous_response_id":null,"service_tier":"default","store":false,)";
  return out;
}

std::optional<GenerationPlan> read_plan(Fields& fields, const std::shared_ptr<const Model>& served, const VisionStatus& vision) {
  GenerationPlan plan;
  plan.model = choose_model(fields, served);
  if (!plan.model) return std::nullopt;
  Parameters& parameters = plan.parameters;
  parameters.stream = fields.flag("stream").value_or(false);
  parameters.max_new = fields.integer("max_output_tokens", 1, max_tokens_limit).value_or(0);
  parameters.return_token_ids = false;
  read_sampling(fields, *plan.model->vocabulary, parameters.sampling);
  read_client(fields, parameters);
  Pictures pictures(vision);
  ResponsesBody body = read_responses_body(fields, pictures);
  read_thinking(fields, body.conversation, parameters);
  const auto top = fields.integer("top_logprobs", 0, protocol::max_logprobs);
  if (body.logprobs_wanted || top.value_or(0) > 0) parameters.sampling.logprobs = static_cast<int>(top.value_or(0));
  plan.pictures = pictures.release();
  if (!plan.pictures.empty() && !plan.model->image) fields.fail(no_image_token(plan.pictures.front()));
  if (fields.failed()) return std::nullopt;
  ResponsesWish wish;
  wish.echo = echo(fields, parameters);
  wish.namespaced = std::move(body.namespaced);
  wish.summary = body.summary_wanted;
  wish.encrypted = body.encrypted_wanted;
  plan.prompt = std::move(body.conversation);
  plan.shape = std::move(body.shape);
  plan.prompt_field = "input";
  plan.id_prefix = "resp_";
  plan.format = [wish = std::move(wish)](ReplyFacts facts) { return make_responses_reply(std::move(facts), wish); };
  return plan;
}

}  // namespace

std::unique_ptr<Exchange> Api::responses(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(request, channel, [&]() -> std::unique_ptr<Exchange> {
    return generate(state_, std::move(request), channel, [vision = state_->vision()](Fields& fields, const std::shared_ptr<const Model>& served) {
      return read_plan(fields, served, vision);
    });
  });
}

}  // namespace vigil::api
