// Error objects: every code with the status and headers that the contract fixes.
#include <catch2/catch.hpp>

#include <limits>
#include <map>
#include <stdexcept>
#include <set>

#include "server/api/errors.hpp"
#include "tests/server/api/api_support.hpp"

using namespace vigil;
using namespace vigil::api::test;
using turn::ErrorCode;

namespace {

std::optional<std::string> header(const api::Response& response, const std::string& name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return std::nullopt;
}

// The contract's table.
const std::map<std::string, int> statuses = {
    {"engine_not_ready", 503},  {"engine_start_failed", 503}, {"engine_stalled", 503},      {"engine_silent", 503},   {"engine_crashed", 503},
    {"engine_error", 503},      {"engine_crash_loop", 503},   {"engine_unloaded", 503},     {"shutting_down", 503},   {"vision_unavailable", 503},
    {"queue_full", 429},        {"queue_timeout", 503},       {"context_length_exceeded", 400}, {"image_invalid", 400}, {"invalid_json", 400},
    {"invalid_request", 400},   {"template_error", 400},      {"invalid_api_key", 401},     {"host_not_allowed", 403}, {"model_not_found", 404},
    {"not_found", 404},         {"method_not_allowed", 405},  {"request_timeout", 408},     {"request_too_large", 413}, {"headers_too_large", 431},
    {"request_crashes_engine", 422}, {"internal_error", 500}};

}  // namespace

TEST_CASE("Every error has its status, its object and its headers", "[errors]") {
  std::set<std::string> seen;
  for (int i = 0; i <= static_cast<int>(ErrorCode::internal_error); ++i) {
    const turn::RequestError error{static_cast<ErrorCode>(i), "why \"quoted\"", i % 2 == 0 ? "field" : "", 2.2};
    const api::Response response = api::error_response(error);
    const json object = json::parse(response.body).at("error");
    const std::string code = object.at("code");
    CAPTURE(code);
    REQUIRE(statuses.count(code) == 1);
    CHECK(seen.insert(code).second);
    CHECK(response.status == statuses.at(code));
    CHECK(response.content_type == "application/json");
    CHECK(object.size() == 4);
    CHECK(object.at("message") == "why \"quoted\"");
    CHECK_FALSE(object.at("type").get<std::string>().empty());
    CHECK(object.at("param") == (i % 2 == 0 ? json("field") : json(nullptr)));
    const bool waits = response.status == 503 || response.status == 429;
    CHECK(header(response, "Retry-After") == (waits ? std::optional<std::string>("3") : std::nullopt));
    const bool costs_a_load = code == "engine_not_ready" || code == "engine_silent";
    CHECK(header(response, "x-should-retry") == (costs_a_load ? std::optional<std::string>("false") : std::nullopt));

    const std::string event = api::openai_error_event(api::error_facts(error));
    CHECK(event.substr(0, 6) == "data: ");
    CHECK(event.substr(event.size() - 2) == "\n\n");
    json expected = json::parse(response.body);
    expected["error"]["status"] = response.status;
    CHECK(json::parse(event.substr(6)) == expected);
  }
  CHECK(seen.size() == statuses.size());
}

TEST_CASE("Retry-After is a whole number of seconds, at least one", "[errors]") {
  const auto after = [](double seconds) { return *header(api::error_response({ErrorCode::queue_full, "x", "", seconds}), "Retry-After"); };
  CHECK(after(0) == "1");
  CHECK(after(-5) == "1");
  CHECK(after(59.01) == "60");
  CHECK(after(std::numeric_limits<double>::quiet_NaN()) == "1");
  CHECK(after(std::numeric_limits<double>::infinity()) == "1");
}

TEST_CASE("Messages with wrong bytes are still valid JSON", "[errors]") {
  const api::Response response = api::error_response({ErrorCode::engine_crashed, "last words: \xFF\x01", "", 1});
  CHECK(json::parse(response.body).at("error").at("message") == "last words: \xEF\xBF\xBD\x01");
}

TEST_CASE("A request refused by the desk is answered before the handler returns", "[errors]") {
  World world;
  world.desk.close(world.now);
  const std::string more = GENERATE(as<std::string>(), "", R"(,"stream":true)");
  auto call = world.chat(more);
  REQUIRE(call->response);
  CHECK(call.exchange == nullptr);
  CHECK(call->response->status == 503);
  CHECK(call->error().at("code") == "shutting_down");
}

TEST_CASE("A load that fails ends the request with the load's reason", "[errors]") {
  World world;
  auto plain = world.chat(), stream = world.chat(R"(,"stream":true)");
  CHECK(plain->answers == 0);
  world.desk.load_failed({ErrorCode::engine_not_ready, "did not report READY within 8 s (engine.ready_s)", "", 1}, world.now);
  for (const auto* call : {&plain, &stream}) {
    REQUIRE((*call)->response);
    CHECK((*call)->response->status == 503);
    CHECK((*call)->error().at("message") == "did not report READY within 8 s (engine.ready_s)");
    CHECK(header(*(*call)->response, "x-should-retry") == "false");
    CHECK((*call)->answers == 1);
  }
}

TEST_CASE("A cancelled request is told so, in its own form", "[errors]") {
  World world;
  world.engine_ready();
  auto stream = world.chat(R"(,"stream":true)");
  world.token(there);
  const auto cancel = [&](const std::string& id) {
    return world.call(&api::Api::cancel_request, "", [&](api::HttpRequest& request) { request.path_parameter = id; });
  };
  auto done = cancel("req-1");
  CHECK(done->response->status == 200);
  CHECK(done->answer() == json({{"id", "req-1"}, {"cancelled", true}}));
  CHECK(stream->finished);
  CHECK(json::parse(stream->events().back()).at("error").at("code") == "request_cancelled");
  CHECK(stream->body.find("[DONE]") == std::string::npos);
  auto again = cancel("req-1");
  CHECK(again->response->status == 404);
  CHECK(again->error().at("code") == "not_found");
}

TEST_CASE("A handler's exception becomes an internal_error that names the request", "[errors]") {
  struct Broken final : gguf::Tokenizer {
    std::vector<gguf::TokenId> encode(std::string_view, Markers, Bos) const override { throw std::runtime_error("broken tokenizer"); }
    std::string decode(const std::vector<gguf::TokenId>&) const override { throw std::runtime_error("broken tokenizer"); }
    std::vector<Fragment> fixed_fragments(std::string_view) const override { throw std::runtime_error("broken tokenizer"); }
  };
  World world;
  world.engine_ready();
  world.model->tokenizer = std::make_shared<Broken>();
  for (const std::string more : {"", R"(,"stream":true)"}) {
    auto call = world.chat(more);
    REQUIRE(call->response);
    CHECK(call->response->status == 500);
    CHECK(call->error().at("code") == "internal_error");
    CHECK(call->error().at("message").get<std::string>().find("req-1") != std::string::npos);
  }
  auto tokenize = world.call(&api::Api::tokenize, R"({"text":"a"})");
  CHECK(tokenize->response->status == 500);
  auto echo = world.call(&api::Api::completions, R"({"prompt":[5],"echo":true})");
  CHECK(echo->response->status == 500);
}
