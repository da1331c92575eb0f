// See generation.hpp.
#include "server/api/generation.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "server/api/body.hpp"
#include "server/api/constraint.hpp"
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
    at_desk([](turn::Desk& desk, turn::RequestKey key, TimePoint now) { desk.leave(key, now); });
  }
  void reader_blocked() override {
    at_desk([](turn::Desk& desk, turn::RequestKey key, TimePoint now) { desk.reader_blocked(key, now); });
  }
  void reader_ready() override {
    at_desk([](turn::Desk& desk, turn::RequestKey key, TimePoint now) { desk.reader_ready(key, now); });
  }

 private:
  template <typename Act>
  void at_desk(const Act& act) {
    const auto state = state_.lock();
    if (!state) return;
    for (const turn::RequestKey key : std::vector(flow_->keys)) act(state->surroundings.desk, key, state->surroundings.now());
  }

  std::weak_ptr<ApiState> state_;
  std::shared_ptr<Flow> flow_;
};

// What one templating and tokenising needs and gives; shared with the worker that does it.
struct Preparation {
  HttpRequest request;
  GenerationPlan plan;
  std::shared_ptr<Flow> flow;
  std::function<std::string(int64_t)> count_body;  // set: the ids are only counted
  int64_t unix_seconds = 0;
  std::vector<EncodedPrompt> prompts;
  std::vector<uint64_t> hashes;  // of each prompt's ids, of pictures and parameters
  std::optional<turn::RequestError> error;

  void encode() {
    if (flow->left) return;
    try {
      if (const auto* conversation = std::get_if<text::Conversation>(&plan.prompt)) {
        auto result = encode_conversation(*plan.model, *conversation, plan.pictures, unix_seconds, plan.prompt_field);
        if (auto* flaw = std::get_if<turn::RequestError>(&result)) {
          error = std::move(*flaw);
          return;
        }
        prompts.push_back(std::move(std::get<EncodedPrompt>(result)));
      } else {
        for (const TextPrompt& prompt : std::get<std::vector<TextPrompt>>(plan.prompt)) prompts.push_back(encode_text(*plan.model, prompt));
      }
      if (!count_body && !prompts.empty()) error = constrain(plan, prompts.front().thinking_open, plan.parameters.sampling);
      if (error) return;
      for (const EncodedPrompt& prompt : prompts) hashes.push_back(fingerprint(prompt.ids, plan.parameters, plan.pictures));
    } catch (const std::exception& failure) {
      error = internal_error(request.id, failure.what());
    } catch (...) {
      error = internal_error(request.id, "an exception of unknown type");
    }
  }
};

std::optional<turn::RequestError> flaw(const EncodedPrompt& prompt, const std::string& field, int64_t context) {
  const auto tokens = static_cast<int64_t>(prompt.ids.size());
  if (tokens == 0) return bad_field(field, "gives no tokens; send some text");
  if (context > 0 && tokens >= context) {
    return turn::RequestError{turn::ErrorCode::context_length_exceeded,
                              "The prompt has " + std::to_string(tokens) + " tokens, and the context holds " + std::to_string(context) +
                                  " (engine.context), of which at least one is needed for the answer; shorten " + field + ".",
                              field, 1};
  }
  if (prompt.ids.size() > max_prompt_tokens) {
    return turn::RequestError{turn::ErrorCode::context_length_exceeded,
                              "The prompt has " + std::to_string(tokens) + " tokens; a request may have at most " +
                                  std::to_string(max_prompt_tokens) + " (max_prompt_tokens); shorten " + field + ".",
                              field, 1};
  }
  return std::nullopt;
}

size_t plan_bytes(const GenerationPlan& plan) {
  if (const auto* conversation = std::get_if<text::Conversation>(&plan.prompt)) return text_bytes(*conversation);
  size_t bytes = 0;
  // Ids need no tokenising, but there are as many to go through.
  for (const TextPrompt& prompt : std::get<std::vector<TextPrompt>>(plan.prompt)) bytes += prompt.text.size() + prompt.suffix.size() + prompt.ids.size();
  return bytes;
}

// The longest text of one prompt: what must fit the context.
size_t longest_text_bytes(const GenerationPlan& plan) {
  if (const auto* conversation = std::get_if<text::Conversation>(&plan.prompt)) {
    // Tools and history are printed by the template, which may leave them out: only what every template prints is sure.
    size_t bytes = 0;
    for (const text::ChatMessage& message : conversation->messages)
      for (const text::ContentPart& part : message.content) bytes += part.text.size();
    return bytes;
  }
  size_t longest = 0;
  for (const TextPrompt& prompt : std::get<std::vector<TextPrompt>>(plan.prompt)) longest = std::max(longest, prompt.text.size() + prompt.suffix.size());
  return longest;
}

// A text that cannot fit, however its tokens fall: found out without the time that tokenising it would take.
std::optional<turn::RequestError> hopeless(const GenerationPlan& plan, int64_t context) {
  const size_t all = plan_bytes(plan);
  if (all > max_prompt_text_bytes) {
    return turn::RequestError{turn::ErrorCode::context_length_exceeded,
                              "The prompt has " + std::to_string(all) + " bytes of text; a request may have at most " +
                                  std::to_string(max_prompt_text_bytes) + " (max_prompt_text_bytes); shorten " + plan.prompt_field + ".",
                              plan.prompt_field, 1};
  }
  const size_t bytes = longest_text_bytes(plan);
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

turn::Request desk_request(ApiState& state, const Preparation& preparation, size_t prompt, size_t choice) {
  const GenerationPlan& plan = preparation.plan;
  turn::Request request;
  request.id = preparation.request.id;
  request.client = client_name(preparation.request, plan.parameters);
  request.stream = plan.parameters.stream;
  request.vocabulary = plan.model->stamp;
  request.max_new = plan.parameters.max_new;
  request.end_ids = plan.model->vocabulary->end_ids();
  request.fingerprint = preparation.hashes[prompt];
  request.sampling = plan.parameters.sampling;
  if (request.sampling.seed) {
    *request.sampling.seed += choice;  // choices of one seed differ, and each can be had again
  } else if (request.sampling.temperature != 0.0) {
    request.sampling.seed = state.new_seed();
  }
  request.prompt = preparation.prompts[prompt].ids;
  request.grammar_field = constrained_by(plan);
  if (!plan.pictures.empty()) request.image_token = plan.model->image->image;
  request.pictures = plan.pictures;
  return request;
}

ReplyWriter::Setup writer_setup(const ApiState& state, const Preparation& preparation, size_t prompt) {
  const GenerationPlan& plan = preparation.plan;
  ReplyWriter::Setup setup;
  setup.model = plan.model;
  setup.stop = plan.parameters.stop;
  setup.return_token_ids = plan.parameters.return_token_ids;
  setup.repeat_stop_tokens = state.surroundings.settings.repeat_stop_tokens;
  if (const auto* conversation = std::get_if<text::Conversation>(&plan.prompt)) {
    setup.format = plan.model->output;
    setup.parsing.tools = conversation->tools;
    setup.parsing.thinking_open = preparation.prompts[prompt].thinking_open;
    setup.parsing.split_thinking = plan.parameters.split_thinking;
    setup.parsing.parallel_calls = conversation->parallel_tool_calls;
  }
  return setup;
}

// How the thinking of this answer is ended. Where the prompt opened it, an engine that can is told to do it itself.
std::optional<turn::ThinkingEnd> limit_of_thinking(const ApiState& state, const GenerationPlan& plan) {
  const auto* conversation = std::get_if<text::Conversation>(&plan.prompt);
  if (!conversation || conversation->thinking == false) return std::nullopt;
  return thinking_end(*plan.model, plan.parameters.max_thinking, state.surroundings.settings.thinking_reserve);
}

// Sends a choice's request again behind what it has answered. Not from inside its sink: the desk is in the middle of something there.
void continue_later(const std::weak_ptr<ApiState>& weak, const std::shared_ptr<Flow>& flow, turn::Request request, std::shared_ptr<ReplyWriter> writer) {
  const auto alive = weak.lock();
  if (!alive) return;
  alive->preparing.insert(flow);
  auto next = std::make_shared<turn::Request>(std::move(request));
  alive->surroundings.workers.run(0, [] {}, [weak, flow, next, writer = std::move(writer)] {
    const auto still_alive = weak.lock();
    if (!still_alive) return;
    still_alive->preparing.erase(flow);
    if (flow->left || flow->ended) return;
    const Surroundings& around = still_alive->surroundings;
    flow->keys.push_back(around.desk.submit(std::move(*next), std::make_unique<ChoiceSink>(writer), around.now()));
  });
}

PromptFacts prompt_facts(const Preparation& preparation) {
  PromptFacts facts;
  for (const EncodedPrompt& prompt : preparation.prompts) {
    facts.tokens.push_back(static_cast<int64_t>(prompt.ids.size()));
    if (preparation.plan.parameters.return_token_ids) facts.ids.push_back(prompt.ids);
  }
  return facts;
}

// Takes what is still open of a reply that has failed from the desk. Not from inside a sink: the desk is in the middle of something there.
void leave_all(ApiState& state, const Flow& flow) {
  for (const turn::RequestKey key : std::vector(flow.keys)) state.surroundings.desk.leave(key, state.surroundings.now());
}

void submit(const std::shared_ptr<ApiState>& state, Preparation& preparation) {
  const Surroundings& around = state->surroundings;
  const GenerationPlan& plan = preparation.plan;
  const std::shared_ptr<Flow>& flow = preparation.flow;
  if (preparation.error) return flow->fail(*preparation.error);
  const size_t per_prompt = plan.parameters.choices;
  for (const EncodedPrompt& prompt : preparation.prompts)
    if (const auto error = flaw(prompt, plan.prompt_field, around.engine().context)) return flow->fail(*error);
  flow->format->set_prompt(prompt_facts(preparation));

  Reply::Setup setup;
  setup.flow = flow;
  setup.choices = preparation.prompts.size() * per_prompt;
  setup.choices_per_prompt = per_prompt;
  setup.prompt_field = plan.prompt_field;
  setup.log = around.log;
  setup.leave_others = [weak = std::weak_ptr<ApiState>(state), flow] {
    const auto alive = weak.lock();
    if (!alive) return;
    alive->surroundings.workers.run(0, [] {}, [weak, flow] {
      if (const auto still_alive = weak.lock()) leave_all(*still_alive, *flow);
    });
  };
  const size_t choices = setup.choices;
  const auto reply = std::make_shared<Reply>(std::move(setup));
  for (size_t i = 0; i < choices && !flow->ended; ++i) {
    const size_t prompt = i / per_prompt;
    ReplyWriter::Setup writer = writer_setup(*state, preparation, prompt);
    writer.reply = reply;
    writer.choice = i;
    turn::Request request = desk_request(*state, preparation, prompt, i % per_prompt);
    if ((writer.thinking = limit_of_thinking(*state, plan))) {
      if (writer.parsing.thinking_open) request.thinking_end = writer.thinking;
      writer.max_new = request.max_new;
      writer.engine = around.engine;
      writer.go_on = [weak = std::weak_ptr<ApiState>(state), flow, first = request](std::shared_ptr<ReplyWriter> self,
                                                                                    const std::vector<gguf::TokenId>& answered, int64_t left) {
        turn::Request next = first;
        next.prompt.insert(next.prompt.end(), answered.begin(), answered.end());
        next.max_new = left;
        next.thinking_end.reset();
        continue_later(weak, flow, std::move(next), std::move(self));
      };
    }
    auto choice = std::make_unique<ChoiceSink>(std::make_shared<ReplyWriter>(std::move(writer)));
    flow->keys.push_back(around.desk.submit(std::move(request), std::move(choice), around.now()));
  }
}

void count(Preparation& preparation) {
  Flow& flow = *preparation.flow;
  if (preparation.error) return flow.fail(*preparation.error);
  flow.ended = true;
  respond_json(*flow.channel, preparation.count_body(prompt_facts(preparation).all_tokens()));
}

// Nothing may escape into the workers' loop.
void go_on_guarded(const std::shared_ptr<ApiState>& state, Preparation& preparation) {
  try {
    if (preparation.count_body) return count(preparation);
    submit(state, preparation);
  } catch (const std::exception& failure) {
    preparation.flow->fail(internal_error(preparation.request.id, failure.what()));
    leave_all(*state, *preparation.flow);
  }
}

void plan_answer(ApiState& state, Preparation& preparation) {
  Flow& flow = *preparation.flow;
  const GenerationPlan& plan = preparation.plan;
  if (preparation.count_body) return flow.channel->plan_whole();
  ReplyFacts facts;
  facts.id = state.new_reply_id(plan.id_prefix);
  facts.model = plan.model->id;
  facts.created = preparation.unix_seconds;
  const auto* prompts = std::get_if<std::vector<TextPrompt>>(&plan.prompt);
  facts.choices = plan.parameters.choices * (prompts ? prompts->size() : 1);
  facts.include_usage = plan.parameters.include_usage;
  facts.return_token_ids = plan.parameters.return_token_ids;
  flow.format = plan.format(std::move(facts));
  flow.stream = plan.parameters.stream;
  if (!flow.stream) return flow.channel->plan_whole();
  StreamPlan stream_plan;
  stream_plan.keepalive = [format = flow.format] { return format->keepalive(); };
  flow.channel->plan_stream(std::move(stream_plan));
}

// The body is read: what the session must know of the answer, then the prompt's ids.
void prepare(const std::shared_ptr<ApiState>& state, const std::shared_ptr<Preparation>& preparation) {
  Flow& flow = *preparation->flow;
  const GenerationPlan& plan = preparation->plan;
  preparation->unix_seconds = state->surroundings.unix_seconds();
  plan_answer(*state, *preparation);
  if (flow.left) return;  // its input had ended, and for a whole answer that is leaving
  const int64_t context = preparation->count_body ? 0 : state->surroundings.engine().context;
  if (const auto error = hopeless(plan, context)) return flow.fail(*error);
  const size_t bytes = plan_bytes(plan);
  if (bytes <= state->surroundings.settings.inline_text_bytes) {
    preparation->encode();
    return go_on_guarded(state, *preparation);
  }
  state->preparing.insert(preparation->flow);
  state->surroundings.workers.run(bytes, [preparation] { preparation->encode(); },
                                  [preparation, weak = std::weak_ptr<ApiState>(state)] {
                                    const auto alive = weak.lock();
                                    if (!alive) return;
                                    alive->preparing.erase(preparation->flow);
                                    if (preparation->flow->left || preparation->flow->ended) return;
                                    go_on_guarded(alive, *preparation);
                                  });
}

std::unique_ptr<Exchange> begin(const std::shared_ptr<ApiState>& state, HttpRequest request, std::shared_ptr<Channel> channel, PlanReader read,
                                ErrorShape shape, std::function<std::string(int64_t)> count_body) {
  auto flow = std::make_shared<Flow>();
  flow->request_id = request.id;
  flow->channel = std::move(channel);
  flow->error_shape = shape;
  auto preparation = std::make_shared<Preparation>();
  preparation->flow = flow;
  preparation->count_body = std::move(count_body);
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

}  // namespace

std::unique_ptr<Exchange> generate(const std::shared_ptr<ApiState>& state, HttpRequest request, std::shared_ptr<Channel> channel, PlanReader read,
                                   ErrorShape shape) {
  return begin(state, std::move(request), std::move(channel), std::move(read), shape, {});
}

std::unique_ptr<Exchange> count_prompt(const std::shared_ptr<ApiState>& state, HttpRequest request, std::shared_ptr<Channel> channel, PlanReader read,
                                       std::function<std::string(int64_t tokens)> body, ErrorShape shape) {
  return begin(state, std::move(request), std::move(channel), std::move(read), shape, std::move(body));
}

}  // namespace vigil::api
