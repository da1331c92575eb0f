// POST /v1/chat/completions: the shape of replies (case C1), stop strings (C5), characters over tokens (D1), endings.
#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/server/api/api_support.hpp"

using namespace vigil;
using namespace vigil::api::test;
using api::Api;

namespace {

std::string joined(const std::vector<json>& chunks) {
  std::string out;
  for (const json& chunk : chunks) {
    for (const json& choice : chunk.at("choices")) {
      if (choice.at("delta").contains("content")) out += choice.at("delta").at("content").get<std::string>();
    }
  }
  return out;
}

}  // namespace

TEST_CASE("A plain answer has OpenAI's shape", "[chat]") {
  World world;
  world.engine_ready();
  auto call = world.chat();
  REQUIRE(world.port.starts.size() == 1);
  world.desk.on_line(world.lease(), protocol::Resume{2}, world.now);
  world.token(there);
  world.token(was);
  REQUIRE_FALSE(call->response);
  world.done();
  REQUIRE(call->response->status == 200);
  CHECK(call->response->content_type == "application/json");
  const json answer = call->answer();
  CHECK(answer.at("object") == "chat.completion");
  CHECK(answer.at("id").get<std::string>().rfind("chatcmpl-", 0) == 0);
  CHECK(answer.at("created") == 1750000000);
  CHECK(answer.at("model") == "tiny");
  REQUIRE(answer.at("choices").size() == 1);
  const json& choice = answer.at("choices")[0];
  CHECK(choice.at("index") == 0);
  CHECK(choice.at("message") == json({{"role", "assistant"}, {"content", " there was"}, {"refusal", nullptr}}));
  CHECK(choice.at("logprobs").is_null());
  CHECK(choice.at("finish_reason") == "stop");
  CHECK_FALSE(choice.contains("token_ids"));
  const auto prompt = static_cast<int64_t>(world.sent().request.prompt.size());
  CHECK(answer.at("usage").at("prompt_tokens") == prompt);
  CHECK(answer.at("usage").at("completion_tokens") == 2);
  CHECK(answer.at("usage").at("total_tokens") == prompt + 2);
  CHECK(answer.at("usage").at("prompt_tokens_details").at("cached_tokens") == 2);
}

TEST_CASE("A stream begins with the role, ends with one reason and [DONE], and keeps its id", "[chat]") {
  const bool with_usage = GENERATE(true, false);
  World world;
  world.engine_ready();
  auto call = world.chat(with_usage ? R"(,"stream":true,"stream_options":{"include_usage":true})" : R"(,"stream":true)");
  REQUIRE(call->plan);
  CHECK(call->plan->content_type == "text/event-stream");
  CHECK(call->plan->keepalive() == ": keep-alive\n\n");
  CHECK(call->body.empty());  // headers are held back until a token comes, so that a failure is still a plain answer
  world.token(there);
  CHECK(call->writes == 1);
  world.token(was);
  CHECK(call->writes == 2);   // one write a token
  world.done("length");
  REQUIRE(call->finished);
  CHECK(call->answers == 1);

  const auto events = call->events();
  CHECK(events.back() == "[DONE]");
  CHECK(std::count(events.begin(), events.end(), "[DONE]") == 1);
  const auto chunks = call->chunks();
  REQUIRE(chunks.size() == (with_usage ? 5u : 4u));
  int reasons = 0;
  for (const json& chunk : chunks) {
    CHECK(chunk.at("object") == "chat.completion.chunk");
    CHECK(chunk.at("id") == chunks[0].at("id"));
    CHECK(chunk.at("created") == chunks[0].at("created"));
    CHECK(chunk.at("model") == "tiny");
    CHECK(chunk.contains("usage") == with_usage);
    for (const json& choice : chunk.at("choices")) {
      CHECK(choice.at("index") == 0);
      if (!choice.at("finish_reason").is_null()) ++reasons;
    }
  }
  CHECK(reasons == 1);
  CHECK(chunks[0].at("choices")[0].at("delta") == json({{"role", "assistant"}, {"content", ""}}));
  CHECK(chunks[1].at("choices")[0].at("delta") == json({{"content", " there"}}));
  CHECK(chunks[3].at("choices")[0].at("delta") == json::object());
  CHECK(chunks[3].at("choices")[0].at("finish_reason") == "length");
  if (with_usage) {
    for (size_t i = 0; i < 4; ++i) CHECK(chunks[i].at("usage").is_null());
    CHECK(chunks[4].at("choices").empty());
    CHECK(chunks[4].at("usage").at("completion_tokens") == 2);
  }
}

TEST_CASE("An answer of no tokens still has its role, its reason and its end", "[chat]") {
  World world;
  world.engine_ready();
  auto call = world.chat(R"(,"stream":true)");
  world.token(2);  // </s>
  const auto chunks = call->chunks();
  REQUIRE(chunks.size() == 2);
  CHECK(chunks[0].at("choices")[0].at("delta").at("role") == "assistant");
  CHECK(chunks[1].at("choices")[0].at("finish_reason") == "stop");
  CHECK(call->events().back() == "[DONE]");

  World other;
  other.engine_ready();
  auto plain = other.chat();
  other.token(2);
  CHECK(plain->answer().at("choices")[0].at("message").at("content") == "");
  CHECK(plain->answer().at("usage").at("completion_tokens") == 0);
}

TEST_CASE("Token ids are returned when asked for, streamed and plain", "[chat]") {
  World world;
  world.engine_ready();
  auto plain = world.chat(R"(,"return_token_ids":true)");
  world.token(there);
  world.tokens("\xC3\xA9");
  world.done();
  const json answer = plain->answer();
  const json ids = answer.at("choices")[0].at("token_ids");
  CHECK(ids == json({there, text::test::byte_id(0xC3), text::test::byte_id(0xA9)}));
  CHECK(answer.at("prompt_token_ids") == json(world.sent().request.prompt));

  auto stream = world.chat(R"(,"return_token_ids":true,"stream":true)");
  world.token(there);
  world.tokens("\xC3\xA9\xF0");
  world.done();
  const auto chunks = stream->chunks();
  CHECK(chunks[0].at("prompt_token_ids") == json(world.sent().request.prompt));
  json all = json::array();
  for (const json& chunk : chunks) {
    const json& choice = chunk.at("choices")[0];
    if (!choice.contains("token_ids")) continue;
    for (const json& id : choice.at("token_ids")) all.push_back(id);
  }
  json with_rest = ids;
  with_rest.push_back(text::test::byte_id(0xF0));
  CHECK(all == with_rest);
}

TEST_CASE("Stop strings: over tokens, never partly sent, the engine is stopped", "[chat]") {
  const bool stream = GENERATE(true, false);
  World world;
  world.engine_ready();
  auto call = world.chat(std::string(R"(,"stop":["\nUser:"])") + (stream ? R"(,"stream":true)" : ""));
  world.tokens("abc\nUse");
  if (stream) CHECK(joined(call->chunks()) == "abc");
  world.tokens("r:");
  REQUIRE(call->answers == 1);
  CHECK(world.port.cancels == std::vector<turn::LeaseId>{world.lease()});
  if (stream) {
    CHECK(joined(call->chunks()) == "abc");
    CHECK(call->chunks().back().at("choices")[0].at("finish_reason") == "stop");
  } else {
    CHECK(call->answer().at("choices")[0].at("message").at("content") == "abc");
    CHECK(call->answer().at("choices")[0].at("finish_reason") == "stop");
    CHECK(call->answer().at("usage").at("completion_tokens") == 9);
  }
}

TEST_CASE("Held text comes out when the limit falls inside a stop string or a character", "[chat]") {
  const bool stream = GENERATE(true, false);
  World world;
  world.engine_ready();
  auto call = world.chat(std::string(R"(,"stop":"\nUser:","max_tokens":6)") + (stream ? R"(,"stream":true)" : ""));
  CHECK(world.sent().max_new == 6);
  world.tokens("ab\nU\xF0\x9F");
  REQUIRE(call->answers == 1);
  const std::string text = stream ? joined(call->chunks()) : call->answer().at("choices")[0].at("message").at("content").get<std::string>();
  CHECK(text == "ab\nU\xEF\xBF\xBD");
}

TEST_CASE("One token for ever is ended as length, and logged", "[chat]") {
  World world;
  world.engine_ready();
  auto call = world.chat();
  for (int i = 0; i < 7; ++i) world.tokens("!");
  REQUIRE(call->answers == 0);
  world.tokens("!");
  REQUIRE(call->response);
  CHECK(call->answer().at("choices")[0].at("finish_reason") == "length");
  REQUIRE(world.log.size() == 1);
  CHECK(world.log[0].find("engine.repeat_stop_tokens") != std::string::npos);
}

TEST_CASE("A failure before the first event is a plain error, after it an in-stream one without [DONE]", "[chat]") {
  World world;
  world.engine_ready();
  auto early = world.chat(R"(,"stream":true)");
  world.engine_dies(turn::ErrorCode::engine_stalled, "nothing for 3 s (engine.stall_s)");
  REQUIRE(early->response);
  CHECK(early->response->status == 503);
  CHECK(early->error().at("code") == "engine_stalled");

  world.engine_ready();
  auto late = world.chat(R"(,"stream":true)");
  world.token(there);
  world.engine_dies(turn::ErrorCode::engine_crashed, "killed by signal 11");
  CHECK(late->finished);
  CHECK(late->answers == 1);
  const auto events = late->events();
  const json last = json::parse(events.back());
  CHECK(last.at("error").at("code") == "engine_crashed");
  CHECK(last.at("error").at("status") == 503);
  CHECK(late->body.find("[DONE]") == std::string::npos);
  for (size_t i = 0; i + 1 < events.size(); ++i) CHECK(json::parse(events[i]).at("choices")[0].at("finish_reason").is_null());

  World other;
  other.engine_ready();
  auto plain = other.chat();
  other.token(there);
  other.engine_error("out of memory");
  CHECK(plain->response->status == 503);
  CHECK(plain->error().at("code") == "engine_error");
  CHECK(plain->error().at("message").get<std::string>().find("out of memory") != std::string::npos);
}

TEST_CASE("A client that leaves gets nothing, and the engine one STOP", "[chat]") {
  const bool stream = GENERATE(true, false);
  World world;
  world.engine_ready();
  auto call = world.chat(stream ? R"(,"stream":true)" : "");
  world.token(there);
  const int writes = call->writes;
  call.exchange->client_left();
  CHECK(call->writes == writes);
  CHECK(call->answers == 0);
  CHECK(world.port.cancels.size() == 1);
  call.exchange->client_left();
  CHECK(world.port.cancels.size() == 1);
  CHECK(world.desk.snapshot(world.now).cancelled == 1);
}

TEST_CASE("A full write buffer reaches the desk", "[chat]") {
  World world;
  world.engine_ready();
  auto call = world.chat(R"(,"stream":true)");
  world.token(there);
  call.exchange->reader_blocked();
  CHECK(world.port.pauses == std::vector<bool>{true});
  call.exchange->reader_ready();
  CHECK(world.port.pauses == std::vector<bool>{true, false});
}

TEST_CASE("Long prompts are tokenised by the workers; who leaves meanwhile is never submitted", "[chat]") {
  World world;
  world.engine_ready(1 << 20);
  const std::string body = R"({"messages":[{"role":"user","content":")" + std::string(20000, 'x') + R"("}]})";
  auto call = world.call(&Api::chat_completions, body);
  CHECK(world.port.starts.empty());
  REQUIRE(world.workers.jobs.size() == 1);
  world.workers.run_all();
  REQUIRE(world.port.starts.size() == 1);
  CHECK(world.sent().request.prompt.size() > 10000);
  world.token(there);
  world.done();
  CHECK(call->response->status == 200);

  auto gone = world.call(&Api::chat_completions, body);
  gone.exchange->client_left();
  world.workers.run_all();
  CHECK(world.port.starts.size() == 1);
  CHECK(gone->answers == 0);

  auto cancelled = world.call(&Api::chat_completions, body, [](api::HttpRequest& request) { request.id = "slow"; });
  auto cancel = world.call(&Api::cancel_request, "", [](api::HttpRequest& request) { request.path_parameter = "slow"; });
  CHECK(cancel->response->status == 200);
  CHECK(cancelled->response->status == 499);
  world.workers.run_all();
  CHECK(world.port.starts.size() == 1);
  CHECK(cancelled->answers == 1);

  auto orphan = world.call(&Api::chat_completions, body);
  world.api.reset();
  world.workers.run_all();
  CHECK(orphan->answers == 0);
}

TEST_CASE("Log probabilities appear when the engine gives them, else asking is a 400", "[chat]") {
  World mute;
  mute.engine_ready();
  auto refused = mute.chat(R"(,"logprobs":true)");
  CHECK(refused->response->status == 400);
  CHECK(refused->error().at("param") == "logprobs");

  World world;
  world.engine.can_logprobs = true;
  world.engine_ready();
  auto call = world.chat(R"(,"logprobs":true,"top_logprobs":2)");
  CHECK(world.sent().request.sampling.logprobs == 2);
  world.desk.on_line(world.lease(), protocol::Token{there, -0.5, {{there, -0.5}, {was, -1.5}}}, world.now);
  world.done();
  const json content = call->answer().at("choices")[0].at("logprobs").at("content");
  REQUIRE(content.size() == 1);
  CHECK(content[0].at("token") == " there");
  CHECK(content[0].at("logprob") == -0.5);
  CHECK(content[0].at("bytes") == json({32, 116, 104, 101, 114, 101}));
  CHECK(content[0].at("top_logprobs")[1].at("token") == " was");
}
