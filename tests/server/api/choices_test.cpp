// Several choices and several prompts in one reply: indexes, seeds, usage, and one ending for all (case C1 with n).
#include <catch2/catch.hpp>

#include <map>

#include "tests/server/api/api_support.hpp"

using namespace vigil;
using namespace vigil::api::test;
using api::Api;

namespace {

// The engine works on the request that was started as the i-th.
void token_of(World& world, size_t i, gguf::TokenId id) { world.desk.on_line(world.port.starts[i].lease, protocol::Token{id, {}, {}}, world.now); }
void done_of(World& world, size_t i) {
  protocol::Done line;
  line.generated = 1;
  line.finish = "stop";
  world.desk.on_line(world.port.starts[i].lease, line, world.now);
}

}  // namespace

TEST_CASE("C1 Two choices have both indexes, one reason each, and the sum in the usage", "[choices]") {
  World world;
  world.slots = 2;
  world.engine_ready();
  auto call = world.chat(R"(,"n":2,"seed":7,"stream":true,"stream_options":{"include_usage":true})");
  REQUIRE(world.port.starts.size() == 2);
  CHECK(world.port.starts[0].request.sampling.seed == 7u);
  CHECK(world.port.starts[1].request.sampling.seed == 8u);
  token_of(world, 1, was);
  token_of(world, 0, there);
  done_of(world, 1);
  CHECK_FALSE(call->finished);
  token_of(world, 0, was);
  done_of(world, 0);
  REQUIRE(call->finished);
  CHECK(call->answers == 1);
  std::map<int, std::string> texts, reasons, roles;
  json usage;
  for (const json& chunk : call->chunks()) {
    if (!chunk.at("usage").is_null()) usage = chunk.at("usage");
    for (const json& choice : chunk.at("choices")) {
      const int index = choice.at("index");
      const json& delta = choice.at("delta");
      if (delta.contains("role")) roles[index] += delta.at("role").get<std::string>();
      if (delta.contains("content")) texts[index] += delta.at("content").get<std::string>();
      if (!choice.at("finish_reason").is_null()) reasons[index] += choice.at("finish_reason").get<std::string>();
    }
  }
  CHECK(roles == std::map<int, std::string>{{0, "assistant"}, {1, "assistant"}});
  CHECK(texts == std::map<int, std::string>{{0, " there was"}, {1, " was"}});
  CHECK(reasons == std::map<int, std::string>{{0, "stop"}, {1, "stop"}});
  CHECK(usage.at("prompt_tokens") == world.port.starts[0].request.prompt.size());
  CHECK(usage.at("completion_tokens") == 3);
  CHECK(call->events().back() == "[DONE]");
}

TEST_CASE("Choices of a plain answer come in the order of their indexes, one after another with one slot", "[choices]") {
  World world;
  world.engine_ready();
  auto call = world.chat(R"(,"n":3)");
  for (size_t i = 0; i < 3; ++i) {
    REQUIRE(world.port.starts.size() == i + 1);
    token_of(world, i, i == 1 ? was : there);
    done_of(world, i);
  }
  REQUIRE(call->response);
  const json answer = call->answer();
  REQUIRE(answer.at("choices").size() == 3);
  for (size_t i = 0; i < 3; ++i) {
    CHECK(answer.at("choices")[i].at("index") == i);
    CHECK(answer.at("choices")[i].at("message").at("content") == (i == 1 ? " was" : " there"));
  }
  CHECK(answer.at("usage").at("completion_tokens") == 3);
}

TEST_CASE("A client that leaves takes all its choices along", "[choices]") {
  World world;
  world.slots = 2;
  world.engine_ready();
  auto call = world.chat(R"(,"n":4)");
  REQUIRE(world.port.starts.size() == 2);
  call.exchange->client_left();
  CHECK(world.port.cancels.size() == 2);
  CHECK(world.desk.snapshot(world.now).queued == 0);  // the two that waited never reach the engine
  done_of(world, 0);
  done_of(world, 1);
  CHECK(world.port.starts.size() == 2);
  CHECK(world.desk.snapshot(world.now).active.empty());
  CHECK(call->answers == 0);
}

TEST_CASE("One choice that fails ends the reply, once, and the others with it", "[choices]") {
  World world;
  world.slots = 2;
  world.engine_ready();
  auto call = world.chat(R"(,"n":3)");
  world.desk.on_line(world.port.starts[0].lease, protocol::EngineError{"no"}, world.now);
  world.desk.error_settled(world.port.starts[0].lease, "", world.now);
  REQUIRE(call->response);
  CHECK(call->response->status == 503);
  CHECK(call->answers == 1);
  world.workers.run_all();
  CHECK(world.desk.snapshot(world.now).queued == 0);
  CHECK(world.port.cancels.size() == world.port.starts.size() - 1);
  for (size_t i = 1; i < world.port.starts.size(); ++i) done_of(world, i);
  CHECK(world.desk.snapshot(world.now).active.empty());
  CHECK(call->answers == 1);
}

TEST_CASE("The engine's death ends all choices with one error", "[choices]") {
  World world;
  world.slots = 2;
  world.engine_ready();
  auto call = world.chat(R"(,"n":2,"stream":true)");
  token_of(world, 0, there);
  world.engine_dies(turn::ErrorCode::engine_crashed, "died");
  CHECK(call->answers == 1);
  CHECK(json::parse(call->events().back()).at("error").at("code") == "engine_crashed");
  world.workers.run_all();
  CHECK(call->answers == 1);
}

TEST_CASE("Several prompts give their choices prompt by prompt, and each prompt counts once", "[choices]") {
  World world;
  world.engine_ready();
  auto call = world.call(&Api::completions, R"({"prompt":["hi",[5,6]],"n":2,"echo":true,"return_token_ids":true})");
  for (size_t i = 0; i < 4; ++i) {
    REQUIRE(world.port.starts.size() == i + 1);
    token_of(world, i, there);
    done_of(world, i);
  }
  const json answer = call->answer();
  REQUIRE(answer.at("choices").size() == 4);
  CHECK(answer.at("choices")[1].at("text") == "hi there");
  CHECK(answer.at("choices")[3].at("index") == 3);
  CHECK(answer.at("usage").at("prompt_tokens") == world.port.starts[0].request.prompt.size() + 2);
  CHECK(answer.at("prompt_token_ids").size() == 2);
  CHECK(answer.at("prompt_token_ids")[1] == json({5, 6}));
}
