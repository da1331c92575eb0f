// See api_support.hpp.
#include "tests/server/api/api_support.hpp"

#include <catch2/catch.hpp>

namespace vigil::api::test {

void RecordingChannel::respond(Response r) {
  ++answers;
  REQUIRE_FALSE(plan.has_value());
  response = std::move(r);
}

void RecordingChannel::plan_stream(StreamPlan p) {
  REQUIRE_FALSE(plan.has_value());
  plan = std::move(p);
  plan_is_open = false;
}

void RecordingChannel::write(std::string_view bytes) {
  REQUIRE(plan.has_value());
  REQUIRE_FALSE(finished);
  REQUIRE_FALSE(bytes.empty());
  ++writes;
  body.append(bytes);
}

void RecordingChannel::finish() {
  ++answers;
  finished = true;
}

void RecordingChannel::fail(Response plain, std::string_view event) {
  ++answers;
  REQUIRE(plan.has_value());
  if (body.empty()) {
    response = std::move(plain);
  } else {
    body.append(event);
  }
  finished = true;
}

std::vector<std::string> RecordingChannel::events() const {
  std::vector<std::string> out;
  std::string_view rest = body;
  while (!rest.empty()) {
    const size_t end = rest.find("\n\n");
    REQUIRE(end != std::string_view::npos);
    const std::string_view event = rest.substr(0, end);
    REQUIRE(event.substr(0, 6) == "data: ");
    REQUIRE(event.find('\n') == std::string_view::npos);
    out.emplace_back(event.substr(6));
    rest.remove_prefix(end + 2);
  }
  return out;
}

std::vector<json> RecordingChannel::chunks() const {
  std::vector<json> out;
  for (const std::string& event : events()) {
    if (event != "[DONE]") out.push_back(json::parse(event));
  }
  return out;
}

void HeldWorkers::run_all() {
  while (!jobs.empty()) {
    auto [job, done] = std::move(jobs.front());
    jobs.pop_front();
    job();
    done();
  }
}

World::World(std::vector<text::test::Piece> pieces, text::test::AddBos add_bos) : desk(turn::DeskLimits{}, port) {
  std::vector<text::test::Piece> all = {{std::string(text::test::blank) + "there"}, {std::string(text::test::blank) + "was"}, {"hi", -1}};
  all.insert(all.end(), pieces.begin(), pieces.end());
  model = std::make_shared<Model>();
  model->id = "tiny";
  model->aliases = {"M", "maker/tiny:1"};
  model->created = 1700000000;
  model->vocabulary = text::test::make_vocabulary(all, add_bos);
  model->tokenizer = text::test::make_tokenizer_of(*model->vocabulary);
  model->output = text::output_format("", *model->vocabulary);
  engine.state = "unloaded";
  Surroundings around{desk,
                      workers,
                      [this] { return now; },
                      [] { return int64_t{1750000000}; },
                      [this] { return model; },
                      [this] { return engine; },
                      [] { return std::string("vigil_engine_up 1\n"); },
                      [] { return 1.5; },
                      Settings{},
                      [this](const std::string& line) { log.push_back(line); }};
  around.settings.version = "9.9";
  around.settings.repeat_stop_tokens = 8;
  api = std::make_unique<Api>(std::move(around));
}

void World::engine_ready(int64_t context) {
  engine.state = "ready";
  engine.context = context;
  engine.generation = 1;
  turn::EngineView view;
  view.phase = turn::EnginePhase::ready;
  view.generation = 1;
  view.context = context;
  view.can_stop = true;
  view.can_logprobs = engine.can_logprobs;
  view.can_grammar = engine.can_grammar = grammar;
  view.tagged = slots > 1;
  view.slots = slots;
  desk.engine_changed(view, now);
}

World::Call World::call(Api::Handler handler, std::string body, const std::function<void(HttpRequest&)>& change) {
  HttpRequest request;
  request.id = "req-1";
  request.client = "connection-1";
  request.body = std::move(body);
  if (change) change(request);
  Call out;
  out.channel = std::make_shared<RecordingChannel>();
  out.exchange = (api.get()->*handler)(std::move(request), out.channel);
  // Null means answered, and the other way round, at the moment of the return.
  CHECK((out.exchange == nullptr) == (out.channel->answers == 1));
  return out;
}

void World::token(gguf::TokenId id) { desk.on_line(lease(), protocol::Token{id, {}, {}}, now); }

void World::tokens(std::string_view bytes) {
  for (const char byte : bytes) token(text::test::byte_id(static_cast<unsigned char>(byte)));
}

void World::done(const std::string& finish) {
  protocol::Done line;
  line.generated = 1;
  line.finish = finish;
  desk.on_line(lease(), line, now);
}

void World::engine_error(const std::string& text) {
  const turn::LeaseId id = lease();
  desk.on_line(id, protocol::EngineError{text}, now);
  desk.error_settled(id, "", now);
}

void World::engine_dies(turn::ErrorCode code, const std::string& message) {
  turn::EngineLoss loss;
  loss.error = {code, message, "", 1};
  desk.engine_lost(1, loss, now);
}

}  // namespace vigil::api::test
