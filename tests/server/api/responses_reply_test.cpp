// Replies of POST /v1/responses: the events' order, numbers and ids, items as they open and end, what is left of a cut reply.
#include "tests/server/api/dialect_support.hpp"

#include "server/api/responses_reply.hpp"

using namespace vigil;
using namespace vigil::api;
using namespace vigil::api::test;

namespace {

std::unique_ptr<ReplyFormat> reply(bool summary, bool encrypted = false) {
  ResponsesWish wish;
  wish.echo = R"("instructions":null,"tools":[],)";
  wish.namespaced.emplace("box__open", NamespacedName{"box", "open"});
  wish.summary = summary;
  wish.encrypted = encrypted;
  return make_responses_reply(facts("resp_abc"), std::move(wish));
}

void check_numbers(const std::vector<ordered>& events) {
  for (size_t i = 0; i < events.size(); ++i) CHECK(events[i].at("sequence_number") == i);
}

}  // namespace

TEST_CASE("Responses: a stream's items open, grow and end in order, and the last event has them all", "[responses]") {
  const auto events = named_events(full_stream(*reply(false, true)));
  check_numbers(events);
  CHECK(types(events) == std::vector<std::string>{
                             "response.created", "response.in_progress",
                             "response.output_item.added", "response.content_part.added", "response.reasoning_text.delta", "response.reasoning_text.delta",
                             "response.reasoning_text.done", "response.content_part.done", "response.output_item.done",
                             "response.output_item.added", "response.content_part.added", "response.output_text.delta", "response.output_text.done",
                             "response.content_part.done", "response.output_item.done",
                             "response.output_item.added", "response.function_call_arguments.delta", "response.function_call_arguments.delta",
                             "response.function_call_arguments.done", "response.output_item.done", "response.completed"});
  CHECK(events[0].at("response").at("status") == "in_progress");
  CHECK(events[0].at("response").at("output").empty());
  CHECK(events[0].at("response").at("usage").is_null());
  CHECK(events[2].at("item").at("id") == "rs_abc_0");
  CHECK(events[4].at("item_id") == "rs_abc_0");
  CHECK(events[4].at("delta") == "I should ");
  CHECK(events[9].at("item") == ordered::parse(R"({"id":"msg_abc_1","type":"message","role":"assistant","content":[],"status":"in_progress"})"));
  CHECK(events[11].at("output_index") == 1);
  CHECK(events[13].at("part") == ordered::parse(R"({"type":"output_text","annotations":[],"logprobs":[],"text":"Let me \"see\""})"));
  CHECK(events[15].at("item").at("arguments") == "");
  CHECK(events[18].at("arguments") == R"({"lid":"up"})");
  const ordered& call = events[19].at("item");
  CHECK(call == ordered::parse(
                    R"({"id":"fc_abc_2","type":"function_call","call_id":"call_1","name":"open","namespace":"box","arguments":"{\"lid\":\"up\"}","status":"completed"})"));
  const ordered& last = events.back().at("response");
  CHECK(last.at("status") == "completed");
  CHECK(last.at("instructions").is_null());
  REQUIRE(last.at("output").size() == 3);
  CHECK(last.at("output")[0] == events[8].at("item"));
  CHECK(last.at("output")[1] == events[14].at("item"));
  CHECK(last.at("output")[2] == call);
  CHECK(last.at("output")[0].at("content")[0].at("text") == "I should look.");
  CHECK(last.at("output")[0].at("encrypted_content") == seal_reasoning("I should look."));
  CHECK(last.at("usage") == ordered::parse(R"({"input_tokens":20,"input_tokens_details":{"cached_tokens":5},"output_tokens":9,"output_tokens_details":{"reasoning_tokens":4},"total_tokens":29})"));
}

TEST_CASE("Responses: who asks for a summary gets the thinking as one", "[responses]") {
  const auto events = named_events(full_stream(*reply(true)));
  check_numbers(events);
  CHECK(events[3].at("type") == "response.reasoning_summary_part.added");
  CHECK(events[4].at("type") == "response.reasoning_summary_text.delta");
  CHECK(events[6].at("type") == "response.reasoning_summary_text.done");
  CHECK(events[7].at("part") == ordered({{"type", "summary_text"}, {"text", "I should look."}}));
  CHECK(events[8].at("item").at("summary")[0].at("text") == "I should look.");
  CHECK(events[8].at("item").at("encrypted_content").is_null());
}

TEST_CASE("Responses: a cut reply is incomplete, and a cut call is no item of it", "[responses]") {
  auto format = reply(false);
  const auto events = named_events(full_stream(*format, FinishReason::length, false));
  check_numbers(events);
  CHECK(events.back().at("type") == "response.incomplete");
  const ordered& last = events.back().at("response");
  CHECK(last.at("incomplete_details") == ordered({{"reason", "max_output_tokens"}}));
  CHECK(last.at("output").size() == 2);
  for (const ordered& event : events) {
    if (event.at("type") == "response.output_item.done") CHECK(event.at("item").at("type") != "function_call");
  }
}

TEST_CASE("Responses: words that were cut are an incomplete message", "[responses]") {
  auto format = reply(false);
  std::string out;
  format->open(out);
  format->piece(out, piece(PartKind::content, "half"));
  ChoiceEnd end;
  end.reason = FinishReason::length;
  format->end_choice(out, end, {});
  format->close(out, totals(1, 0, 1));
  const auto events = named_events(out);
  CHECK(events.back().at("response").at("output")[0].at("status") == "incomplete");
  CHECK(events.back().at("response").at("output")[0].at("content")[0].at("text") == "half");
}

TEST_CASE("Responses: a keep-alive before the first token opens the stream, which opens once", "[responses]") {
  auto format = reply(false);
  std::string out = format->keepalive();
  out += format->keepalive();
  out += full_stream(*format);
  const auto events = named_events(out);
  check_numbers(events);
  CHECK(types({events.begin(), events.begin() + 4}) ==
        std::vector<std::string>{"response.created", "response.in_progress", "response.in_progress", "response.output_item.added"});
}

TEST_CASE("Responses: a failure is response.failed with the next number, also before the first token", "[responses]") {
  ErrorFacts error;
  error.code = "engine_crashed";
  error.message = "it died";
  auto early = reply(false);
  auto events = named_events(early->failed(error));
  CHECK(types(events) == std::vector<std::string>{"response.created", "response.in_progress", "response.failed"});
  check_numbers(events);
  CHECK(events.back().at("response").at("status") == "failed");
  CHECK(events.back().at("response").at("error") == ordered({{"code", "engine_crashed"}, {"message", "it died"}}));

  auto late = reply(false);
  std::string out;
  late->open(out);
  late->piece(out, piece(PartKind::content, "half"));
  out += late->failed(error);
  events = named_events(out);
  check_numbers(events);
  CHECK(events.back().at("type") == "response.failed");
}

TEST_CASE("Responses: a whole response has what a stream's last event has", "[responses]") {
  const ordered whole = ordered::parse(reply(false)->whole({full_choice()}, totals(20, 5, 9, 4)));
  const auto events = named_events(full_stream(*reply(false)));
  CHECK(whole == events.back().at("response"));
}

TEST_CASE("Responses: log probabilities stand with the words", "[responses]") {
  auto format = reply(false);
  std::string out;
  format->open(out);
  Piece words = piece(PartKind::content, "hi");
  words.logprobs.push_back({"hi", -0.5, {{"hi", -0.5}, {"ho", -1}}});
  format->piece(out, words);
  format->end_choice(out, {}, {});
  format->close(out, {});
  const auto events = named_events(out);
  const ordered expected = ordered::parse(R"([{"token":"hi","logprob":-0.5,"bytes":[104,105],
    "top_logprobs":[{"token":"hi","logprob":-0.5,"bytes":[104,105]},{"token":"ho","logprob":-1,"bytes":[104,111]}]}])");
  CHECK(events[4].at("logprobs") == expected);
  CHECK(events.back().at("response").at("output")[0].at("content")[0].at("logprobs") == expected);
}
