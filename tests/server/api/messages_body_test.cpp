// Bodies of POST /v1/messages: every kind of block, tools and their choice, thinking, and what is refused.
#include "tests/server/api/dialect_support.hpp"

#include "server/api/messages_body.hpp"

using namespace vigil;
using namespace vigil::api;
using namespace vigil::api::test;

namespace {

MessagesBody read(BodyCase& body) { return read_messages_body(body.fields, body.pictures); }

MessagesBody good(const std::string& text) {
  BodyCase body(text);
  MessagesBody out = read(body);
  INFO(body.message());
  REQUIRE_FALSE(body.fields.failed());
  return out;
}

std::string refused(const std::string& text) {
  BodyCase body(text);
  read(body);
  REQUIRE(body.fields.failed());
  return body.param();
}

std::string hello(const std::string& more) { return R"({"messages":[{"role":"user","content":"hi"}])" + more + "}"; }
std::string user(const std::string& blocks) { return R"({"messages":[{"role":"user","content":[)" + blocks + "]}]}"; }

}  // namespace

TEST_CASE("Messages: system, texts and blocks become turns; neighbours of one role are one turn", "[messages]") {
  const MessagesBody body = good(R"({"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}},{"type":"text","text":"Be kind."}],
    "messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b","citations":null},
      {"type":"document","title":"T","source":{"type":"text","media_type":"text/plain","data":"d"}}]},
      {"role":"assistant","content":[{"type":"text","text":"c"}]},{"role":"user","content":"e"}]})");
  CHECK(told(body.conversation) == "system: Be brief.Be kind.\nuser: a\n\nbT\n\nd\nassistant: c\nuser: e\n");
  CHECK_FALSE(body.conversation.continue_last);
  CHECK(told(good(R"({"system":"S","messages":[{"role":"user","content":"a"}]})").conversation) == "system: S\nuser: a\n");
}

TEST_CASE("Messages: thinking, calls and their results", "[messages]") {
  const MessagesBody body = good(R"({"messages":[{"role":"user","content":"look"},
    {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"x"},{"type":"text","text":"so"},
      {"type":"tool_use","id":"t1","name":"bash","input":{"b":1,"a":"é"}},{"type":"tool_use","id":"t2","name":"read"}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"two"}]},
      {"type":"tool_result","tool_use_id":"t1","is_error":true,"content":"one"},{"type":"tool_result","tool_use_id":"t1"},{"type":"text","text":"go on"}]}]})");
  CHECK(told(body.conversation) == "user: look\nassistant <hm>: so t1=bash{\"b\":1,\"a\":\"é\"} t2=read{}\ntool(read,t2): two\ntool(bash,t1): Error: one\n"
                                   "tool(bash,t1): \nuser: go on\n");
}

TEST_CASE("Messages: a last message of the assistant is continued, an empty one is as if it were not there", "[messages]") {
  const MessagesBody open = good(R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"The answer is"}]})");
  CHECK(open.conversation.continue_last);
  const MessagesBody empty = good(R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[]}]})");
  CHECK_FALSE(empty.conversation.continue_last);
  CHECK(empty.conversation.messages.size() == 1);
  CHECK(refused(R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"n","input":{}}]}]})") == "messages");
}

TEST_CASE("Messages: tools and their choice", "[messages]") {
  const std::string tools = R"(,"tools":[{"name":"a","description":"A","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}},{"type":"custom","name":"b"}])";
  const MessagesBody plain = good(hello(tools));
  REQUIRE(plain.conversation.tools.size() == 2);
  CHECK(plain.conversation.tools[0].description == "A");
  CHECK(plain.conversation.tools[0].parameters.dump() == R"({"type":"object"})");
  CHECK(plain.conversation.parallel_tool_calls);
  using Kind = text::ToolChoice::Kind;
  const MessagesBody any = good(hello(tools + R"(,"tool_choice":{"type":"any","disable_parallel_tool_use":true})"));
  CHECK(any.conversation.tool_choice.kind == Kind::required);
  CHECK_FALSE(any.conversation.parallel_tool_calls);
  const MessagesBody one = good(hello(tools + R"(,"tool_choice":{"type":"tool","name":"b"})"));
  CHECK(one.conversation.tool_choice.kind == Kind::named);
  REQUIRE(one.conversation.tools.size() == 1);
  CHECK(one.conversation.tools[0].name == "b");
  CHECK(good(hello(tools + R"(,"tool_choice":{"type":"none"})")).conversation.tools.empty());
  CHECK(refused(hello(tools + R"(,"tool_choice":{"type":"tool","name":"c"})")) == "tool_choice.name");
  CHECK(refused(hello(R"(,"tool_choice":{"type":"any"})")) == "tool_choice.type");
  CHECK(refused(hello(R"(,"tools":[{"name":"a"},{"name":"a"}])")) == "tools");
  BodyCase hosted(hello(R"(,"tools":[{"type":"web_search_20250305","name":"web_search"}])"));
  read(hosted);
  CHECK(hosted.param() == "tools[0].type");
  CHECK(hosted.message().find("web_search_20250305") != std::string::npos);
}

TEST_CASE("Messages: thinking is off unless it is asked for", "[messages]") {
  CHECK(good(hello("")).conversation.thinking == false);
  const MessagesBody on = good(hello(R"(,"thinking":{"type":"enabled","budget_tokens":3072,"display":"summarized"})"));
  CHECK(on.conversation.thinking == true);
  CHECK(on.thinking_budget == 3072);
  CHECK_FALSE(good(hello(R"(,"thinking":{"type":"adaptive"})")).conversation.thinking.has_value());
  CHECK(good(hello(R"(,"thinking":{"type":"disabled"})")).conversation.thinking == false);
  CHECK(refused(hello(R"(,"thinking":{"type":"much"})")) == "thinking.type");
  CHECK(refused(hello(R"(,"thinking":{"type":"enabled","budget_tokens":0})")) == "thinking.budget_tokens");
  const MessagesBody shaped = good(hello(R"(,"output_config":{"effort":"low","format":{"type":"json_schema","schema":{"type":"object"}}})"));
  CHECK(shaped.conversation.reasoning_effort == "low");
  CHECK(shaped.shape.kind == OutputShape::Kind::schema);
}

TEST_CASE("Messages: what is wrong or not supported is named", "[messages]") {
  CHECK(refused("{}") == "messages");
  CHECK(refused(R"({"messages":[]})") == "messages");
  CHECK(refused(R"({"messages":["a"]})") == "messages[0]");
  CHECK(refused(R"({"messages":[{"role":"tool","content":"a"}]})") == "messages[0].role");
  CHECK(refused(R"({"messages":[{"role":"user"}]})") == "messages[0].content");
  CHECK(refused(R"({"messages":[{"role":"user","content":3}]})") == "messages[0].content");
  CHECK(refused(user("3")) == "messages[0].content[0]");
  CHECK(refused(user(R"({"type":"text"})")) == "messages[0].content[0].text");
  CHECK(refused(user(R"({"type":"thinking","thinking":"a"})")) == "messages[0].content[0].type");
  CHECK(refused(user(R"({"type":"tool_result","tool_use_id":"t"})")) == "messages[0].content[0].tool_use_id");
  CHECK(refused(user(R"({"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"aGk="}})")) == "messages[0].content[0].source");
  CHECK(refused(user(R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}})")) == "messages[0].content[0]");
  CHECK(refused(R"({"system":3,"messages":[{"role":"user","content":"a"}]})") == "system");
  CHECK(refused(R"({"system":[{"type":"image"}],"messages":[{"role":"user","content":"a"}]})") == "system[0].type");
  CHECK(refused(hello(R"(,"mcp_servers":[{"url":"x"}])")) == "mcp_servers");
}
