// Replies of POST /v1/messages: events in the order that Anthropic's clients need, whole messages, errors.
#include "tests/server/api/dialect_support.hpp"

#include "server/api/messages_reply.hpp"

using namespace vigil;
using namespace vigil::api;
using namespace vigil::api::test;

TEST_CASE("Messages: a stream's blocks open, grow and close one after the other", "[messages]") {
  auto format = make_messages_reply(facts("msg_1"));
  const auto events = named_events(full_stream(*format));
  CHECK(types(events) == std::vector<std::string>{"message_start",
                                                  "content_block_start", "content_block_delta", "content_block_delta", "content_block_delta", "content_block_stop",
                                                  "content_block_start", "content_block_delta", "content_block_stop",
                                                  "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
                                                  "message_delta", "message_stop"});
  const ordered& message = events[0].at("message");
  CHECK(message.at("id") == "msg_1");
  CHECK(message.at("role") == "assistant");
  CHECK(message.at("content") == ordered::array());
  CHECK(message.at("usage").at("input_tokens") == 20);
  CHECK(events[1].at("content_block").at("type") == "thinking");
  CHECK(events[2].at("delta") == ordered({{"type", "thinking_delta"}, {"thinking", "I should "}}));
  CHECK(events[4].at("delta") == ordered({{"type", "signature_delta"}, {"signature", "vigil"}}));
  CHECK(events[7].at("delta") == ordered({{"type", "text_delta"}, {"text", "Let me \"see\""}}));
  CHECK(events[9].at("content_block") == ordered({{"type", "tool_use"}, {"id", "call_1"}, {"name", "box__open"}, {"input", ordered::object()}}));
  CHECK(events[11].at("delta") == ordered({{"type", "input_json_delta"}, {"partial_json", "\"up\"}"}}));
  for (const auto& [index, number] : std::vector<std::pair<size_t, int>>{{1, 0}, {5, 0}, {6, 1}, {8, 1}, {9, 2}, {12, 2}}) CHECK(events[index].at("index") == number);
  CHECK(events[13].at("delta") == ordered({{"stop_reason", "tool_use"}, {"stop_sequence", nullptr}}));
  CHECK(events[13].at("usage") == ordered({{"input_tokens", 15}, {"cache_creation_input_tokens", 0}, {"cache_read_input_tokens", 5}, {"output_tokens", 9}}));
}

TEST_CASE("Messages: a call that was cut gets no end, and is missing in a whole message", "[messages]") {
  auto format = make_messages_reply(facts("msg_1"));
  const auto events = named_events(full_stream(*format, FinishReason::length, false));
  CHECK(types(events).back() == "message_stop");
  CHECK(events[events.size() - 2].at("delta").at("stop_reason") == "max_tokens");
  CHECK(events[events.size() - 3].at("type") == "content_block_delta");
}

TEST_CASE("Messages: a whole message has its blocks, its reason and its usage", "[messages]") {
  auto format = make_messages_reply(facts("msg_1"));
  const ordered reply = ordered::parse(format->whole({full_choice()}, totals(20, 5, 9)));
  CHECK(reply.at("type") == "message");
  CHECK(reply.at("content") == ordered::parse(R"([{"type":"thinking","thinking":"I should look.","signature":"vigil"},{"type":"text","text":"Let me \"see\""},
    {"type":"tool_use","id":"call_1","name":"box__open","input":{"lid":"up"}}])"));
  CHECK(reply.at("stop_reason") == "tool_use");
  CHECK(reply.at("usage").at("cache_read_input_tokens") == 5);
}

TEST_CASE("Messages: the reason of an end", "[messages]") {
  const auto reason = [](FinishReason why, const std::string& stop) {
    ReplyChoice choice;
    choice.end.reason = why;
    choice.end.stop_string = stop;
    const ordered reply = ordered::parse(make_messages_reply(facts("msg_1"))->whole({choice}, {}));
    CHECK(reply.at("content").empty());
    return reply.at("stop_reason").get<std::string>() + " " + reply.at("stop_sequence").dump();
  };
  CHECK(reason(FinishReason::stop, "") == "end_turn null");
  CHECK(reason(FinishReason::stop, "END") == "stop_sequence \"END\"");
  CHECK(reason(FinishReason::length, "") == "max_tokens null");
}

TEST_CASE("Messages: arguments that are no JSON do not spoil the message", "[messages]") {
  ReplyChoice choice = full_choice();
  choice.items[2].text = "{broken";
  const ordered reply = ordered::parse(make_messages_reply(facts("msg_1"))->whole({choice}, {}));
  CHECK(reply.at("content")[2].at("input") == ordered({{"arguments", "{broken"}}));
}

TEST_CASE("Messages: pings, and errors before and within a stream", "[messages]") {
  auto format = make_messages_reply(facts("msg_1"));
  CHECK(format->keepalive() == "event: ping\ndata: {\"type\":\"ping\"}\n\n");
  ErrorFacts error;
  error.status = 503;
  error.code = "engine_crashed";
  error.message = "it died";
  const auto events = named_events(format->failed(error));
  REQUIRE(events.size() == 1);
  CHECK(events[0] == ordered::parse(R"({"type":"error","error":{"type":"api_error","message":"it died","code":"engine_crashed"}})"));
  const std::vector<std::pair<int, std::string>> names = {{400, "invalid_request_error"}, {401, "authentication_error"}, {403, "permission_error"},
                                                          {404, "not_found_error"}, {405, "invalid_request_error"}, {408, "timeout_error"},
                                                          {413, "request_too_large"}, {422, "invalid_request_error"}, {429, "rate_limit_error"}, {500, "api_error"}};
  for (const auto& [status, name] : names) {
    error.status = status;
    CHECK(ordered::parse(messages_error(error).body).at("error").at("type") == name);
    CHECK(messages_error(error).status == status);
  }
  error.status = 503;
  error.code = "queue_timeout";
  CHECK(ordered::parse(messages_error(error).body).at("error").at("type") == "overloaded_error");
}
