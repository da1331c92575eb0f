// POST /v1/responses through the desk: plain, streamed, failed; fields that are repeated.
#include "tests/server/api/dialect_support.hpp"

#include "tests/server/api/api_support.hpp"

using namespace vigil;
using namespace vigil::api::test;
using api::Api;

namespace {

World::Call send(World& world, const std::string& more = "") { return world.call(&Api::responses, R"({"input":"hi")" + more + "}"); }

}  // namespace

TEST_CASE("Responses: a plain answer through the desk", "[responses]") {
  World world;
  world.engine_ready();
  auto call = send(world, R"(,"instructions":"Be brief.","max_output_tokens":16,"temperature":0.5,"metadata":{"a":"b"},"store":true,"prompt_cache_key":"k")");
  REQUIRE(world.port.starts.size() == 1);
  CHECK(world.sent().max_new == 16);
  CHECK(world.sent().request.client == "named:k");
  world.token(there);
  world.done();
  REQUIRE(call->response->status == 200);
  const json answer = call->answer();
  CHECK(answer.at("object") == "response");
  CHECK(answer.at("id").get<std::string>().rfind("resp_", 0) == 0);
  CHECK(answer.at("created_at") == 1750000000);
  CHECK(answer.at("status") == "completed");
  CHECK(answer.at("output")[0].at("content")[0].at("text") == " there");
  CHECK(answer.at("instructions") == "Be brief.");
  CHECK(answer.at("max_output_tokens") == 16);
  CHECK(answer.at("metadata") == json({{"a", "b"}}));
  CHECK(answer.at("store") == false);
  CHECK(answer.at("usage").at("input_tokens") == world.sent().request.prompt.size());
  for (const char* name : {"background", "error", "incomplete_details", "max_tool_calls", "parallel_tool_calls", "previous_response_id", "prompt_cache_key",
                           "reasoning", "safety_identifier", "service_tier", "temperature", "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation",
                           "user"}) {
    INFO(name);
    CHECK(answer.contains(name));
  }
}

TEST_CASE("Responses: what is ignored changes nothing", "[responses]") {
  World world;
  world.engine_ready();
  send(world);
  const auto plain = world.sent();
  world.token(2);
  world.done();
  auto call = send(world, R"(,"service_tier":"flex","stream_options":{"include_obfuscation":false},"client_metadata":{"a":"b"},"unheard_of":[1])");
  INFO((call->response ? call->response->body : "accepted"));
  REQUIRE(world.port.starts.size() == 2);
  CHECK(world.sent().request.prompt == plain.request.prompt);
  CHECK(world.sent().max_new == plain.max_new);
  CHECK(world.sent().request.sampling.temperature == plain.request.sampling.temperature);
}

TEST_CASE("Responses: whose turn it is", "[responses]") {
  for (const std::string more : {R"(,"prompt_cache_key":"k")", R"(,"metadata":{"user_id":"k"})", R"(,"user":"k")"}) {
    World world;
    world.engine_ready();
    send(world, more);
    REQUIRE(world.port.starts.size() == 1);
    CHECK(world.sent().request.client == "named:k");
  }
}

TEST_CASE("Responses: a stream through the desk, cut by the limit", "[responses]") {
  World world;
  world.engine_ready();
  auto call = send(world, R"(,"stream":true,"max_output_tokens":2)");
  REQUIRE(call->plan);
  world.token(there);
  world.token(was);
  world.done("length");
  const auto events = named_events(call->body);
  for (size_t i = 0; i < events.size(); ++i) CHECK(events[i].at("sequence_number") == i);
  CHECK(events.front().at("type") == "response.created");
  CHECK(events.back().at("type") == "response.incomplete");
  CHECK(events.back().at("response").at("output")[0].at("content")[0].at("text") == " there was");
  CHECK(call->finished);
}

TEST_CASE("Responses: a failure before the first event is plain, after it response.failed", "[responses]") {
  World world;
  world.engine_ready();
  auto early = send(world, R"(,"stream":true)");
  world.engine_dies(turn::ErrorCode::engine_crashed, "it died");
  CHECK(early->response->status == 503);
  CHECK(early->error().at("code") == "engine_crashed");
  world.engine_ready();
  auto late = send(world, R"(,"stream":true)");
  world.token(there);
  world.engine_dies(turn::ErrorCode::engine_crashed, "it died");
  const auto events = named_events(late->body);
  CHECK(events.back().at("type") == "response.failed");
  CHECK(events.back().at("sequence_number") == events.size() - 1);
  CHECK(events.back().at("response").at("error").at("code") == "engine_crashed");
  CHECK(late->answers == 1);
  auto waiting = send(world, R"(,"stream":true)");
  CHECK(named_events(waiting->plan->keepalive()).back().at("type") == "response.in_progress");
}

TEST_CASE("Responses: what needs a memory is a 400 that names it", "[responses]") {
  World world;
  world.engine_ready();
  const std::pair<std::string, std::string> wants[] = {{"previous_response_id", R"("resp_1")"}, {"conversation", R"("conv_1")"},
                                                       {"prompt", R"({"id":"pmpt_1"})"}, {"background", "true"}};
  for (const auto& [name, value] : wants) {
    auto call = send(world, ",\"" + name + "\":" + value);
    CHECK(call->response->status == 400);
    CHECK(call->error().at("param") == name);
  }
  CHECK(world.port.starts.empty());
}
