// Events that carry a name, and replies fed to a format by hand: for the tests of messages and responses.
#pragma once

#include <catch2/catch.hpp>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api/pictures.hpp"
#include "server/api/reply_format.hpp"
#include "server/api/request_fields.hpp"
#include "server/json/json.hpp"

namespace vigil::api::test {

using ordered = nlohmann::ordered_json;

// "event: name\ndata: {...}\n\n", again and again; the name must be the data's type.
inline std::vector<ordered> named_events(std::string_view body) {
  std::vector<ordered> out;
  while (!body.empty()) {
    const size_t end = body.find("\n\n");
    REQUIRE(end != std::string_view::npos);
    const std::string_view event = body.substr(0, end);
    const size_t line = event.find('\n');
    REQUIRE(event.substr(0, 7) == "event: ");
    REQUIRE(line != std::string_view::npos);
    REQUIRE(event.substr(line + 1, 6) == "data: ");
    REQUIRE(event.find('\n', line + 1) == std::string_view::npos);
    out.push_back(ordered::parse(event.substr(line + 7)));
    CHECK(out.back().at("type") == std::string(event.substr(7, line - 7)));
    body.remove_prefix(end + 2);
  }
  return out;
}

inline std::vector<std::string> types(const std::vector<ordered>& events) {
  std::vector<std::string> out;
  for (const ordered& event : events) out.push_back(event.at("type"));
  return out;
}

inline ReplyFacts facts(std::string id) {
  ReplyFacts out;
  out.id = std::move(id);
  out.model = "tiny";
  out.created = 1750000000;
  return out;
}

inline Piece piece(PartKind kind, std::string_view text, const std::string& call_id = "") {
  Piece out;
  out.add(kind, text);
  out.parts.back().call_id = call_id;
  return out;
}

inline ReplyTotals totals(int64_t prompt, int64_t cached, int64_t generated, int64_t reasoning = 0) {
  ReplyTotals out;
  out.usage = {prompt, cached, generated};
  out.reasoning = reasoning;
  return out;
}

// Thinking, words, a call: what a model with everything writes, as a stream.
inline std::string full_stream(ReplyFormat& format, FinishReason reason = FinishReason::tool_calls, bool call_ends = true) {
  std::string out;
  PromptFacts prompt;
  prompt.tokens = {20};
  format.set_prompt(prompt);
  format.open(out);
  format.piece(out, piece(PartKind::reasoning, "I should "));
  format.piece(out, piece(PartKind::reasoning, "look."));
  format.piece(out, piece(PartKind::content, "Let me \"see\""));
  format.piece(out, piece(PartKind::call_begin, "box__open", "call_1"));
  format.piece(out, piece(PartKind::call_arguments, R"({"lid":)"));
  format.piece(out, piece(PartKind::call_arguments, R"("up"})"));
  if (call_ends) format.piece(out, piece(PartKind::call_end, ""));
  ChoiceEnd end;
  end.reason = reason;
  format.end_choice(out, end, {});
  format.close(out, totals(20, 5, 9, 4));
  return out;
}

inline ReplyChoice full_choice() {
  ReplyChoice choice;
  choice.items = {{ReplyItem::Kind::reasoning, "I should look."},
                  {ReplyItem::Kind::content, "Let me \"see\""},
                  {ReplyItem::Kind::call, R"({"lid":"up"})", "box__open", "call_1"}};
  choice.end.reason = FinishReason::tool_calls;
  return choice;
}

// A body as its reader sees it; `read` gets the fields.
struct BodyCase {
  explicit BodyCase(const std::string& body) : value(ordered::parse(body)), fields(value) {}
  ordered value;
  VisionStatus vision;
  Pictures pictures{vision};
  Fields fields;
  std::string param() const { return fields.error() ? fields.error()->param : ""; }
  std::string message() const { return fields.error() ? fields.error()->message : ""; }
};

inline std::string text_of(const text::ChatMessage& message) {
  std::string out;
  for (const text::ContentPart& part : message.content) out += part.kind == text::ContentPart::Kind::picture ? "[picture]" : part.text;
  return out;
}

// "role: text" and what else a message carries, one a line.
inline std::string told(const text::Conversation& conversation) {
  std::string out;
  for (const text::ChatMessage& message : conversation.messages) {
    out += message.role;
    if (!message.name.empty()) out += "(" + message.name + "," + message.tool_call_id + ")";
    if (!message.reasoning.empty()) out += " <" + message.reasoning + ">";
    out += ": " + text_of(message);
    for (const text::ToolCall& call : message.tool_calls) out += " " + call.id + "=" + call.name + call.arguments;
    out += "\n";
  }
  return out;
}

}  // namespace vigil::api::test
