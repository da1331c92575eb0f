// /health, /ready, /status, /metrics, models, tokenize and detokenize.
#include <catch2/catch.hpp>

#include "tests/server/api/api_support.hpp"

using namespace vigil;
using namespace vigil::api::test;
using api::Api;

TEST_CASE("Health is about the daemon alone", "[status]") {
  World world;
  world.engine.state = "failed";
  CHECK(world.call(&Api::health, "")->answer() == json({{"status", "ok"}}));
}

TEST_CASE("Ready says whether a request would be served, else why not", "[status]") {
  const auto [state, lazy, status] = GENERATE(table<std::string, bool, int>({
      {"ready", false, 200}, {"ready", true, 200}, {"unloaded", true, 200}, {"failed", true, 200}, {"unloaded", false, 503}, {"failed", false, 503},
      {"starting", false, 503}, {"starting", true, 503}, {"stopping", true, 503}, {"backoff", true, 503}, {"backoff", false, 503}}));
  World world;
  world.engine.state = state;
  world.engine.lazy = lazy;
  world.engine.reason = "killed by signal 9";
  world.engine.load = 0.37;
  world.engine.retry_in_s = 4.2;
  auto call = world.call(&Api::ready, "");
  CAPTURE(state, lazy);
  CHECK(call->response->status == status);
  CHECK(call->answer().at("engine") == state);
  CHECK(call->answer().at("reason") == "killed by signal 9");
  CHECK(call->answer().at("load") == 0.37);
  if (status == 503) CHECK(call->response->headers == std::vector<std::pair<std::string, std::string>>{{"Retry-After", "5"}});
}

TEST_CASE("Status has the contract's shape and numbers that agree", "[status]") {
  World world;
  world.engine_ready();
  world.engine.pid = 1234;
  world.engine.in_state_s = 2.00049;
  world.engine.generation = 3;
  auto running = world.chat(R"(,"stream":true)");
  auto queued = world.chat();
  world.token(there);
  world.now += std::chrono::milliseconds(1500);
  const json status = world.call(&Api::status, "")->answer();
  CHECK(status.at("version") == "9.9");
  CHECK(status.at("uptime_s") == 1.5);
  CHECK(status.at("engine") == json({{"state", "ready"}, {"generation", 3}, {"pid", 1234}, {"in_state_s", 2.0}, {"load", 0.0}, {"context", 256},
                                     {"slots", 1}, {"reason", ""}, {"retry_in_s", 0.0}}));
  CHECK(status.at("vision") == json({{"state", "absent"}, {"generation", 0}, {"pid", 0}, {"reason", ""}}));
  CHECK(status.at("requests") == json({{"running", 1}, {"queued", 1}, {"loading", 0}, {"encoding", 0}, {"limit", 64}}));
  REQUIRE(status.at("active").size() == 2);
  const auto prompt = static_cast<int64_t>(world.sent().request.prompt.size());
  CHECK(status.at("active")[0] == json({{"id", "req-1"}, {"phase", "decoding"}, {"held_s", 1.5}, {"stream", true}, {"prompt_tokens", prompt},
                                        {"prefilled", status.at("active")[0].at("prefilled")}, {"generated", 1}}));
  CHECK(status.at("active")[1].at("phase") == "queued");
  CHECK(status.at("totals") == json({{"served", 0}, {"failed", 0}, {"cancelled", 0}, {"rejected", 0}}));
  CHECK(status.size() == 7);
}

TEST_CASE("Metrics come as Prometheus text", "[status]") {
  World world;
  auto call = world.call(&Api::metrics, "");
  CHECK(call->response->content_type == "text/plain; version=0.0.4; charset=utf-8");
  CHECK(call->response->body == "vigil_engine_up 1\n");
}

TEST_CASE("Models: the names that requests may use, one by one too", "[status]") {
  World world;
  const json list = world.call(&Api::models, "")->answer();
  CHECK(list.at("object") == "list");
  REQUIRE(list.at("data").size() == 3);
  for (const json& model : list.at("data")) {
    CHECK(model.at("object") == "model");
    CHECK(model.at("created") == 1700000000);
    CHECK(model.at("owned_by") == "vigil");
    const auto one = world.call(&Api::model, "", [&](api::HttpRequest& request) { request.path_parameter = model.at("id"); });
    CHECK(one->answer() == model);
  }
  CHECK(list.at("data")[2].at("id") == "maker/tiny:1");
  const auto unknown = world.call(&Api::model, "", [](api::HttpRequest& request) { request.path_parameter = "a\xFF/b"; });
  CHECK(unknown->response->status == 404);
  CHECK(unknown->error().at("code") == "model_not_found");
}

TEST_CASE("Text to ids and back", "[status]") {
  World world;
  for (const std::string text : {"text", " text", "  x", "\n", "a  b", "", "é ", "</s>", "日本😊"}) {
    const json tokens = world.call(&Api::tokenize, json({{"text", text}}).dump())->answer().at("tokens");
    CHECK(world.call(&Api::detokenize, json({{"tokens", tokens}}).dump())->answer() == json({{"text", text}}));
  }
  const auto param = [&](Api::Handler handler, const std::string& body) {
    const auto call = world.call(handler, body);
    CHECK(call->response->status == 400);
    return call->error().at("param").get<std::string>();
  };
  CHECK(param(&Api::tokenize, "{}") == "text");
  CHECK(param(&Api::tokenize, R"({"text":5})") == "text");
  CHECK(param(&Api::detokenize, "{}") == "tokens");
  CHECK(param(&Api::detokenize, R"({"tokens":[1,-1]})") == "tokens[1]");
  CHECK(param(&Api::detokenize, R"({"tokens":[262]})") == "tokens[0]");
  CHECK(world.call(&Api::detokenize, R"({"tokens":[198]})")->answer().at("text") == "\xEF\xBF\xBD");
  CHECK(world.call(&Api::tokenize, R"({"text":"a","model":"none"})")->response->status == 404);
}

TEST_CASE("Long texts go to the workers", "[status]") {
  World world;
  const std::string body = R"({"text":")" + std::string(20000, 'x') + R"("})";
  auto call = world.call(&Api::tokenize, body);
  auto gone = world.call(&Api::tokenize, body);
  REQUIRE(gone.exchange);
  gone.exchange->client_left();
  world.workers.run_all();
  CHECK(call->answer().at("tokens").size() > 10000);
  CHECK(gone->answers == 0);
}
