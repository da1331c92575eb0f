// POST /v1/tokenize and /v1/detokenize: text to ids and back, without the engine.
#include <exception>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "server/api/json_read.hpp"
#include "server/api/json_text.hpp"
#include "server/api/model_choice.hpp"
#include "server/api/request_fields.hpp"
#include "server/api/state.hpp"

namespace vigil::api {

namespace {

using nlohmann::json;

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

// Runs `work` here or in the workers; its result is the body of the answer.
std::unique_ptr<Exchange> answer_with(const std::shared_ptr<ApiState>& state, const HttpRequest& request, const std::shared_ptr<Channel>& channel,
                                      size_t work_bytes, std::function<std::string()> work) {
  if (work_bytes <= state->surroundings.settings.inline_text_bytes) {
    respond_json(*channel, work());
    return nullptr;
  }
  struct Job {
    std::function<std::string()> work;
    std::string body, failure;
  };
  auto job = std::make_shared<Job>();
  job->work = std::move(work);
  auto flow = std::make_shared<Flow>();
  flow->request_id = request.id;
  flow->channel = channel;
  state->surroundings.workers.run(
      [job] {
        try {
          job->body = job->work();
        } catch (const std::exception& error) {
          job->failure = error.what();
        }
      },
      [job, flow] {
        if (flow->left) return;
        flow->ended = true;
        if (!job->failure.empty()) return respond_error(*flow->channel, internal_error(flow->request_id, job->failure));
        respond_json(*flow->channel, std::move(job->body));
      });
  if (flow->ended) return nullptr;
  return std::make_unique<Waiting>(flow);
}

}  // namespace

std::unique_ptr<Exchange> Api::tokenize(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(request, channel, [&]() -> std::unique_ptr<Exchange> {
    auto body = read_json_object(request.body);
    if (const auto* error = std::get_if<turn::RequestError>(&body)) {
      respond_error(*channel, *error);
      return nullptr;
    }
    Fields fields(std::get<json>(body));
    const auto model = choose_model(fields, state_->surroundings);
    auto text = fields.text("text");
    if (!text) fields.fail("text", "is missing");
    if (fields.failed()) {
      respond_error(*channel, *fields.error());
      return nullptr;
    }
    const size_t bytes = text->size();
    return answer_with(state_, request, channel, bytes, [model, typed = std::move(*text)] {
      std::string out = R"({"tokens":)";
      append_json_ids(out, model->tokenizer->encode(typed, gguf::Tokenizer::Markers::plain, gguf::Tokenizer::Bos::none));
      return out + "}";
    });
  });
}

std::unique_ptr<Exchange> Api::detokenize(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(request, channel, [&]() -> std::unique_ptr<Exchange> {
    auto body = read_json_object(request.body);
    if (const auto* error = std::get_if<turn::RequestError>(&body)) {
      respond_error(*channel, *error);
      return nullptr;
    }
    Fields fields(std::get<json>(body));
    const auto model = choose_model(fields, state_->surroundings);
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
    if (fields.failed()) {
      respond_error(*channel, *fields.error());
      return nullptr;
    }
    const size_t bytes = ids.size();
    return answer_with(state_, request, channel, bytes, [model, ids = std::move(ids)] {
      std::string out = R"({"text":)";
      append_json_string(out, model->tokenizer->decode(ids));
      return out + "}";
    });
  });
}

}  // namespace vigil::api
