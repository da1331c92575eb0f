// What an answer must look like reaches the engine as a grammar, and only an engine that takes one.
#include <catch2/catch.hpp>

#include "server/text/schema_grammar.hpp"
#include "tests/server/api/api_support.hpp"

using namespace vigil;
using namespace vigil::api::test;
using api::Api;

namespace {

protocol::Sampling sent_for(const std::string& more) {
  World world;
  world.grammar = true;
  world.engine_ready(4096);
  auto call = world.chat(more);
  INFO((call->response ? call->response->body : "accepted"));
  REQUIRE(world.port.starts.size() == 1);
  return world.sent().request.sampling;
}

const std::string object = R"(,"response_format":{"type":"json_object"})";

}  // namespace

TEST_CASE("response_format becomes a grammar that the engine reads", "[constraint]") {
  CHECK(sent_for("").grammar.empty());
  CHECK(sent_for(R"(,"response_format":{"type":"text"})").grammar.empty());
  CHECK(sent_for(object).grammar == text::any_object_grammar());
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false})";
  const auto sampling = sent_for(R"(,"response_format":{"type":"json_schema","json_schema":{"name":"s","strict":true,"schema":)" + schema + "}}");
  CHECK(sampling.grammar == *text::schema_grammar(text::Json::parse(schema)));
  CHECK_FALSE(sampling.grammar_after.has_value());
  CHECK(sent_for(R"(,"grammar":"root ::= \"yes\" | \"no\"")").grammar == "root ::= \"yes\" | \"no\"");
}

TEST_CASE("An engine that takes no grammars is not asked for an answer that needs one", "[constraint]") {
  const auto [more, param] = GENERATE(table<std::string, std::string>({
      {object, "response_format"},
      {R"(,"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object"}}})", "response_format.json_schema.schema"},
      {R"(,"grammar":"root ::= \"a\"")", "grammar"},
  }));
  World world;
  world.engine_ready();
  auto call = world.chat(more);
  REQUIRE(call->response);
  CHECK(call->response->status == 400);
  CHECK(call->error().at("param") == param);
  CHECK(call->error().at("message").get<std::string>().find("grammar") != std::string::npos);
}

TEST_CASE("Bad grammars and schemas are a 400 that names the place", "[constraint]") {
  World world;
  world.grammar = true;
  world.engine_ready();
  auto grammar = world.chat(R"(,"grammar":"root ::= (")");
  REQUIRE(grammar->response);
  CHECK(grammar->error().at("param") == "grammar");
  auto schema = world.chat(R"(,"response_format":{"type":"json_schema","json_schema":{"schema":{"properties":{"a":{"type":"strnig"}}}}})");
  REQUIRE(schema->response);
  CHECK(schema->response->status == 400);
  CHECK(schema->error().at("param") == "response_format.json_schema.schema.properties.a");
}
