// What a prompt with pictures counts: each picture's rows, as the engine gets them, in every dialect and in the room for thinking.
#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/server/api/api_support.hpp"

using namespace vigil;
using namespace vigil::api;
using namespace vigil::api::test;

namespace {

constexpr gguf::TokenId image = hi + 1, think_end = hi + 2;
constexpr int64_t rows = 16;
const std::string data = "data:image/png;base64,Zm9v";

struct Encoder final : turn::EncoderPort {
  turn::RequestKey last = 0;
  void encode(turn::RequestKey key, const std::vector<turn::Picture>&) override { last = key; }
  void abandon(turn::RequestKey) override {}
};

struct Gallery : World {
  Encoder encoder;
  Gallery() : World({{"<image>", 0, gguf::TokenKind::control}, {"</think>", 0, gguf::TokenKind::user_defined}}) {
    model->image = text::ImageMarkers{image, {}, {}};
    desk.attach_encoder(&encoder);
    Surroundings around = api->surroundings();
    around.vision = [] { return VisionStatus{"ready", 1, 42, "", 1000}; };
    api = std::make_unique<Api>(std::move(around));
    engine_ready();
  }
  // Its picture is encoded, and the engine says one token.
  Call ask(Api::Handler handler, const std::string& body) {
    Call made = call(handler, body);
    auto embeddings = std::make_shared<turn::Embeddings>();
    embeddings->path = "/e";
    embeddings->rows = {rows};
    desk.encoded(encoder.last, std::move(embeddings), now);
    REQUIRE(port.starts.size() == 1);
    return made;
  }
  int64_t sent_tokens() const { return static_cast<int64_t>(sent().request.prompt.size()); }
};

const std::string chat = R"("messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":")" + data + R"("}}]}])";

}  // namespace

TEST_CASE("The ids that a chat gives back are those that were sent, a picture's once for each row", "[pictures]") {
  for (const bool stream : {false, true}) {
    Gallery world;
    const auto call = world.ask(&Api::chat_completions, "{" + chat + R"(,"return_token_ids":true,"stream":)" + (stream ? "true}" : "false}"));
    world.token(hi);
    world.done();
    const json first = stream ? call->chunks().at(0) : call->answer();
    const auto ids = first.at("prompt_token_ids").get<std::vector<gguf::TokenId>>();
    CHECK(ids == world.sent().request.prompt);
    CHECK(std::count(ids.begin(), ids.end(), image) == rows);
    if (!stream) CHECK(first.at("usage").at("prompt_tokens") == world.sent_tokens());
  }
}

TEST_CASE("A message begins with the tokens that were sent", "[pictures]") {
  Gallery world;
  const auto call = world.ask(&Api::messages, R"({"max_tokens":8,"stream":true,"messages":[{"role":"user","content":[{"type":"image","source":)"
                                              R"({"type":"base64","media_type":"image/png","data":"Zm9v"}},{"type":"text","text":"hi"}]}]})");
  world.token(hi);
  world.done();
  const size_t data_at = call->body.find("data: ") + 6;  // of the first event, message_start
  const json begun = json::parse(call->body.substr(data_at, call->body.find('\n', data_at) - data_at));
  CHECK(begun.at("message").at("usage").at("input_tokens") == world.sent_tokens());
}

TEST_CASE("A response counts the tokens that were sent", "[pictures]") {
  Gallery world;
  const auto call = world.ask(&Api::responses, R"({"input":[{"role":"user","content":[{"type":"input_text","text":"hi"},{"type":"input_image","image_url":")" + data + R"("}]}]})");
  world.token(hi);
  world.done();
  CHECK(call->answer().at("usage").at("input_tokens") == world.sent_tokens());
}

TEST_CASE("Thinking has the room that a prompt with its pictures' rows leaves", "[pictures]") {
  Gallery world;
  world.model->chat = *text::ChatTemplate::compile(
      "{% for m in messages %}{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% else %}<image>{% endif %}{% endfor %}{% endfor %}<think>\n",
      *world.model->vocabulary);
  world.engine_ready(64);
  world.ask(&Api::chat_completions, "{" + chat + "}");
  const int64_t room = 64 - world.sent_tokens();
  int64_t thought = 0;
  while (world.port.cancels.empty() && thought < room) {
    world.tokens(thought % 2 == 0 ? "x" : "y");  // the same one again and again would end it
    ++thought;
  }
  CHECK(thought == room - room / 2);  // the reserve is more than half: half is left to the answer
}
