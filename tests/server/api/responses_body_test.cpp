// Bodies of POST /v1/responses: items, tools in namespaces, what needs a memory.
#include "tests/server/api/dialect_support.hpp"

#include "server/api/responses_body.hpp"

using namespace vigil;
using namespace vigil::api;
using namespace vigil::api::test;

namespace {

ResponsesBody good(const std::string& text) {
  BodyCase body(text);
  ResponsesBody out = read_responses_body(body.fields, body.pictures);
  INFO(body.message());
  REQUIRE_FALSE(body.fields.failed());
  return out;
}

std::string refused(const std::string& text) {
  BodyCase body(text);
  read_responses_body(body.fields, body.pictures);
  REQUIRE(body.fields.failed());
  return body.param();
}

std::string hello(const std::string& more) { return R"({"input":"hi")" + more + "}"; }
std::string input(const std::string& items) { return R"({"input":[)" + items + "]}"; }

}  // namespace

TEST_CASE("Responses: a string is a user's message, instructions stand before it", "[responses]") {
  CHECK(told(good(hello("")).conversation) == "user: hi\n");
  CHECK(told(good(R"({"input":[{"role":"user","content":"hi"}]})").conversation) == "user: hi\n");
  CHECK(told(good(hello(R"(,"instructions":"Be brief.")")).conversation) == "system: Be brief.\nuser: hi\n");
}

TEST_CASE("Responses: messages with and without a type; instructions at the beginning are one message", "[responses]") {
  const ResponsesBody body = good(input(R"({"type":"message","id":"m1","role":"developer","content":[{"type":"input_text","text":"A"}]},
    {"role":"system","content":"B"},{"role":"user","content":[{"type":"input_text","text":"c"},{"type":"text","text":"d"}]},
    {"type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"e","annotations":[]},{"type":"refusal","refusal":"f"}]},
    {"role":"developer","content":"g"},{"role":"user","content":"h"},{"role":"user","content":"i"})"));
  CHECK(told(body.conversation) == "system: A\n\nB\nuser: cd\nassistant: ef\nsystem: g\nuser: h\nuser: i\n");
}

TEST_CASE("Responses: thinking, words and calls of one turn are one message; results follow with the tool's name", "[responses]") {
  const ResponsesBody body = good(input(R"({"role":"user","content":"look"},
    {"type":"reasoning","id":"rs","summary":[{"type":"summary_text","text":"s1"},{"type":"summary_text","text":"s2"}]},
    {"type":"message","role":"assistant","content":"so"},
    {"type":"function_call","id":"fc","call_id":"c1","name":"open","namespace":"box","arguments":"{\"a\":1}","status":"completed"},
    {"type":"function_call","call_id":"c2","name":"shut","arguments":""},
    {"type":"function_call_output","call_id":"c2","output":"two"},
    {"type":"function_call_output","call_id":"c1","output":[{"type":"input_text","text":"one"}]},
    {"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"t"}],"encrypted_content":"other"},
    {"type":"message","role":"assistant","content":"done"},
    {"type":"reasoning","summary":[],"encrypted_content":"gAAAA-of-somebody-else"})"));
  CHECK(told(body.conversation) == "user: look\nassistant <s1\n\ns2>: so c1=box__open{\"a\":1} c2=shut{}\ntool(shut,c2): two\ntool(box__open,c1): one\n"
                                   "assistant <t>: done\n");
}

TEST_CASE("Responses: sealed thinking comes back as it was", "[responses]") {
  const std::string sealed = seal_reasoning("Grüße \"x\"");
  const ResponsesBody body = good(input(R"({"role":"user","content":"a"},{"type":"reasoning","summary":[{"type":"summary_text","text":"less"}],"encrypted_content":")" +
                                        sealed + R"("},{"type":"function_call","call_id":"c","name":"n","arguments":"{}"})"));
  CHECK(told(body.conversation) == "user: a\nassistant <Grüße \"x\">:  c=n{}\n");
  CHECK(refused(input(R"({"type":"reasoning","summary":["x"]})")) == "input[0].summary[0]");
}

TEST_CASE("Responses: functions, namespaces and searches among the tools", "[responses]") {
  const std::string tools = R"(,"tools":[{"type":"function","name":"a","strict":false,"parameters":{"type":"object"}},{"type":"web_search","external_web_access":false},
    {"type":"namespace","name":"ns","description":"many","tools":[{"type":"function","name":"a","description":"inner"}]}])";
  const ResponsesBody body = good(hello(tools));
  REQUIRE(body.conversation.tools.size() == 2);
  CHECK(body.conversation.tools[1].name == "ns__a");
  CHECK(body.conversation.tools[1].description == "inner");
  REQUIRE(body.namespaced.count("ns__a") == 1);
  CHECK(body.namespaced.at("ns__a").space == "ns");
  CHECK(body.namespaced.at("ns__a").name == "a");
  using Kind = text::ToolChoice::Kind;
  CHECK(good(hello(tools + R"(,"tool_choice":"required","parallel_tool_calls":false)")).conversation.tool_choice.kind == Kind::required);
  CHECK_FALSE(good(hello(tools + R"(,"parallel_tool_calls":false)")).conversation.parallel_tool_calls);
  const ResponsesBody named = good(hello(tools + R"(,"tool_choice":{"type":"function","name":"a","namespace":"ns"})"));
  CHECK(named.conversation.tool_choice.name == "ns__a");
  CHECK(named.conversation.tools.size() == 1);
  CHECK(refused(hello(tools + R"(,"tool_choice":{"type":"function","name":"a","namespace":"other"})")) == "tool_choice");
  CHECK(refused(hello(R"(,"tool_choice":"required")")) == "tool_choice");
  for (const char* hosted : {"file_search", "code_interpreter", "computer_use_preview", "image_generation", "mcp", "custom", "local_shell"}) {
    CHECK(refused(hello(std::string(R"(,"tools":[{"type":")") + hosted + "\"}]")) == "tools[0].type");
  }
  CHECK(refused(hello(R"(,"tools":[{"type":"namespace","name":"n","tools":[{"type":"custom","name":"x"}]}])")) == "tools[0].tools[0].type");
}

TEST_CASE("Responses: how thinking goes out, and the answer's shape", "[responses]") {
  const ResponsesBody body = good(hello(R"(,"reasoning":{"effort":"low","summary":"auto"},"include":["reasoning.encrypted_content","message.output_text.logprobs"],
    "text":{"format":{"type":"json_schema","name":"x","schema":{"type":"object"},"strict":true},"verbosity":"low"})"));
  CHECK(body.summary_wanted);
  CHECK(body.encrypted_wanted);
  CHECK(body.logprobs_wanted);
  CHECK(body.shape.kind == OutputShape::Kind::schema);
  const ResponsesBody plain = good(hello(R"(,"reasoning":{"summary":"none"},"text":{"format":{"type":"text"}})"));
  CHECK_FALSE(plain.summary_wanted);
  CHECK_FALSE(plain.encrypted_wanted);
  CHECK(plain.shape.kind == OutputShape::Kind::free);
  CHECK(refused(hello(R"(,"text":{"format":{"type":"yaml"}})")) == "text.format.type");
}

TEST_CASE("Responses: what would need a memory, and what is wrong, is named", "[responses]") {
  for (const char* name : {"previous_response_id", "conversation", "prompt"}) CHECK(refused(hello(std::string(",\"") + name + "\":\"x\"")) == name);
  CHECK(refused(hello(R"(,"background":true)")) == "background");
  CHECK(refused(hello(R"(,"truncation":"middle")")) == "truncation");
  good(hello(R"(,"previous_response_id":null,"background":false,"store":true,"truncation":"auto","conversation":null)"));
  CHECK(refused("{}") == "input");
  CHECK(refused(R"({"input":[]})") == "input");
  CHECK(refused(R"({"input":3})") == "input");
  CHECK(refused(input("3")) == "input[0]");
  CHECK(refused(input(R"({"type":"item_reference","id":"x"})")) == "input[0].type");
  CHECK(refused(input(R"({"type":"computer_call"})")) == "input[0].type");
  CHECK(refused(input(R"({"role":"tool","content":"x"})")) == "input[0].role");
  CHECK(refused(input(R"({"role":"user"})")) == "input[0].content");
  CHECK(refused(input(R"({"role":"user","content":[{"type":"input_file"}]})")) == "input[0].content[0].type");
  CHECK(refused(input(R"({"type":"function_call","call_id":"c"})")) == "input[0].name");
  CHECK(refused(input(R"({"type":"function_call_output","call_id":"c","output":"x"})")) == "input[0].call_id");
}
