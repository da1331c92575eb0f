// POST /v1/messages and count_tokens through the desk: plain, streamed, stopped, failed.
#include "tests/server/api/dialect_support.hpp"

#include "tests/server/api/api_support.hpp"

using namespace vigil;
using namespace vigil::api::test;
using api::Api;

namespace {

World::Call send(World& world, const std::string& more = "") {
  return world.call(&Api::messages, R"({"max_tokens":16,"messages":[{"role":"user","content":"hi"}])" + more + "}");
}

std::string message_text(const std::vector<ordered>& events) {
  std::string out;
  for (const ordered& event : events) {
    if (event.at("type") == "content_block_delta") out += event.at("delta").at("text");
  }
  return out;
}

}  // namespace

TEST_CASE("Messages: a plain answer through the desk", "[messages]") {
  World world;
  world.engine_ready();
  auto call = send(world, R"(,"top_k":5,"top_p":0.5,"temperature":0.25,"metadata":{"user_id":"u"})");
  REQUIRE(world.port.starts.size() == 1);
  CHECK(world.sent().request.sampling.top_p == 0.5);
  CHECK(world.sent().request.sampling.temperature == 0.25);
  CHECK(world.sent().max_new == 16);
  CHECK(world.sent().request.sampling.top_k == 5);
  CHECK(world.sent().request.client == "named:u");
  world.desk.on_line(world.lease(), protocol::Resume{2}, world.now);
  world.token(there);
  world.done();
  REQUIRE(call->response->status == 200);
  const json answer = call->answer();
  CHECK(answer.at("id").get<std::string>().rfind("msg_", 0) == 0);
  CHECK(answer.at("content") == json::parse(R"([{"type":"text","text":" there"}])"));
  CHECK(answer.at("stop_reason") == "end_turn");
  const auto prompt = static_cast<int64_t>(world.sent().request.prompt.size());
  CHECK(answer.at("usage").at("input_tokens") == prompt - 2);
  CHECK(answer.at("usage").at("cache_read_input_tokens") == 2);
  CHECK(answer.at("usage").at("output_tokens") == 1);
  world.call(&Api::messages, R"({"messages":[{"role":"user","content":"hi"}]})");  // max_tokens may be absent
  CHECK(world.sent().max_new == 256 - prompt);
}

TEST_CASE("Messages: what is ignored changes nothing", "[messages]") {
  World world;
  world.engine_ready();
  send(world);
  const auto plain = world.sent();
  world.token(2);
  world.done();
  const std::string more = R"("service_tier":"auto","container":"c","context_management":{"edits":[]},"cache_control":{"type":"ephemeral"},)"
                           R"("unheard_of":{"a":[1]},"max_tokens":16,"messages":[{"role":"user","content":[{"type":"text","text":"hi",)"
                           R"("cache_control":{"type":"ephemeral","ttl":"1h"},"citations":[]}]}])";
  // The api is given no headers at all: anthropic-version and anthropic-beta cannot change anything.
  auto call = world.call(&Api::messages, "{" + more + "}");
  INFO((call->response ? call->response->body : "accepted"));
  REQUIRE(world.port.starts.size() == 2);
  CHECK(world.sent().request.prompt == plain.request.prompt);
  CHECK(world.sent().max_new == plain.max_new);
  CHECK(world.sent().request.sampling.temperature == plain.request.sampling.temperature);
}

TEST_CASE("Messages: a stream through the desk, ended by a stop sequence", "[messages]") {
  World world;
  world.engine_ready();
  auto call = send(world, R"(,"stream":true,"stop_sequences":["was","never"])");
  REQUIRE(call->plan);
  CHECK(named_events(call->plan->keepalive())[0].at("type") == "ping");
  world.token(there);
  world.token(was);
  world.done("cancel");
  const auto events = named_events(call->body);
  CHECK(call->finished);
  CHECK(events.front().at("type") == "message_start");
  CHECK(message_text(events) == " there ");
  CHECK(events[events.size() - 2].at("delta") == ordered({{"stop_reason", "stop_sequence"}, {"stop_sequence", "was"}}));
  CHECK(events.back().at("type") == "message_stop");
}

TEST_CASE("Messages: refusals and failures have Anthropic's shape", "[messages]") {
  World world;
  world.engine_ready();
  const auto type = [](World::Call& call) { return call->answer().at("error").at("type").get<std::string>(); };
  auto broken = world.call(&Api::messages, "{");
  CHECK(broken->response->status == 400);
  CHECK(broken->answer().at("type") == "error");
  CHECK(type(broken) == "invalid_request_error");
  auto unknown = send(world, R"(,"model":"no-such")");
  CHECK(unknown->response->status == 404);
  CHECK(type(unknown) == "not_found_error");
  auto wrong = send(world, R"(,"stop_sequences":[3])");
  CHECK(type(wrong) == "invalid_request_error");
  std::string stops = "\"x\"";
  for (int i = 0; i < 64; ++i) stops += ",\"x\"";
  CHECK(send(world, ",\"stop_sequences\":[" + stops + "]")->response->status == 400);

  auto early = send(world);
  world.engine_dies(turn::ErrorCode::engine_crashed, "it died");
  CHECK(early->response->status == 503);
  CHECK(type(early) == "api_error");
  world.engine_ready();
  auto late = send(world, R"(,"stream":true)");
  world.token(there);
  world.engine_dies(turn::ErrorCode::engine_crashed, "it died");
  const auto events = named_events(late->body);
  CHECK(events.back().at("type") == "error");
  CHECK(events.back().at("error").at("code") == "engine_crashed");
  CHECK(late->answers == 1);
}

TEST_CASE("Messages: count_tokens counts the very prompt that would be sent", "[messages]") {
  World world;
  world.engine_ready();
  const std::string body = R"({"system":"Be brief.","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"},{"role":"user","content":"there"}])";
  auto count = world.call(&Api::count_tokens, body + "}");
  REQUIRE(count->response->status == 200);
  world.call(&Api::messages, body + R"(,"max_tokens":3})");
  CHECK(count->answer() == json({{"input_tokens", world.sent().request.prompt.size()}}));
  auto wrong = world.call(&Api::count_tokens, "{}");
  CHECK(wrong->response->status == 400);
  CHECK(wrong->answer().at("type") == "error");
}
