// POST /v1/tokenize and /v1/detokenize: text to ids and back, without the engine.
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "server/api/body.hpp"
#include "server/api/generation.hpp"
#include "server/api/json_text.hpp"
#include "server/api/model_choice.hpp"
#include "server/api/request_fields.hpp"
#include "server/api/state.hpp"
#include "server/json/json.hpp"

namespace vigil::api {

namespace {

using json = nlohmann::ordered_json;

// The client may leave while a worker has its text; the answer is then dropped.
class Waiting final : public Exchange {
 public:
  explicit Waiting(std::shared_ptr<Flow> flow) : flow_(std::move(flow)) {}
  void client_left() override { flow_->left = true; }
  void reader_blocked() override {}
  void reader_ready() override {}

 private:
  std::shared_ptr<Flow> flow_;
};

// What a body asked for, done here or in the workers; `work` gives the body of the answer.
struct TextJob {
  size_t bytes = 0;  // how long it will take
  std::function<std::string()> work;
  std::string body;
  std::optional<turn::RequestError> error;

  void run(const Flow& flow) {
    if (flow.left) return;
    try {
      body = work();
    } catch (const std::exception& failure) {
      error = internal_error(flow.request_id, failure.what());
    }
  }
  void answer(Flow& flow) {
    if (flow.left || flow.ended) return;
    if (error) return flow.fail(*error);
    flow.ended = true;
    respond_json(*flow.channel, std::move(body));
  }
};

void do_job(const std::shared_ptr<ApiState>& state, const std::shared_ptr<Flow>& flow, const std::shared_ptr<TextJob>& job) {
  flow->channel->plan_whole();
  if (job->bytes <= state->surroundings.settings.inline_text_bytes) {
    job->run(*flow);
    return job->answer(*flow);
  }
  state->preparing.insert(flow);
  state->surroundings.workers.run(job->bytes, [job, flow] { job->run(*flow); }, [job, flow, weak = std::weak_ptr<ApiState>(state)] {
    if (const auto alive = weak.lock()) alive->preparing.erase(flow);
    job->answer(*flow);
  });
}

using JobReader = std::function<TextJob(Fields&, const std::shared_ptr<const Model>&)>;

std::unique_ptr<Exchange> answer_with(const std::shared_ptr<ApiState>& state, HttpRequest request, std::shared_ptr<Channel> channel, JobReader read) {
  auto flow = std::make_shared<Flow>();
  flow->request_id = request.id;
  flow->channel = std::move(channel);
  auto job = std::make_shared<TextJob>();
  BodyWork work;
  work.read = [job, read = std::move(read), served = state->surroundings.model()](Fields& fields) { *job = read(fields, served); };
  work.go_on = [job, flow, weak = std::weak_ptr<ApiState>(state)](const HttpRequest&) {
    if (const auto alive = weak.lock()) do_job(alive, flow, job);
  };
  with_body(state, flow, std::move(request), std::move(work));
  if (flow->ended) return nullptr;
  return std::make_unique<Waiting>(flow);
}

TextJob read_tokenize(Fields& fields, const std::shared_ptr<const Model>& served) {
  TextJob job;
  const auto model = choose_model(fields, served);
  auto text = fields.text("text");
  if (!text) fields.fail("text", "is missing");
  if (text && text->size() > max_prompt_text_bytes)
    fields.fail("text", "has " + std::to_string(text->size()) + " bytes; at most " + std::to_string(max_prompt_text_bytes) + " are allowed (max_prompt_text_bytes)");
  if (fields.failed()) return job;
  job.bytes = text->size();
  job.work = [model, typed = std::move(*text)] {
    std::string out = R"({"tokens":)";
    append_json_ids(out, model->tokenizer->encode(typed, gguf::Tokenizer::Markers::plain, gguf::Tokenizer::Bos::none));
    return out + "}";
  };
  return job;
}

TextJob read_detokenize(Fields& fields, const std::shared_ptr<const Model>& served) {
  TextJob job;
  const auto model = choose_model(fields, served);
  const json* tokens = fields.array("tokens");
  if (!tokens) fields.fail("tokens", "is missing");
  std::vector<gguf::TokenId> ids;
  for (size_t i = 0; !fields.failed() && i < tokens->size(); ++i) {
    const auto id = whole_number((*tokens)[i]);
    if (id && *id >= 0 && *id < model->vocabulary->size()) {
      ids.push_back(static_cast<gguf::TokenId>(*id));
    } else {
      const std::string last = std::to_string(model->vocabulary->size() - 1);
      fields.fail(bad_field("tokens[" + std::to_string(i) + "]", "is no token id of this model; ids go from 0 to " + last));
    }
  }
  if (fields.failed()) return job;
  job.bytes = ids.size();
  job.work = [model, ids = std::move(ids)] {
    std::string out = R"({"text":)";
    append_json_string(out, model->tokenizer->decode(ids));
    return out + "}";
  };
  return job;
}

}  // namespace

std::unique_ptr<Exchange> Api::tokenize(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(request, channel, [&] { return answer_with(state_, std::move(request), channel, read_tokenize); });
}

std::unique_ptr<Exchange> Api::detokenize(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(request, channel, [&] { return answer_with(state_, std::move(request), channel, read_detokenize); });
}

}  // namespace vigil::api
