// POST /v1/embeddings: one request at the desk a text, one after the other; both encodings; refusals and failures.
#include <catch2/catch.hpp>

#include <cmath>

#include "protocol/base64.hpp"
#include "tests/server/api/api_support.hpp"

using namespace vigil;
using namespace vigil::api::test;
using api::Api;

namespace {

struct EmbeddingWorld : World {
  EmbeddingWorld() {
    engine_ready(64);
    turn::EngineView view = desk.engine();
    view.can_embed = true;
    desk.engine_changed(view, now);
  }
  Call embed(const std::string& body) { return call(&Api::embeddings, body); }
  void vector(int64_t offset, std::vector<float> values) { desk.on_line(lease(), protocol::VectorPart{offset, std::move(values)}, now); }
  void end_vector() {
    protocol::Done end;
    end.finish = "stop";
    desk.on_line(lease(), end, now);
  }
  void vector_done() {
    end_vector();
    workers.run_all();  // the next text comes from the loop
  }
};

}  // namespace

TEST_CASE("Embeddings: texts are asked for one by one and answered in order, each of length 1", "[embeddings]") {
  EmbeddingWorld world;
  auto call = world.embed(R"({"input":["hi","there hi"],"user":"u","pooling":"last"})");
  REQUIRE(world.port.starts.size() == 1);
  CHECK(world.sent().request.embed == protocol::Pooling::last);
  CHECK(world.sent().request.client == "named:u");
  size_t tokens = world.sent().request.prompt.size();
  world.vector(0, {3, 0});
  world.vector(2, {-4});
  world.vector_done();
  REQUIRE(world.port.starts.size() == 2);
  CHECK_FALSE(call->response);
  tokens += world.sent().request.prompt.size();
  world.vector(0, {0, 2, 0});
  world.vector_done();
  REQUIRE(call->response);
  CHECK(call->response->status == 200);
  const json answer = call->answer();
  CHECK(answer.at("object") == "list");
  CHECK(answer.at("model") == "tiny");
  REQUIRE(answer.at("data").size() == 2);
  CHECK(answer.at("data")[0].at("object") == "embedding");
  CHECK(answer.at("data")[0].at("embedding") == json::parse("[0.6,0.0,-0.8]"));
  CHECK(answer.at("data")[1].at("embedding") == json::parse("[0.0,1.0,0.0]"));
  CHECK(answer.at("data")[1].at("index") == 1);
  CHECK(answer.at("usage") == json({{"prompt_tokens", tokens}, {"total_tokens", tokens}}));
  CHECK(world.desk.idle());
}

TEST_CASE("Embeddings: base64 is the float32 of the same numbers", "[embeddings]") {
  EmbeddingWorld world;
  auto call = world.embed(R"({"input":"hi","encoding_format":"base64"})");
  world.vector(0, {1, 0});
  world.vector_done();
  CHECK(call->answer().at("data")[0].at("embedding") == protocol::encode_base64(std::string("\0\0\x80\x3f\0\0\0\0", 8)));
}

TEST_CASE("Embeddings: ids are taken as they are", "[embeddings]") {
  EmbeddingWorld world;
  world.embed(R"({"input":[5,6,7]})");
  CHECK(world.sent().request.prompt == std::vector<int32_t>{5, 6, 7});
  EmbeddingWorld other;
  other.embed(R"({"input":[[5,6],[7]]})");
  CHECK(other.sent().request.prompt == std::vector<int32_t>{5, 6});
}

TEST_CASE("Embeddings: what is wrong is named, before the engine is asked", "[embeddings]") {
  EmbeddingWorld world;
  const std::vector<std::pair<std::string, std::string>> rows = {{"{}", "input"}, {R"({"input":""})", "input"}, {R"({"input":[]})", "input"},
                                                                 {R"({"input":["a",""]})", "input[1]"}, {R"({"input":[1.5]})", "input[0]"},
                                                                 {R"({"input":[99999999]})", "input[0]"}, {R"({"input":[["a"]]})", "input[0][0]"},
                                                                 {R"({"input":{"a":1}})", "input"}, {R"({"input":"a","encoding_format":"int8"})", "encoding_format"},
                                                                 {R"({"input":"a","dimensions":2})", "dimensions"}, {R"({"input":"a","pooling":"max"})", "pooling"}};
  for (const auto& [body, param] : rows) {
    INFO(body);
    auto call = world.embed(body);
    REQUIRE(call->response);
    CHECK(call->response->status == 400);
    CHECK(call->error().at("param") == param);
  }
  CHECK(world.port.starts.empty());
  std::string many = "\"a\"";
  for (int i = 0; i < 2048; ++i) many += ",\"a\"";
  CHECK(world.embed("{\"input\":[" + many + "]}")->error().at("message").get<std::string>().find("max_embedding_inputs") != std::string::npos);
}

TEST_CASE("Embeddings: an engine without the word embeddings is a clear 400", "[embeddings]") {
  World world;
  world.engine_ready();
  auto call = world.call(&Api::embeddings, R"({"input":"hi"})");
  CHECK(call->response->status == 400);
  CHECK(call->error().at("message").get<std::string>().find("embeddings") != std::string::npos);
}

TEST_CASE("Embeddings: an engine that gives tokens, nothing or another length is an engine's error", "[embeddings]") {
  EmbeddingWorld world;
  auto tokens = world.embed(R"({"input":"hi"})");
  world.token(there);
  CHECK(tokens->error().at("code") == "engine_error");
  world.done("cancel");
  auto nothing = world.embed(R"({"input":"hi"})");
  world.vector_done();
  CHECK(nothing->error().at("code") == "engine_error");
  auto lengths = world.embed(R"({"input":["hi","ho"]})");
  world.vector(0, {1});
  world.vector_done();
  world.vector(0, {1, 2});
  world.vector_done();
  CHECK(lengths->error().at("code") == "engine_error");
}

TEST_CASE("Embeddings: who leaves between two texts is not worked for any more", "[embeddings]") {
  EmbeddingWorld world;
  auto call = world.embed(R"({"input":["hi","ho"]})");
  world.vector(0, {1});
  world.end_vector();
  call.exchange->client_left();
  world.workers.run_all();
  CHECK(world.port.starts.size() == 1);
  auto running = world.embed(R"({"input":"hi"})");
  running.exchange->client_left();
  CHECK(world.port.cancels.size() == 1);
}

TEST_CASE("Embeddings: a text longer than the context is refused with both numbers", "[embeddings]") {
  EmbeddingWorld world;
  auto call = world.embed(R"({"input":["hi",")" + std::string(200, 'x') + R"("]})");
  world.vector(0, {1});
  world.vector_done();
  CHECK(call->error().at("code") == "context_length_exceeded");
  CHECK(call->error().at("param") == "input[1]");
}
