// POST /v1/completions: forms of a prompt, the shape of replies, echo.
#include <catch2/catch.hpp>

#include <algorithm>

#include "tests/server/api/api_support.hpp"

using namespace vigil;
using namespace vigil::api::test;
using api::Api;

namespace {

std::vector<turn::TokenId> prompt_of(const std::string& prompt) {
  World world;
  world.engine_ready();
  const auto call = world.call(&Api::completions, R"({"prompt":)" + prompt + "}");
  INFO(prompt << " -> " << (call->response ? call->response->body : "accepted"));
  REQUIRE(world.port.starts.size() == 1);
  return world.sent().request.prompt;
}

std::string param_of(const std::string& body) {
  World world;
  world.engine_ready();
  const auto call = world.call(&Api::completions, body);
  REQUIRE(call->response);
  CHECK(call->response->status == 400);
  CHECK(call->error().at("code") == "invalid_request");
  return call->error().at("param").get<std::string>();
}

}  // namespace

TEST_CASE("A prompt is text or ids, alone or as the one element of a list", "[completions]") {
  World world;
  const auto encoded = world.model->tokenizer->encode("hi", gguf::Tokenizer::Markers::plain, gguf::Tokenizer::Bos::as_model);
  CHECK(encoded.front() == 1);
  CHECK(prompt_of(R"("hi")") == encoded);
  CHECK(prompt_of(R"(["hi"])") == encoded);
  CHECK(prompt_of("[5,6,7]") == std::vector<turn::TokenId>{5, 6, 7});
  CHECK(prompt_of("[[5,6]]") == std::vector<turn::TokenId>{5, 6});
  CHECK(prompt_of(R"("</s>")").size() > 4);  // typed markers are text
}

TEST_CASE("Wrong prompts and what this server does not do are named", "[completions]") {
  CHECK(param_of("{}") == "prompt");
  CHECK(param_of(R"({"prompt":["a","b","c","d","e","f","g","h","i"]})") == "prompt");
  CHECK(param_of(R"({"prompt":["a",5]})") == "prompt");
  CHECK(param_of(R"({"prompt":[-1]})") == "prompt");
  CHECK(param_of(R"({"prompt":[262]})") == "prompt");  // the vocabulary's size
  CHECK(param_of(R"({"prompt":[1,"a"]})") == "prompt");
  CHECK(param_of(R"({"prompt":[1.5]})") == "prompt");
  CHECK(param_of(R"({"prompt":{}})") == "prompt");
  CHECK(param_of(R"({"prompt":"a","suffix":"b"})") == "suffix");
  CHECK(param_of(R"({"prompt":"a","best_of":2})") == "best_of");
  CHECK(param_of(R"({"prompt":"a","logprobs":2})") == "logprobs");
  CHECK(param_of(R"({"prompt":"a","logprobs":21})") == "logprobs");
  CHECK(param_of(R"({"prompt":"a","logprobs":0,"echo":true})") == "echo");
  CHECK(param_of(R"({"prompt":"a","echo":1})") == "echo");
  CHECK(param_of(R"({"prompt":"a","tools":[1]})") == "tools");
}

TEST_CASE("A suffix goes through the vocabulary's own ids for it", "[completions]") {
  World world({{"<|fim_prefix|>", 0, gguf::TokenKind::control}, {"<|fim_suffix|>", 0, gguf::TokenKind::control}, {"<|fim_middle|>", 0, gguf::TokenKind::control}});
  REQUIRE(world.model->vocabulary->infill().complete());
  world.engine_ready();
  world.call(&Api::completions, R"({"prompt":[5,6],"suffix":"<|fim_middle|>"})");
  REQUIRE(world.port.starts.size() == 1);
  const auto& prompt = world.sent().request.prompt;
  CHECK(std::vector(prompt.begin(), prompt.begin() + 5) == std::vector<turn::TokenId>{1, hi + 1, 5, 6, hi + 2});
  CHECK(std::count(prompt.begin(), prompt.end(), hi + 3) == 1);  // what was typed is text
  CHECK(prompt.back() == hi + 3);
}

TEST_CASE("A plain completion has OpenAI's shape and keeps its first blank", "[completions]") {
  World world;
  world.engine_ready();
  auto call = world.complete(R"(,"suffix":"","best_of":1,"return_token_ids":true)");
  world.token(there);
  world.token(was);
  world.done("length");
  const json answer = call->answer();
  CHECK(answer.at("object") == "text_completion");
  CHECK(answer.at("id").get<std::string>().rfind("cmpl-", 0) == 0);
  CHECK(answer.at("prompt_token_ids") == json(world.sent().request.prompt));
  CHECK(answer.at("choices") ==
        json::array({{{"text", " there was"}, {"index", 0}, {"logprobs", nullptr}, {"finish_reason", "length"}, {"token_ids", {there, was}}}}));
  CHECK(answer.at("usage").at("completion_tokens") == 2);
}

TEST_CASE("A stream of a completion joins to the plain text", "[completions]") {
  World world;
  world.engine_ready();
  auto call = world.complete(R"(,"stream":true,"echo":true,"stream_options":{"include_usage":true})");
  world.token(there);
  world.tokens("\xC3\xA9\xC3");
  world.done();
  std::string text, reasons;
  const auto chunks = call->chunks();
  for (const json& chunk : chunks) {
    CHECK(chunk.at("object") == "text_completion");
    CHECK(chunk.at("id") == chunks[0].at("id"));
    for (const json& choice : chunk.at("choices")) {
      text += choice.at("text").get<std::string>();
      if (choice.at("finish_reason").is_string()) reasons += choice.at("finish_reason").get<std::string>();
    }
  }
  CHECK(text == "hi there\xC3\xA9\xEF\xBF\xBD");
  CHECK(reasons == "stop");
  CHECK(chunks.back().at("choices").empty());
  CHECK(chunks.back().at("usage").at("completion_tokens") == 4);
  CHECK(call->events().back() == "[DONE]");
}

TEST_CASE("Echo puts the prompt in front, also one of ids", "[completions]") {
  World world;
  world.engine_ready();
  auto text = world.complete(R"(,"echo":true,"stop":"h")");  // stop strings are for the answer
  world.token(was);
  world.done();
  CHECK(text->answer().at("choices")[0].at("text") == "hi was");
  auto ids = world.call(&Api::completions, R"({"echo":true,"prompt":[1,259,260]})");
  world.token(was);
  world.done();
  CHECK(ids->answer().at("choices")[0].at("text") == "there was was");
}

TEST_CASE("Log probabilities of a completion", "[completions]") {
  World world;
  world.engine.can_logprobs = true;
  world.engine_ready();
  auto call = world.complete(R"(,"logprobs":1)");
  CHECK(world.sent().request.sampling.logprobs == 1);
  world.desk.on_line(world.lease(), protocol::Token{there, -0.5, {{there, -0.5}}}, world.now);
  world.desk.on_line(world.lease(), protocol::Token{was, -1, {{was, -1.0}}}, world.now);
  world.done();
  CHECK(call->answer().at("choices")[0].at("logprobs") == json({{"tokens", {" there", " was"}},
                                                                 {"token_logprobs", {-0.5, -1}},
                                                                 {"top_logprobs", {{{" there", -0.5}}, {{" was", -1}}}},
                                                                 {"text_offset", {0, 6}}}));
}
