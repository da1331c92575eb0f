// Chats with tools and thinking: how calls and thoughts come out, whole and in pieces (cases C2, D4, D7, X4, X6), and what is held back from
// a model that may not call.
#include <catch2/catch.hpp>

#include <algorithm>
#include <set>

#include "tests/server/api/answer_support.hpp"

using namespace vigil;
using namespace vigil::api::test;
using api::Api;

namespace {

const std::string two_tools = R"(,"tools":[{"type":"function","function":{"name":"get_time","parameters":{"type":"object","properties":{}}}},)"
                              R"({"type":"function","function":{"name":"add","parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}}])";

}  // namespace

TEST_CASE("C2 Tool calls in pieces: two calls, one without arguments, the same in every feed", "[tools]") {
  const std::string text = "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n"
                           "{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  check_everywhere(text, two_tools, {"", "", "tool_calls", {{"get_time", "{}"}, {"add", "{\"a\": 1}"}}});
}

TEST_CASE("C2 Text before a call is content, and ids of calls differ", "[tools]") {
  check_everywhere("I look.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>", two_tools,
                   {"I look.", "", "tool_calls", {{"add", "{\"a\": 1}"}}});
}

TEST_CASE("D7 Markup that is no good call comes out as content, and without tools all of it does", "[tools]") {
  const std::string call = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  check_everywhere(call, "", {call, "", "stop", {}});
  check_everywhere("a </tool_call> b", two_tools, {"a </tool_call> b", "", "stop", {}});
  check_everywhere("use `<tool_call>` so", two_tools, {"use `<tool_call>` so", "", "stop", {}});
  const std::string unknown = "<tool_call>\n{\"name\": \"sub\", \"arguments\": {}}\n</tool_call>";
  check_everywhere(unknown, two_tools, {unknown, "", "stop", {}});
  check_everywhere(call, two_tools + R"(,"tool_choice":"none")", {call, "", "stop", {}});
}

TEST_CASE("X4 A call that the limit cuts is never delivered as complete", "[tools]") {
  for (const size_t width : {size_t{1}, all_at_once}) {
    const Outcome cut_off = answer("<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1", width, false, two_tools, "length");
    CHECK(cut_off.finish == "length");
    CHECK(cut_off.calls.empty());
  }
}

TEST_CASE("D4 Thinking is parted from the answer, however tags fall on tokens", "[tools]") {
  check_everywhere("<think>why</think>\n\nAnswer", "", {"Answer", "why", "stop", {}});
  check_everywhere("a < b and </thin air", "", {"a < b and </thin air", "", "stop", {}});
  check_everywhere("No thinking.", "", {"No thinking.", "", "stop", {}});
}

TEST_CASE("D4 A reply that ends inside thinking is one that was cut", "[tools]") {
  for (const std::string finish : {"length", "stop"}) {
    check_everywhere("<think>why oh why", "", {"", "why oh why", "length", {}}, finish);
  }
}

TEST_CASE("Thinking can stay in the content, and its tokens are counted", "[tools]") {
  check_everywhere("<think>why</think>x", R"(,"separate_reasoning":false)", {"<think>why</think>x", "", "stop", {}});
  World world(cut("<think>why</think>Answer", 1));
  world.engine_ready();
  auto call = world.chat();
  for (gguf::TokenId i = 0; i < 24; ++i) world.token(hi + 1 + i);
  world.done();
  const json usage = call->answer().at("usage");
  CHECK(usage.at("completion_tokens") == 24);
  CHECK(usage.at("completion_tokens_details").at("reasoning_tokens") == 11);  // why and the closing tag
}

TEST_CASE("Only one call when parallel calls are switched off", "[tools]") {
  const std::string text = "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n"
                           "{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>";
  check_everywhere(text, two_tools + R"(,"parallel_tool_calls":false)", {"", "", "tool_calls", {{"get_time", "{}"}}});
}

TEST_CASE("Ids of calls never come again", "[tools]") {
  std::set<std::string> ids;
  for (int i = 0; i < 20; ++i) {
    const std::string text = "<tool_call>\n{\"name\": \"get_time\", \"arguments\": {}}\n</tool_call>";
    World world(cut(text, all_at_once));
    world.engine_ready(4096);
    auto call = world.chat(two_tools);
    world.token(hi + 1);
    world.done();
    const std::string id = call->answer().at("choices")[0].at("message").at("tool_calls")[0].at("id");
    CHECK(id.size() == 5 + 32);
    CHECK(ids.insert(id).second);
  }
}

namespace {

// A world whose vocabulary has the closing tag, with an engine that takes no grammars.
struct ThinkingWorld : World {
  ThinkingWorld() : World({{"<think>", 0, gguf::TokenKind::user_defined}, {"</think>", 0, gguf::TokenKind::user_defined}}) { engine_ready(4096); }
  static constexpr gguf::TokenId open = hi + 1, close = hi + 2;
  void think(int tokens) {
    token(open);
    for (int i = 1; i < tokens; ++i) token(there);
  }
};

}  // namespace

TEST_CASE("X6 Thinking over its budget is ended here where the engine cannot, and the answer goes on behind it", "[tools]") {
  const bool stream = GENERATE(true, false);
  ThinkingWorld world;
  auto call = world.chat(R"(,"max_tokens":40,"max_thinking_tokens":4)" + std::string(stream ? R"(,"stream":true)" : ""));
  const auto first = world.sent().request.prompt;
  world.think(5);
  REQUIRE(world.port.cancels.size() == 1);
  CHECK(call->answers == 0);
  world.done("cancel");
  world.workers.run_all();
  REQUIRE(world.port.starts.size() == 2);
  const auto& second = world.sent().request.prompt;
  REQUIRE(second.size() > first.size() + 5);
  CHECK(std::equal(first.begin(), first.end(), second.begin()));
  CHECK(std::count(second.begin() + static_cast<std::ptrdiff_t>(first.size()), second.end(), world.close) == 1);
  CHECK(world.sent().max_new == 40 - static_cast<int64_t>(second.size() - first.size()));
  world.token(was);
  world.done();
  const Outcome outcome = stream ? of_stream(call->chunks()) : of_plain(call->answer().at("choices")[0]);
  CHECK(outcome.content.find("was") != std::string::npos);
  CHECK(outcome.content.find("think") == std::string::npos);
  CHECK(outcome.reasoning.find("there there") != std::string::npos);
  CHECK(outcome.finish == "stop");
  CHECK(call->answers == 1);
  if (stream) return;
  CHECK(call->answer().at("usage").at("prompt_tokens") == first.size());
  CHECK(call->answer().at("usage").at("completion_tokens") == second.size() - first.size() + 1);
}

TEST_CASE("X6 Between thinking and answer a request can still be left, cancelled and stopped", "[tools]") {
  ThinkingWorld world;
  auto left = world.chat(R"(,"max_tokens":40,"max_thinking_tokens":4)");
  world.think(5);
  world.done("cancel");
  left.exchange->client_left();
  world.workers.run_all();
  CHECK(world.port.starts.size() == 1);
  CHECK(left->answers == 0);

  auto closed = world.chat(R"(,"max_tokens":40,"max_thinking_tokens":4)");
  world.think(5);
  world.done("cancel");
  world.api->close();
  CHECK(closed->error().at("code") == "shutting_down");
  world.workers.run_all();
  CHECK(closed->answers == 1);
  CHECK(world.port.starts.size() == 2);
}
