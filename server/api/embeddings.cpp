// POST /v1/embeddings: each text is a request of its own at the desk, one after the other, so that a list of thousands takes one place in the
// queue at a time. Not here: fields and reply (embeddings_body.hpp).
#include <exception>
#include <utility>

#include "server/api/body.hpp"
#include "server/api/embeddings_body.hpp"
#include "server/api/generation.hpp"
#include "server/api/model_choice.hpp"

namespace vigil::api {

namespace {

struct Embedding : std::enable_shared_from_this<Embedding> {
  std::weak_ptr<ApiState> state;
  std::shared_ptr<Flow> flow;
  HttpRequest request;
  std::shared_ptr<const Model> model;
  Parameters parameters;  // the client's name, and what makes the fingerprint
  EmbeddingsBody body;
  std::vector<std::vector<gguf::TokenId>> ids;
  std::vector<std::vector<float>> vectors;
  size_t numbers = 0;
  int64_t tokens = 0;
  std::optional<turn::RequestError> error;

  void read(Fields& fields, const std::shared_ptr<const Model>& served);
  void encode();
  void prepare(ApiState& alive);
  void submit_next(ApiState& alive);
  void take(std::vector<float> vector, const turn::Ending& ending);
  void finish(ApiState& alive);
  // On the decision thread, but not from within this call.
  void later(size_t bytes, void (Embedding::*job)(), void (Embedding::*then)(ApiState&));
  template <typename Act>
  void guard(const Act& act);
};

class VectorSink final : public turn::ReplySink {
 public:
  explicit VectorSink(std::shared_ptr<Embedding> work) : work_(std::move(work)) {}

  turn::Verdict on_token(const protocol::Token& /*token*/) override { return turn::Verdict::stop; }  // what was asked for is no token

  bool on_vector(const protocol::VectorPart& part) override {
    if (part.offset != static_cast<int64_t>(vector_.size()) || part.offset + static_cast<int64_t>(part.values.size()) > protocol::max_vector) return false;
    vector_.insert(vector_.end(), part.values.begin(), part.values.end());
    return true;
  }

  void on_end(const turn::Ending& ending) override {
    if (auto* failed = std::get_if<turn::Failed>(&ending.how)) {
      turn::RequestError error = failed->error;
      if (error.code == turn::ErrorCode::context_length_exceeded && error.param.empty()) error.param = "input";
      return work_->flow->fail(error);
    }
    if (const auto* cancelled = std::get_if<turn::Cancelled>(&ending.how)) {
      if (cancelled->by == turn::CancelledBy::client_left) {
        work_->flow->ended = true;
        return;
      }
      return work_->flow->fail(error_facts(cancelled->by));
    }
    work_->take(std::move(vector_), ending);
  }

 private:
  std::shared_ptr<Embedding> work_;
  std::vector<float> vector_;
};

class EmbeddingExchange final : public Exchange {
 public:
  explicit EmbeddingExchange(std::shared_ptr<Embedding> work) : work_(std::move(work)) {}
  void client_left() override {
    work_->flow->left = true;
    const auto state = work_->state.lock();
    if (!state) return;
    for (const turn::RequestKey key : std::vector(work_->flow->keys)) state->surroundings.desk.leave(key, state->surroundings.now());
  }
  void reader_blocked() override {}  // nothing is written before everything is
  void reader_ready() override {}

 private:
  std::shared_ptr<Embedding> work_;
};

template <typename Act>
void Embedding::guard(const Act& act) {
  try {
    act();
  } catch (const std::exception& failure) {
    flow->fail(internal_error(flow->request_id, failure.what()));
  }
}

void Embedding::read(Fields& fields, const std::shared_ptr<const Model>& served) {
  model = choose_model(fields, served);
  if (!model) return;
  read_client(fields, parameters);
  body = read_embeddings_body(fields, *model->vocabulary);
}

// Perhaps on a worker's thread.
void Embedding::encode() {
  try {
    for (const TextPrompt& prompt : body.inputs) {
      if (flow->left) return;
      ids.push_back(encode_text(*model, prompt).ids);
    }
  } catch (const std::exception& failure) {
    error = internal_error(flow->request_id, failure.what());
  }
}

void Embedding::later(size_t bytes, void (Embedding::*job)(), void (Embedding::*then)(ApiState&)) {
  const auto alive = state.lock();
  if (!alive) return;
  alive->preparing.insert(flow);
  alive->surroundings.workers.run(
      bytes,
      [self = shared_from_this(), job] {
        if (job) (self.get()->*job)();
      },
      [self = shared_from_this(), then] {
        const auto still_alive = self->state.lock();
        if (!still_alive) return;
        still_alive->preparing.erase(self->flow);
        if (self->flow->left || self->flow->ended) return;
        self->guard([&] { (self.get()->*then)(*still_alive); });
      });
}

void Embedding::prepare(ApiState& alive) {
  flow->channel->plan_whole();
  if (flow->left) return;
  size_t bytes = 0;
  for (const TextPrompt& prompt : body.inputs) bytes += prompt.text.size() + prompt.ids.size();
  if (bytes > alive.surroundings.settings.inline_text_bytes) return later(bytes, &Embedding::encode, &Embedding::submit_next);
  encode();
  submit_next(alive);
}

void Embedding::submit_next(ApiState& alive) {
  if (error) return flow->fail(*error);
  const size_t index = vectors.size();
  const std::string field = body.inputs.size() == 1 ? "input" : "input[" + std::to_string(index) + "]";
  if (ids[index].empty()) return flow->fail(bad_field(field, "gives no tokens; send some text"));
  const int64_t context = alive.surroundings.engine().context;
  const auto length = static_cast<int64_t>(ids[index].size());
  if ((context > 0 && length > context) || ids[index].size() > max_prompt_tokens) {
    return flow->fail(turn::RequestError{turn::ErrorCode::context_length_exceeded,
                                         field + " has " + std::to_string(length) + " tokens, and the context holds " + std::to_string(context) +
                                             " (engine.context); shorten it.",
                                         field, 1});
  }
  turn::Request wanted;
  wanted.id = request.id;
  wanted.client = request.client_is_key || parameters.client.empty() ? request.client : "named:" + parameters.client;
  wanted.vocabulary = model->stamp;
  wanted.max_new = 1;  // for an engine that takes it for a request for tokens
  wanted.end_ids = model->vocabulary->end_ids();
  wanted.fingerprint = fingerprint(ids[index], parameters) ^ 0x454d42;  // apart from an answer to the same ids
  wanted.embed = body.pool;
  wanted.prompt = ids[index];
  flow->keys.assign(1, alive.surroundings.desk.submit(std::move(wanted), std::make_unique<VectorSink>(shared_from_this()), alive.surroundings.now()));
}

void Embedding::take(std::vector<float> vector, const turn::Ending& ending) {
  guard([&] {
    if (vector.empty() || (!vectors.empty() && vectors.front().size() != vector.size())) {
      return flow->fail(turn::RequestError{turn::ErrorCode::engine_error,
                                           "the engine ended a request for a vector with " + std::to_string(vector.size()) + " numbers", "", 1});
    }
    numbers += vector.size();
    if (numbers > max_embedding_numbers) {
      return flow->fail(bad_field("input", "gives vectors of more than " + std::to_string(max_embedding_numbers) +
                                               " numbers in all (max_embedding_numbers); send fewer texts at once"));
    }
    tokens += ending.usage.prompt;
    vectors.push_back(std::move(vector));
    // The desk is in the middle of an ending: what follows comes from the loop.
    later(0, nullptr, vectors.size() < ids.size() ? &Embedding::submit_next : &Embedding::finish);
  });
}

void Embedding::finish(ApiState&) {
  for (std::vector<float>& vector : vectors) normalise(vector);
  flow->ended = true;
  respond_json(*flow->channel, embeddings_reply(model->id, vectors, body.base64, tokens));
}

}  // namespace

std::unique_ptr<Exchange> Api::embeddings(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(request, channel, [&]() -> std::unique_ptr<Exchange> {
    auto work = std::make_shared<Embedding>();
    work->state = state_;
    work->flow = std::make_shared<Flow>();
    work->flow->request_id = request.id;
    work->flow->channel = channel;
    BodyWork reading;
    reading.read = [work, served = state_->surroundings.model()](Fields& fields) { work->read(fields, served); };
    reading.go_on = [work](HttpRequest without_body) {
      const auto alive = work->state.lock();
      if (!alive) return;
      work->request = std::move(without_body);
      work->prepare(*alive);
    };
    with_body(state_, work->flow, std::move(request), std::move(reading));
    if (work->flow->ended) return nullptr;
    return std::make_unique<EmbeddingExchange>(std::move(work));
  });
}

}  // namespace vigil::api
