// Long bodies are read by the workers: what becomes of those who leave, are cancelled or are caught by the daemon's end meanwhile, and which
// texts are refused before anybody works on them.
#include <catch2/catch.hpp>

#include "server/api/generation.hpp"
#include "server/api/json_read.hpp"
#include "tests/server/api/api_support.hpp"

using namespace vigil;
using namespace vigil::api;
using namespace vigil::api::test;

namespace {

// Longer than what is read at once, with a short prompt.
std::string long_body(const std::string& more = "") {
  return R"({"messages":[{"role":"user","content":"hi"}],"prompt":"hi","text":"hi","tokens":[3],"padding":")" + std::string(100000, 'x') + "\"" + more + "}";
}

void run_one(World& world) {
  REQUIRE(world.workers.jobs.size() == 1);
  auto [job, done] = std::move(world.workers.jobs.front());
  world.workers.jobs.pop_front();
  job();
  done();
}

}  // namespace

TEST_CASE("A long body is read by the workers, and the answer is the same", "[body]") {
  World world;
  world.engine_ready();
  auto call = world.call(&Api::chat_completions, long_body());
  CHECK(call->plan_is_open);
  CHECK(world.port.starts.empty());
  run_one(world);
  CHECK_FALSE(call->plan_is_open);
  REQUIRE(world.port.starts.size() == 1);
  world.token(there);
  world.done();
  CHECK(call->response->status == 200);

  auto stream = world.call(&Api::completions, long_body(R"(,"stream":true)"));
  CHECK_FALSE(stream->plan.has_value());
  run_one(world);
  CHECK(stream->plan.has_value());
  world.token(there);
  world.done();
  CHECK(stream->events().back() == "[DONE]");

  auto tokens = world.call(&Api::tokenize, long_body());
  run_one(world);
  CHECK(tokens->answer().at("tokens").size() > 0);
  auto text = world.call(&Api::detokenize, long_body());
  run_one(world);
  CHECK(text->response->status == 200);
}

TEST_CASE("A long body that is wrong gets its 400 from the workers", "[body]") {
  const auto handler = GENERATE(&Api::chat_completions, &Api::completions, &Api::tokenize, &Api::detokenize);
  World world;
  auto broken = world.call(handler, long_body() + "x");
  run_one(world);
  CHECK(broken->response->status == 400);
  CHECK(broken->error().at("code") == "invalid_json");
  auto model = world.call(handler, long_body(R"(,"model":"none")"));
  run_one(world);
  CHECK(model->response->status == 404);
  CHECK(world.workers.jobs.empty());
}

TEST_CASE("Who leaves or is cancelled while the body is read never reaches the desk", "[body]") {
  World world;
  world.engine_ready();
  auto gone = world.call(&Api::chat_completions, long_body());
  gone.exchange->client_left();
  run_one(world);
  CHECK(gone->answers == 0);

  auto cancelled = world.call(&Api::chat_completions, long_body(R"(,"stream":true)"), [](api::HttpRequest& request) { request.id = "slow"; });
  auto cancel = world.call(&Api::cancel_request, "", [](api::HttpRequest& request) { request.path_parameter = "slow"; });
  CHECK(cancel->response->status == 200);
  CHECK(cancelled->response->status == 499);
  run_one(world);
  CHECK(cancelled->answers == 1);

  auto orphan = world.call(&Api::chat_completions, long_body());
  world.api.reset();
  run_one(world);
  CHECK(orphan->answers == 0);
  CHECK(world.port.starts.empty());
}

TEST_CASE("Whose input had ended when its answer turned out to be a whole one is not submitted", "[body]") {
  World world;
  world.engine_ready();
  auto call = world.call(&Api::chat_completions, long_body());
  call->on_plan_whole = [&] { call.exchange->client_left(); };
  run_one(world);
  CHECK(call->answers == 0);
  CHECK(world.port.starts.empty());
}

TEST_CASE("The daemon's end ends what is still being read or tokenised, and nothing new is read", "[body]") {
  World world;
  world.engine_ready(1 << 20);
  auto reading = world.call(&Api::chat_completions, long_body());
  auto tokenising = world.call(&Api::chat_completions, R"({"stream":true,"messages":[{"role":"user","content":")" + std::string(20000, 'x') + R"("}]})");
  auto text = world.call(&Api::tokenize, R"({"text":")" + std::string(20000, 'x') + R"("})");
  world.api->close();
  for (const auto* call : {&reading, &tokenising, &text}) {
    CHECK((*call)->response->status == 503);
    CHECK((*call)->error().at("code") == "shutting_down");
  }
  auto late = world.chat();
  CHECK(late->error().at("code") == "shutting_down");
  world.workers.run_all();
  for (const auto* call : {&reading, &tokenising, &text}) CHECK((*call)->answers == 1);
  CHECK(world.port.starts.empty());
}

TEST_CASE("More JSON values than memory is given for are refused", "[body]") {
  std::string list = R"({"x":[)";
  for (size_t i = 0; i + 3 < max_json_values; ++i) list += "1,";
  CHECK(std::holds_alternative<nlohmann::ordered_json>(read_json_object(list + "1]}")));  // the object, the list and the numbers
  auto refused = read_json_object(list + "[],1]}");
  REQUIRE(std::holds_alternative<turn::RequestError>(refused));
  CHECK(std::get<turn::RequestError>(refused).code == turn::ErrorCode::request_too_large);
  CHECK(std::get<turn::RequestError>(refused).message.find("max_json_values") != std::string::npos);
}

TEST_CASE("A text that cannot fit, however its tokens fall, is refused before it is tokenised", "[body]") {
  World world;
  world.engine_ready(256);
  auto longest = std::make_shared<Model>(*world.model);
  longest->longest_token_bytes = 100;
  world.model = longest;
  const auto chat = [&](size_t bytes) {
    auto call = world.call(&Api::completions, R"({"prompt":")" + std::string(bytes, 'x') + R"("})");
    if (!world.workers.jobs.empty() && bytes > 60000) run_one(world);  // the body's reading
    return call;
  };
  auto hopeless = chat(25600);
  REQUIRE(hopeless->answers == 1);
  CHECK(hopeless->error().at("code") == "context_length_exceeded");
  CHECK(hopeless->error().at("param") == "prompt");
  for (const char* number : {"256", "25600"}) CHECK(hopeless->error().at("message").get<std::string>().find(number) != std::string::npos);
  auto possible = chat(25599);
  CHECK(possible->answers == 0);
  CHECK(world.workers.jobs.size() == 1);
  world.workers.run_all();
  CHECK(possible->error().at("code") == "context_length_exceeded");  // by its true number of tokens

  world.engine.context = 0;  // not known before the engine is ready
  auto too_long = chat(max_prompt_text_bytes + 1);
  REQUIRE(too_long->answers == 1);
  CHECK(too_long->error().at("code") == "context_length_exceeded");
  CHECK(too_long->error().at("message").get<std::string>().find("max_prompt_text_bytes") != std::string::npos);
  auto text = world.call(&Api::tokenize, R"({"text":")" + std::string(max_prompt_text_bytes + 1, 'x') + R"("})");
  run_one(world);
  CHECK(text->error().at("param") == "text");
}
