// Thinking that a template's prompt opens: where an answer's grammar begins, how the thinking is brought to its end (X6), and what switches it.
#include <catch2/catch.hpp>

#include "tests/server/api/api_support.hpp"

using namespace vigil;
using namespace vigil::api::test;
using api::Api;

namespace {

const std::string opens_thinking = "{% for m in messages %}{{ m.content }}{% endfor %}<think>\n";
constexpr gguf::TokenId think_end = hi + 1;

// A world whose model thinks: the prompt opens it, one token closes it.
std::unique_ptr<World> thinking_world(bool grammar = true) {
  auto world = std::make_unique<World>(std::vector<text::test::Piece>{{"</think>", 0, gguf::TokenKind::user_defined}});
  world->model->chat = *text::ChatTemplate::compile(opens_thinking, *world->model->vocabulary);
  world->grammar = grammar;
  world->engine_ready(4096);
  return world;
}

const std::string object = R"(,"response_format":{"type":"json_object"})";

}  // namespace

TEST_CASE("While the model thinks its grammar waits for the end of it", "[constraint]") {
  auto world = thinking_world();
  world->chat(object);
  REQUIRE(world->port.starts.size() == 1);
  CHECK(world->sent().request.sampling.grammar_after == think_end);
  CHECK_FALSE(world->sent().request.sampling.grammar.empty());
}

TEST_CASE("X6 Thinking leaves the reserve to the answer, at most half of what may come", "[constraint]") {
  const auto force = [](const std::string& more, bool grammar = true) {
    auto world = thinking_world(grammar);
    world->chat(more);
    REQUIRE(world->port.starts.size() == 1);
    return world->sent().request.sampling.force_at;
  };
  const auto at = force(R"(,"max_tokens":2000)");
  REQUIRE(at);
  CHECK(at->tokens == 2000 - 512);
  CHECK(at->unless == think_end);
  CHECK_FALSE(at->ids.empty());
  CHECK(force(R"(,"max_tokens":100)")->tokens == 50);
  CHECK(force(R"(,"max_tokens":2000,"max_thinking_tokens":30)")->tokens == 30);
  CHECK(force(R"(,"max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":40})")->tokens == 40);
  CHECK(force(R"(,"max_tokens":2000,"thinking_budget":50)")->tokens == 50);
  CHECK(force(R"(,"max_tokens":2000,"reasoning":{"max_tokens":60})")->tokens == 60);
  CHECK_FALSE(force("", false));
  World plain;
  plain.grammar = true;
  plain.engine_ready(4096);
  plain.chat(R"(,"max_tokens":2000)");
  CHECK_FALSE(plain.sent().request.sampling.force_at);
}

TEST_CASE("Effort and switches of thinking reach the template", "[constraint]") {
  const std::string shows = "{{ enable_thinking is defined and not enable_thinking }}|{{ reasoning_effort | default('unsaid') }}|{{ color | default('') }}|{{ messages[0].content }}";
  const auto prompt = [&](const std::string& more) {
    World world;
    world.model->chat = *text::ChatTemplate::compile(shows, *world.model->vocabulary);
    world.engine_ready(4096);
    auto call = world.chat(more);
    INFO((call->response ? call->response->body : "accepted"));
    REQUIRE(world.port.starts.size() == 1);
    return world.model->tokenizer->decode(world.sent().request.prompt);
  };
  CHECK(prompt("") == "False|unsaid||hi");
  CHECK(prompt(R"(,"reasoning_effort":"low")") == "False|low||hi");
  CHECK(prompt(R"(,"reasoning_effort":"none")") == "True|unsaid||hi");
  CHECK(prompt(R"(,"enable_thinking":false)") == "True|unsaid||hi");
  CHECK(prompt(R"(,"thinking":{"type":"disabled"})") == "True|unsaid||hi");
  CHECK(prompt(R"(,"reasoning":{"effort":"high","enabled":false})") == "True|high||hi");
  CHECK(prompt(R"(,"chat_template_kwargs":{"enable_thinking":false,"color":"blue"})") == "True|unsaid|blue|hi");
}
