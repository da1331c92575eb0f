// What a client makes of an answer, whole or joined from its stream, for every way in which text may fall on tokens.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/server/api/api_support.hpp"

namespace vigil::api::test {

constexpr size_t all_at_once = 1000;

// The text as pieces of `width` characters, each of which becomes a token of its own.
inline std::vector<text::test::Piece> cut(const std::string& text, size_t width) {
  std::vector<text::test::Piece> out;
  for (size_t i = 0; i < text.size(); i += width) out.push_back({text.substr(i, width)});
  return out;
}

struct Outcome {
  std::string content, reasoning, finish;
  std::vector<std::pair<std::string, std::string>> calls;  // name, arguments
  bool operator==(const Outcome&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Outcome& outcome) {
  out << outcome.finish << " content=" << outcome.content << " reasoning=" << outcome.reasoning;
  for (const auto& [name, arguments] : outcome.calls) out << ' ' << name << '(' << arguments << ')';
  return out;
}

inline Outcome of_plain(const json& choice) {
  Outcome out;
  const json& message = choice.at("message");
  CHECK(message.at("role") == "assistant");
  if (message.at("content").is_string()) out.content = message.at("content");
  if (message.contains("reasoning_content")) {
    out.reasoning = message.at("reasoning_content");
    CHECK(message.at("reasoning") == message.at("reasoning_content"));
  }
  out.finish = choice.at("finish_reason");
  if (!message.contains("tool_calls")) return out;
  CHECK(message.at("content").is_null() == out.content.empty());
  std::map<std::string, int> ids;
  for (const json& call : message.at("tool_calls")) {
    CHECK(call.at("type") == "function");
    CHECK(++ids[call.at("id")] == 1);
    out.calls.emplace_back(call.at("function").at("name"), call.at("function").at("arguments"));
  }
  return out;
}

// Joins a stream as clients do, and checks the shape that they rely on.
inline Outcome of_stream(const std::vector<json>& chunks) {
  Outcome out;
  for (const json& chunk : chunks) {
    for (const json& choice : chunk.at("choices")) {
      if (!choice.at("finish_reason").is_null()) out.finish += choice.at("finish_reason").get<std::string>();
      const json& delta = choice.at("delta");
      if (delta.contains("content")) out.content += delta.at("content").get<std::string>();
      if (delta.contains("reasoning_content")) out.reasoning += delta.at("reasoning_content").get<std::string>();
      if (!delta.contains("tool_calls")) continue;
      REQUIRE(delta.at("tool_calls").size() == 1);
      const json& call = delta.at("tool_calls")[0];
      const size_t index = call.at("index");
      if (index == out.calls.size()) {
        CHECK(call.at("id").get<std::string>().rfind("call_", 0) == 0);
        CHECK(call.at("type") == "function");
        CHECK(call.at("function").at("arguments") == "");
        out.calls.emplace_back(call.at("function").at("name"), "");
      } else {
        REQUIRE(index + 1 == out.calls.size());
        CHECK(call.size() == 2);
        CHECK(call.at("function").size() == 1);
        out.calls.back().second += call.at("function").at("arguments").get<std::string>();
      }
    }
  }
  return out;
}

// What a client sees of an engine that writes `text`, in tokens of `width` characters.
inline Outcome answer(const std::string& text, size_t width, bool stream, const std::string& more, const std::string& finish = "stop", const std::string& chat = "") {
  World world(cut(text, width));
  if (!chat.empty()) {
    const auto compiled = text::ChatTemplate::compile(chat, *world.model->vocabulary);
    INFO((compiled ? "" : compiled.error()));
    REQUIRE(compiled);
    world.model->chat = *compiled;
  }
  world.engine_ready(4096);
  auto call = world.chat(more + (stream ? R"(,"stream":true)" : ""));
  INFO((call->response ? call->response->body : "accepted"));
  REQUIRE(world.port.starts.size() == 1);
  const size_t pieces = (text.size() + width - 1) / width;
  for (size_t i = 0; i < pieces; ++i) world.token(hi + 1 + static_cast<gguf::TokenId>(i));
  world.done(finish);
  if (!stream) {
    REQUIRE(call->response);
    REQUIRE(call->response->status == 200);
    return of_plain(call->answer().at("choices")[0]);
  }
  CHECK(call->events().back() == "[DONE]");
  return of_stream(call->chunks());
}

// The same in every feed, streamed and plain.
inline void check_everywhere(const std::string& text, const std::string& more, const Outcome& expected, const std::string& finish = "stop",
                      const std::string& chat = "") {
  for (const size_t width : {size_t{1}, size_t{2}, size_t{7}, all_at_once}) {
    for (const bool stream : {true, false}) {
      CAPTURE(text, width, stream);
      CHECK(answer(text, width, stream, more, finish, chat) == expected);
    }
  }
}

}  // namespace vigil::api::test
