// Every field of the generating dialects: what it becomes on the way to the engine, what null does, and the 400 that names it
// (cases C5, C6, C7, E3, E6).
#include <catch2/catch.hpp>

#include <algorithm>
#include <ostream>

#include "tests/server/api/api_support.hpp"

using namespace vigil;
using namespace vigil::api::test;
using api::Api;

namespace {

// The request that the engine got for CHAT(more).
turn::Request sent_for(const std::string& more) {
  World world;
  world.engine_ready();
  const auto call = world.chat(more);
  INFO("CHAT(" << more << ") -> " << (call->response ? call->response->body : "accepted"));
  REQUIRE(world.port.starts.size() == 1);
  return world.sent().request;
}

// The text of the prompt that these messages become.
std::string prompt_of(const std::string& messages) {
  World world;
  world.engine_ready(4096);
  const auto call = world.call(&Api::chat_completions, R"({"messages":)" + messages + "}");
  INFO(messages << " -> " << (call->response ? call->response->body : "accepted"));
  REQUIRE(world.port.starts.size() == 1);
  return world.model->tokenizer->decode(world.sent().request.prompt);
}

struct Refusal {
  int status = 0;
  std::string code, param;
  bool operator==(const Refusal&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Refusal& r) { return out << r.status << ' ' << r.code << ' ' << r.param; }

Refusal refusal_of(const World::Call& call) {
  if (!call->response) return {200, "accepted", ""};
  const json error = call->error();
  CHECK(error.size() == 4);
  CHECK_FALSE(error.at("message").get<std::string>().empty());
  return {call->response->status, error.at("code"), error.at("param").is_null() ? "" : error.at("param").get<std::string>()};
}

Refusal bad(const std::string& param) { return {400, "invalid_request", param}; }

}  // namespace

TEST_CASE("Without settings the defaults go to the engine", "[fields]") {
  const turn::Request request = sent_for("");
  CHECK(request.max_new == 0);
  CHECK(request.sampling.temperature == 1.0);
  CHECK(request.sampling.seed.has_value());
  CHECK_FALSE(request.sampling.top_p);
  CHECK_FALSE(request.sampling.top_k);
  CHECK(request.client == "connection-1");
  CHECK(request.end_ids == std::vector<turn::TokenId>{2});
  CHECK_FALSE(request.stream);
}

TEST_CASE("Every setting reaches the engine", "[fields]") {
  const protocol::Sampling sampling = sent_for(R"(,"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.05,"seed":7,"frequency_penalty":0.25,)"
                                               R"("presence_penalty":-1,"repeat_penalty":1.5,"penalty_last_n":64,"logit_bias":{"259":-100,"3":5})")
                                          .sampling;
  CHECK(sampling.temperature == 0.5);
  CHECK(sampling.top_p == 0.9);
  CHECK(sampling.top_k == 40);
  CHECK(sampling.min_p == 0.05);
  CHECK(sampling.seed == 7u);
  CHECK(sampling.penalty_freq == 0.25);
  CHECK(sampling.penalty_present == -1.0);
  CHECK(sampling.penalty_repeat == 1.5);
  CHECK(sampling.penalty_last_n == 64);
  CHECK(sampling.logit_bias == std::vector<std::pair<turn::TokenId, double>>{{3, 5.0}, {259, -100.0}});
}

TEST_CASE("Other names and spellings of settings", "[fields]") {
  CHECK(sent_for(R"(,"repetition_penalty":1.2)").sampling.penalty_repeat == 1.2);
  CHECK(sent_for(R"(,"repetition_penalty":1.2,"repeat_penalty":1.3)").sampling.penalty_repeat == 1.3);
  CHECK(sent_for(R"(,"repeat_last_n":-1)").sampling.penalty_last_n == -1);
  CHECK(sent_for(R"(,"top_k":-1)").sampling.top_k == 0);
  CHECK(sent_for(R"(,"top_k":0)").sampling.top_k == 0);
  CHECK(sent_for(R"(,"max_completion_tokens":3)").max_new == 3);
  CHECK(sent_for(R"(,"max_completion_tokens":3,"max_tokens":9)").max_new == 3);
  CHECK(sent_for(R"(,"max_tokens":16.0)").max_new == 16);
  CHECK(sent_for(R"(,"stream":true)").stream);
}

TEST_CASE("A seed is chosen when the client gives none and chance has a part", "[fields]") {
  World world;
  world.engine_ready();
  std::vector<std::optional<uint64_t>> seeds;
  for (const std::string more : {"", R"(,"seed":-1)", R"(,"seed":null)", R"(,"temperature":0)", R"(,"temperature":0,"seed":5)"}) {
    world.chat(more);
    seeds.push_back(world.sent().request.sampling.seed);
    world.token(2);
    world.done();
  }
  CHECK(seeds[0].has_value());
  CHECK(seeds[1].has_value());
  CHECK(seeds[2].has_value());
  CHECK((seeds[0] != seeds[1] || seeds[1] != seeds[2]));
  CHECK_FALSE(seeds[3].has_value());
  CHECK(seeds[4] == 5u);
}

TEST_CASE("null counts as absent for every field", "[fields]") {
  std::string more;
  for (const std::string name :
       {"model", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "min_p", "seed", "stop",
        "frequency_penalty", "presence_penalty", "repeat_penalty", "repetition_penalty", "penalty_last_n", "logit_bias", "logprobs", "top_logprobs",
        "n", "user", "prompt_cache_key", "metadata", "return_token_ids", "tools", "tool_choice", "functions", "function_call", "response_format",
        "modalities", "audio", "web_search_options", "parallel_tool_calls", "reasoning_effort", "store", "service_tier", "best_of", "echo", "suffix"}) {
    more += ",\"" + name + "\":null";
  }
  CHECK(sent_for(more).sampling.temperature == 1.0);
  World world;
  world.engine_ready();
  world.complete(more);
  CHECK(world.port.starts.size() == 1);
}

TEST_CASE("What asks for nothing and what nobody knows is accepted", "[fields]") {
  const std::string more = GENERATE(as<std::string>(), R"(,"tools":[])", R"(,"tools":[],"tool_choice":"auto")", R"(,"tool_choice":"none")",
                                    R"(,"functions":[],"function_call":"none")", R"(,"response_format":{"type":"text"})", R"(,"modalities":["text"])",
                                    R"(,"n":1)", R"(,"stop":[])", R"(,"stop":"")", R"(,"stop":["","a","b","c"])", R"(,"logprobs":false)",
                                    R"(,"top_logprobs":0)", R"(,"parallel_tool_calls":false,"reasoning_effort":"low","store":false,"unheard_of":{"a":[1]})",
                                    R"(,"stream_options":{"include_usage":true})", R"(,"metadata":{"other":"x"})", R"(,"temperature":100,"top_p":0,"min_p":1)",
                                    R"(,"seed":9223372036854775807)", R"(,"logit_bias":{})", R"(,"service_tier":"flex","safety_identifier":"s","verbosity":"low")",
                                    R"(,"prediction":{"type":"content","content":"x"})", R"(,"stream_options":{"include_obfuscation":true})");
  sent_for(more);
}

TEST_CASE("A wrong value is a 400 that names its field", "[fields]") {
  const auto [more, param] = GENERATE(table<std::string, std::string>({
      {R"(,"stream":"yes")", "stream"},
      {R"(,"stream_options":[])", "stream_options"},
      {R"(,"stream_options":{"include_usage":1})", "stream_options.include_usage"},
      {R"(,"max_tokens":0)", "max_tokens"},
      {R"(,"max_tokens":-1)", "max_tokens"},
      {R"(,"max_tokens":"5")", "max_tokens"},
      {R"(,"max_tokens":1.5)", "max_tokens"},
      {R"(,"max_completion_tokens":0)", "max_completion_tokens"},
      {R"(,"temperature":-1)", "temperature"},
      {R"(,"temperature":100.5)", "temperature"},
      {R"(,"temperature":"hot")", "temperature"},
      {R"(,"top_p":-1)", "top_p"},
      {R"(,"top_p":1.1)", "top_p"},
      {R"(,"top_k":-2)", "top_k"},
      {R"(,"top_k":-9223372036854775809)", "top_k"},
      {R"(,"min_p":2)", "min_p"},
      {R"(,"seed":-2)", "seed"},
      {R"(,"seed":9223372036854775808)", "seed"},
      {R"(,"seed":99999999999999999999999)", "seed"},
      {R"(,"seed":0.5)", "seed"},
      {R"(,"frequency_penalty":2.1)", "frequency_penalty"},
      {R"(,"presence_penalty":-2.1)", "presence_penalty"},
      {R"(,"repeat_penalty":0)", "repeat_penalty"},
      {R"(,"repetition_penalty":-1)", "repetition_penalty"},
      {R"(,"penalty_last_n":-2)", "penalty_last_n"},
      {R"(,"logit_bias":{"999999999":1})", "logit_bias"},
      {R"(,"logit_bias":{"-1":1})", "logit_bias"},
      {R"(,"logit_bias":{"x":1})", "logit_bias"},
      {R"(,"logit_bias":{"3":101})", "logit_bias"},
      {R"(,"logit_bias":[1])", "logit_bias"},
      {R"(,"stop":["a","b","c","d","e"])", "stop"},
      {R"(,"stop":[1])", "stop"},
      {R"(,"stop":7)", "stop"},
      {R"(,"n":9)", "n"},
      {R"(,"n":0)", "n"},
      {R"(,"user":5)", "user"},
      {R"(,"prompt_cache_key":5)", "prompt_cache_key"},
      {R"(,"metadata":5)", "metadata"},
      {R"(,"return_token_ids":1)", "return_token_ids"},
      {R"(,"model":5)", "model"},
      {R"(,"top_logprobs":3)", "top_logprobs"},
      {R"(,"top_logprobs":21,"logprobs":true)", "top_logprobs"},
      {R"(,"logprobs":true)", "logprobs"},
      {R"(,"tools":{})", "tools"},
      {R"(,"tools":[5])", "tools[0]"},
      {R"(,"tools":[{"type":"retrieval"}])", "tools[0].type"},
      {R"(,"tools":[{"type":"function"}])", "tools[0].function"},
      {R"(,"tools":[{"type":"function","function":{}}])", "tools[0].function.name"},
      {R"(,"tools":[{"type":"function","function":{"name":"f","parameters":[]}}])", "tools[0].function.parameters"},
      {R"(,"tools":[{"function":{"name":"f"}},{"function":{"name":"f"}}])", "tools"},
      {R"(,"tool_choice":"sometimes")", "tool_choice"},
      {R"(,"tools":[{"function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"g"}})", "tool_choice"},
      {R"(,"tools":[{"function":{"name":"f"}}],"tool_choice":{"type":"function","function":{}})", "tool_choice.function.name"},
      {R"(,"parallel_tool_calls":1)", "parallel_tool_calls"},
      {R"(,"reasoning_effort":3)", "reasoning_effort"},
      {R"(,"thinking":{"type":"perhaps"})", "thinking.type"},
      {R"(,"thinking":{"budget_tokens":-1})", "thinking.budget_tokens"},
      {R"(,"chat_template_kwargs":[])", "chat_template_kwargs"},
      {R"(,"continue_final_message":true)", "messages"},
      {R"(,"response_format":{"type":"xml"})", "response_format.type"},
      {R"(,"response_format":{"type":"json_schema","json_schema":{"schema":5}})", "response_format.json_schema.schema"},
      {R"(,"tool_choice":"required")", "tool_choice"},
      {R"(,"tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice"},
      {R"(,"functions":[{"name":"f"}])", "functions"},
      {R"(,"function_call":{"name":"f"})", "function_call"},
      {R"(,"response_format":{"type":"json_object"})", "response_format"},
      {R"(,"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{}}})", "response_format.json_schema.schema"},
      {R"(,"response_format":"json")", "response_format"},
      {R"(,"grammar":"root ::= \"a\"")", "grammar"},
      {R"(,"json_schema":{"type":"object"})", "json_schema"},
      {R"(,"modalities":["text","audio"])", "modalities"},
      {R"(,"audio":{"voice":"x"})", "audio"},
      {R"(,"web_search_options":{"search_context_size":"low"})", "web_search_options"},
      {R"(,"guided_json":{"type":"object"})", "guided_json"},
      {R"(,"guided_regex":"a+")", "guided_regex"},
      {R"(,"guided_choice":["a"])", "guided_choice"},
      {R"(,"guided_grammar":"root ::= \"a\"")", "guided_grammar"},
      {R"(,"structured_outputs":{"regex":"a"})", "structured_outputs"},
  }));
  World world;
  world.engine_ready();
  CAPTURE(more);
  CHECK(refusal_of(world.chat(more)) == bad(param));
  CHECK(world.port.starts.empty());
}

TEST_CASE("Messages: roles, parts, null and what assistants called", "[fields]") {
  CHECK(prompt_of(R"([{"role":"developer","content":"a"},{"role":"system","content":"b"},{"role":"user","content":"c"}])") == "a\nb\nc");
  for (const std::string role : {"system", "developer", "user", "assistant", "tool"}) {
    CHECK(prompt_of(R"([{"role":")" + role + R"(","name":null,"tool_call_id":null,"content":[{"type":"text","text":"on"},{"type":"text","text":"e"}]}])") == "one");
  }
  CHECK(prompt_of(R"([{"role":"user","content":"a"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":)"
                  R"({"name":"f","arguments":"{\"x\":1}"}}]},{"role":"tool","tool_call_id":"1","content":"b"}])") ==
        "a\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\":1}}\n</tool_call>\nb");
  CHECK(prompt_of(R"([{"role":"user","content":"a"},{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}])") ==
        "a\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>");
  CHECK(prompt_of(R"([{"role":"user","content":"a"},{"role":"assistant"}])") == "a\n");
  CHECK(prompt_of(R"([{"role":"user","content":"a\u0000b"}])") == std::string("a\0b", 3));
}

TEST_CASE("ChatML reaches the engine with the template's own control tokens only", "[fields]") {
  World world({{"<|im_start|>", 0, gguf::TokenKind::control}, {"<|im_end|>", 0, gguf::TokenKind::control}});
  world.engine_ready(4096);
  world.call(&Api::chat_completions, R"({"messages":[{"role":"developer","content":"a"},{"role":"user","content":"<|im_end|>"}]})");
  const auto& prompt = world.sent().request.prompt;
  const gguf::TokenId im_start = hi + 1, im_end = hi + 2;
  CHECK(std::count(prompt.begin(), prompt.end(), im_start) == 3);
  CHECK(std::count(prompt.begin(), prompt.end(), im_end) == 2);
  CHECK(world.model->tokenizer->decode(prompt).find("system\na") != std::string::npos);
  CHECK(world.model->vocabulary->ends(im_end));
  CHECK(world.sent().request.end_ids == world.model->vocabulary->end_ids());
}

TEST_CASE("Wrong messages are a 400 that names the place", "[fields]") {
  const auto [messages, param] = GENERATE(table<std::string, std::string>({
      {"null", "messages"},
      {"[]", "messages"},
      {R"("hi")", "messages"},
      {R"([5])", "messages[0]"},
      {R"([{"content":"x"}])", "messages[0].role"},
      {R"([{"role":"robot","content":"x"}])", "messages[0].role"},
      {R"([{"role":"user"}])", "messages[0].content"},
      {R"([{"role":"user","content":null}])", "messages[0].content"},
      {R"([{"role":"user","content":"a"},{"role":"user","content":5}])", "messages[1].content"},
      {R"([{"role":"user","content":[{"type":"text"}]}])", "messages[0].content[0].text"},
      {R"([{"role":"user","content":[{"text":"a"}]}])", "messages[0].content[0].type"},
      {R"([{"role":"user","content":[{"type":"input_audio"}]}])", "messages[0].content[0].type"},
      {R"([{"role":"user","content":[5]}])", "messages[0].content[0]"},
      {R"([{"role":"assistant","tool_calls":[{}]}])", "messages[0].tool_calls[0].function"},
      {R"([{"role":"assistant","tool_calls":[{"function":{}}]}])", "messages[0].tool_calls[0].function.name"},
      {R"([{"role":"assistant","tool_calls":5}])", "messages[0].tool_calls"},
  }));
  World world;
  world.engine_ready();
  CAPTURE(messages);
  CHECK(refusal_of(world.call(&Api::chat_completions, R"({"messages":)" + messages + "}")) == bad(param));
}

TEST_CASE("A picture is refused by name: this model takes none", "[fields]") {
  World world;
  world.engine_ready();
  const auto call = world.call(&Api::chat_completions,
                               R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:,"}}]}]})");
  CHECK(refusal_of(call) == Refusal{400, "image_invalid", "messages[0].content[1]"});
  CHECK(call->error().at("message").get<std::string>().find("takes no images") != std::string::npos);
}

TEST_CASE("Bodies that are no good JSON", "[fields]") {
  World world;
  world.engine_ready();
  CHECK(refusal_of(world.call(&Api::chat_completions, R"({"messages":)")) == Refusal{400, "invalid_json", ""});
  CHECK(refusal_of(world.call(&Api::completions, "")) == Refusal{400, "invalid_json", ""});
  CHECK(refusal_of(world.call(&Api::tokenize, "\xFF")) == Refusal{400, "invalid_json", ""});
  CHECK(refusal_of(world.call(&Api::detokenize, "[1]")) == bad(""));
}

TEST_CASE("Models: id, aliases, missing and empty are served, others are 404", "[fields]") {
  for (const std::string name : {"tiny", "M", "maker/tiny:1", ""}) sent_for(R"(,"model":")" + name + "\"");
  World world;
  world.engine_ready();
  const auto call = world.chat(R"(,"model":"gpt-4\u0001é")");
  CHECK(refusal_of(call) == Refusal{404, "model_not_found", "model"});
  CHECK(call->error().at("message").get<std::string>().find("gpt-4") != std::string::npos);
  CHECK(refusal_of(world.complete(R"(,"model":"x")")) == Refusal{404, "model_not_found", "model"});
}

TEST_CASE("Whose turn it is: the key, else the first name in the body, else the connection", "[fields]") {
  CHECK(sent_for(R"(,"user":"u","metadata":{"user_id":"m"},"prompt_cache_key":"p")").client == "named:p");
  CHECK(sent_for(R"(,"user":"u","metadata":{"user_id":"m"})").client == "named:m");
  CHECK(sent_for(R"(,"user":"u")").client == "named:u");
  CHECK(sent_for(R"(,"user":"")").client == "connection-1");
  CHECK(sent_for(",\"user\":\"" + std::string(9999, 'u') + "\"").client.size() < 300);
  World world;
  world.engine_ready();
  world.call(&Api::chat_completions, R"({"messages":[{"role":"user","content":"hi"}],"user":"u"})", [](api::HttpRequest& request) {
    request.client = "key-7";
    request.client_is_key = true;
  });
  CHECK(world.sent().request.client == "key-7");
}

TEST_CASE("A prompt that fills the context is refused before the engine is asked", "[fields]") {
  World world;
  world.engine_ready(256);
  const auto complete = [&](int tokens) {
    std::string ids = "1";
    for (int i = 1; i < tokens; ++i) ids += ",5";
    return world.call(&Api::completions, R"({"max_tokens":100,"prompt":[)" + ids + "]}");
  };
  for (const int tokens : {300, 256}) {
    const auto call = complete(tokens);
    CHECK(refusal_of(call) == Refusal{400, "context_length_exceeded", "prompt"});
    const std::string message = call->error().at("message");
    CHECK(message.find(std::to_string(tokens)) != std::string::npos);
    CHECK(message.find("256") != std::string::npos);
  }
  CHECK(world.port.starts.empty());
  complete(255);
  CHECK(world.sent().max_new == 1);
  world.token(5);
  world.done("length");
  complete(250);
  CHECK(world.sent().max_new == 6);
}

TEST_CASE("A context that is known only at READY is judged then, naming the field", "[fields]") {
  World world;
  auto call = world.chat();
  CHECK(world.port.needed > 0);
  world.engine_ready(2);
  CHECK(refusal_of(call) == Refusal{400, "context_length_exceeded", "messages"});
  CHECK(world.port.starts.empty());
}

TEST_CASE("A prompt without a token is refused", "[fields]") {
  World world({}, text::test::AddBos::no);
  world.engine_ready();
  CHECK(refusal_of(world.call(&Api::completions, R"({"prompt":""})")) == bad("prompt"));
  CHECK(refusal_of(world.call(&Api::chat_completions, R"({"messages":[{"role":"user","content":""}]})")) == bad("messages"));
  CHECK(refusal_of(world.call(&Api::completions, R"({"prompt":[]})")) == bad("prompt"));
}

TEST_CASE("The fingerprint tells requests apart, but not their seeds or forms", "[fields]") {
  const uint64_t base = sent_for("").fingerprint;
  CHECK(sent_for("").fingerprint == base);
  CHECK(sent_for(R"(,"seed":7)").fingerprint == base);
  CHECK(sent_for(R"(,"stream":true)").fingerprint == base);
  for (const std::string more : {R"(,"temperature":0)", R"(,"max_tokens":9)", R"(,"top_k":1)", R"(,"stop":"x")", R"(,"logit_bias":{"3":1})", R"(,"top_p":1)"}) {
    CHECK(sent_for(more).fingerprint != base);
  }
}
