// See generation.hpp.
#include "server/api/generation.hpp"

#include <exception>
#include <utility>

#include "server/api/body.hpp"
#include "server/api/errors.hpp"
#include "server/api/reply_writer.hpp"

namespace vigil::api {

namespace {

// The session's side. It calls the desk only from the session's own calls, never from inside the sink.
class GenerationExchange final : public Exchange {
 public:
  GenerationExchange(std::weak_ptr<ApiState> state, std::shared_ptr<Flow> flow) : state_(std::move(state)), flow_(std::move(flow)) {}

  void client_left() override {
    flow_->left = true;
    with_desk([](ApiState& state, turn::RequestKey key) { state.surroundings.desk.leave(key, state.surroundings.now()); });
  }
  void reader_blocked() override {
    with_desk([](ApiState& state, turn::RequestKey key) { state.surroundings.desk.reader_blocked(key, state.surroundings.now()); });
  }
  void reader_ready() override {
    with_desk([](ApiState& state, turn::RequestKey key) { state.surroundings.desk.reader_ready(key, state.surroundings.now()); });
  }

 private:
  template <typename Act>
  void with_desk(const Act& act) {
    const auto state = state_.lock();
    if (state && flow_->key != 0) act(*state, flow_->key);
  }

  std::weak_ptr<ApiState> state_;
  std::shared_ptr<Flow> flow_;
};

// What one tokenising needs and gives; shared with the worker that does it.
struct Preparation {
  HttpRequest request;
  GenerationPlan plan;
  std::shared_ptr<Flow> flow;
  std::vector<gguf::TokenId> ids;
  bool placed = true;  // every picture has its place in the prompt
  uint64_t hash = 0;   // of ids, pictures and parameters
  std::string failure;

  void tokenise() {
    if (flow->left) return;
    try {
      ids = plan.tokenise();
      if (!plan.pictures.empty()) placed = text::place_pictures(ids, *plan.model->image, plan.pictures.size());
      hash = fingerprint(ids, plan.parameters, plan.pictures);
    } catch (const std::exception& error) {
      failure = error.what();
    } catch (...) {
      failure = "an exception of unknown type";
    }
  }
};

std::optional<turn::RequestError> flaw(const Preparation& preparation, int64_t context) {
  const auto tokens = static_cast<int64_t>(preparation.ids.size());
  const std::string& field = preparation.plan.prompt_field;
  if (!preparation.failure.empty()) return internal_error(preparation.request.id, preparation.failure);
  if (!preparation.placed) {
    const turn::Picture& first = preparation.plan.pictures.front();
    return turn::RequestError{turn::ErrorCode::image_invalid,
                              first.part + " is a picture, and the model's chat template has no place for it (vision.image_token says what stands there).",
                              first.part, 1};
  }
  if (tokens == 0) return bad_field(field, "gives no tokens; send some text");
  if (context > 0 && tokens >= context) {
    return turn::RequestError{turn::ErrorCode::context_length_exceeded,
                              "The prompt has " + std::to_string(tokens) + " tokens, and the context holds " + std::to_string(context) +
                                  " (engine.context), of which at least one is needed for the answer; shorten " + field + ".",
                              field, 1};
  }
  if (preparation.ids.size() > max_prompt_tokens) {
    return turn::RequestError{turn::ErrorCode::context_length_exceeded,
                              "The prompt has " + std::to_string(tokens) + " tokens; a request may have at most " +
                                  std::to_string(max_prompt_tokens) + " (max_prompt_tokens); shorten " + field + ".",
                              field, 1};
  }
  return std::nullopt;
}

// A text that cannot fit, however its tokens fall: found out without the time that tokenising it would take.
std::optional<turn::RequestError> hopeless(const GenerationPlan& plan, int64_t context) {
  const size_t bytes = plan.text_bytes;
  if (bytes > max_prompt_text_bytes) {
    return turn::RequestError{turn::ErrorCode::context_length_exceeded,
                              "The prompt has " + std::to_string(bytes) + " bytes of text; a request may have at most " +
                                  std::to_string(max_prompt_text_bytes) + " (max_prompt_text_bytes); shorten " + plan.prompt_field + ".",
                              plan.prompt_field, 1};
  }
  const size_t longest = plan.model->longest_token_bytes;
  const auto least = longest == 0 ? int64_t{0} : static_cast<int64_t>(bytes / longest);
  if (context <= 0 || least < context) return std::nullopt;
  return turn::RequestError{turn::ErrorCode::context_length_exceeded,
                            "The prompt has at least " + std::to_string(least) + " tokens (" + std::to_string(bytes) +
                                " bytes of text), and the context holds " + std::to_string(context) +
                                " (engine.context), of which at least one is needed for the answer; shorten " + plan.prompt_field + ".",
                            plan.prompt_field, 1};
}

std::string client_name(const HttpRequest& request, const Parameters& parameters) {
  if (request.client_is_key || parameters.client.empty()) return request.client;
  return "named:" + parameters.client;  // apart from every connection's name
}

void submit(ApiState& state, Preparation& preparation) {
  const Surroundings& around = state.surroundings;
  GenerationPlan& plan = preparation.plan;
  Flow& flow = *preparation.flow;
  if (const auto error = flaw(preparation, around.engine().context)) return flow.fail(*error);

  turn::Request request;
  request.id = preparation.request.id;
  request.client = client_name(preparation.request, plan.parameters);
  request.stream = plan.parameters.stream;
  request.vocabulary = plan.model->stamp;
  request.max_new = plan.parameters.max_new;
  request.end_ids = plan.model->vocabulary->end_ids();
  request.fingerprint = preparation.hash;
  request.sampling = plan.parameters.sampling;
  if (!request.sampling.seed && request.sampling.temperature != 0.0) request.sampling.seed = state.new_seed();
  request.prompt = std::move(preparation.ids);
  if (!plan.pictures.empty()) request.image_token = plan.model->image->image;
  request.pictures = std::move(plan.pictures);

  ReplyFacts facts;
  facts.id = state.new_reply_id(plan.id_prefix);
  facts.model = plan.model->id;
  facts.created = around.unix_seconds();
  facts.include_usage = plan.parameters.include_usage;
  facts.return_token_ids = plan.parameters.return_token_ids;
  if (facts.return_token_ids) facts.prompt_ids = request.prompt;

  ReplyWriter::Setup setup;
  setup.flow = preparation.flow;
  setup.model = plan.model;
  setup.format = plan.format(std::move(facts));
  setup.stop = plan.parameters.stop;
  setup.return_token_ids = plan.parameters.return_token_ids;
  setup.repeat_stop_tokens = around.settings.repeat_stop_tokens;
  setup.prompt_field = plan.prompt_field;
  setup.log = around.log;
  flow.key = around.desk.submit(std::move(request), std::make_unique<ReplyWriter>(std::move(setup)), around.now());
}

// Nothing may escape into the workers' loop.
void submit_guarded(ApiState& state, Preparation& preparation) {
  try {
    submit(state, preparation);
  } catch (const std::exception& failure) {
    preparation.flow->fail(internal_error(preparation.request.id, failure.what()));
  }
}

// The body is read: what the session must know of the answer, then the prompt's ids.
void prepare(const std::shared_ptr<ApiState>& state, const std::shared_ptr<Preparation>& preparation) {
  Flow& flow = *preparation->flow;
  const GenerationPlan& plan = preparation->plan;
  flow.stream = plan.parameters.stream;
  if (flow.stream) {
    StreamPlan stream_plan;
    stream_plan.keepalive = [] { return std::string(keepalive_comment); };
    flow.channel->plan_stream(std::move(stream_plan));
  } else {
    flow.channel->plan_whole();
  }
  if (flow.left) return;  // its input had ended, and for a whole answer that is leaving
  if (const auto error = hopeless(plan, state->surroundings.engine().context)) return flow.fail(*error);
  if (plan.text_bytes <= state->surroundings.settings.inline_text_bytes) {
    preparation->tokenise();
    return submit_guarded(*state, *preparation);
  }
  state->preparing.insert(preparation->flow);
  state->surroundings.workers.run(plan.text_bytes, [preparation] { preparation->tokenise(); },
                                  [preparation, weak = std::weak_ptr<ApiState>(state)] {
                                    const auto alive = weak.lock();
                                    if (!alive) return;
                                    alive->preparing.erase(preparation->flow);
                                    if (preparation->flow->left || preparation->flow->ended) return;
                                    submit_guarded(*alive, *preparation);
                                  });
}

}  // namespace

std::unique_ptr<Exchange> generate(const std::shared_ptr<ApiState>& state, HttpRequest request, std::shared_ptr<Channel> channel, PlanReader read) {
  auto flow = std::make_shared<Flow>();
  flow->request_id = request.id;
  flow->channel = std::move(channel);
  auto preparation = std::make_shared<Preparation>();
  preparation->flow = flow;
  BodyWork work;
  work.read = [preparation, read = std::move(read), served = state->surroundings.model()](Fields& fields) {
    if (auto plan = read(fields, served)) preparation->plan = std::move(*plan);
  };
  work.go_on = [preparation, weak = std::weak_ptr<ApiState>(state)](HttpRequest without_body) {
    const auto alive = weak.lock();
    if (!alive) return;
    preparation->request = std::move(without_body);
    prepare(alive, preparation);
  };
  with_body(state, flow, std::move(request), std::move(work));
  if (flow->ended) return nullptr;
  return std::make_unique<GenerationExchange>(state, flow);
}

}  // namespace vigil::api
