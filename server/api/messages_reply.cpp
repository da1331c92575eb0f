// See messages_reply.hpp.
#include "server/api/messages_reply.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "server/api/json_text.hpp"
#include "server/json/json.hpp"

namespace vigil::api {

namespace {

void append_stop(std::string& out, const ChoiceEnd& end) {
  out += R"("stop_reason":)";
  if (end.reason == FinishReason::tool_calls) {
    out += R"("tool_use")";
  } else if (end.reason == FinishReason::length) {
    out += R"("max_tokens")";
  } else {
    out += end.stop_string.empty() ? R"("end_turn")" : R"("stop_sequence")";
  }
  out += R"(,"stop_sequence":)";
  if (end.reason == FinishReason::stop && !end.stop_string.empty()) {
    append_json_string(out, end.stop_string);
  } else {
    out += "null";
  }
}

// Anthropic counts what a cache held apart from the rest of the input.
void append_counts(std::string& out, int64_t prompt, int64_t cached, int64_t generated) {
  out += R"("usage":{"input_tokens":)";
  append_json_integer(out, std::max<int64_t>(prompt - cached, 0));
  out += R"(,"cache_creation_input_tokens":0,"cache_read_input_tokens":)";
  append_json_integer(out, cached);
  out += R"(,"output_tokens":)";
  append_json_integer(out, generated);
  out += '}';
}

class MessagesReply final : public ReplyFormat {
 public:
  using ReplyFormat::ReplyFormat;

  void open(std::string& out) override {
    out += "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{";
    append_head(out);
    out += R"(,"content":[],"stop_reason":null,"stop_sequence":null,)";
    append_counts(out, prompt_.all_tokens(), 0, 0);
    out += "}}\n\n";
  }

  void piece(std::string& out, const Piece& piece) override {
    for (const Part& part : piece.parts) {
      const std::string_view text = piece.text_of(part);
      switch (part.kind) {
        case PartKind::content:
          block(out, Block::text, R"({"type":"text","text":""})");
          delta(out, "text_delta", "text", text);
          break;
        case PartKind::reasoning:
          block(out, Block::thinking, R"({"type":"thinking","thinking":"","signature":""})");
          delta(out, "thinking_delta", "thinking", text);
          break;
        case PartKind::call_begin: {
          close_block(out);
          std::string start = R"({"type":"tool_use","id":)";
          append_json_string(start, part.call_id);
          start += R"(,"name":)";
          append_json_string(start, text);
          start += R"(,"input":{}})";
          block(out, Block::call, start);
          break;
        }
        case PartKind::call_arguments: delta(out, "input_json_delta", "partial_json", text); break;
        case PartKind::call_end: close_block(out); break;
      }
    }
  }

  void end_choice(std::string& out, const ChoiceEnd& end, const Piece& /*rest*/) override {
    // A call that was cut gets no end: whoever acts on ends must not take it for whole.
    if (open_ != Block::call) close_block(out);
    end_ = end;
  }

  void close(std::string& out, const ReplyTotals& totals) override {
    out += "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{";
    append_stop(out, end_);
    out += "},";
    append_counts(out, totals.usage.prompt, totals.usage.cached, totals.usage.generated);
    out += "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
  }

  std::string failed(const ErrorFacts& error) override { return "event: error\ndata: " + messages_error_object(error) + "\n\n"; }

  std::string keepalive() override { return "event: ping\ndata: {\"type\":\"ping\"}\n\n"; }

  std::string whole(const std::vector<ReplyChoice>& choices, const ReplyTotals& totals) override {
    const ReplyChoice& choice = choices.front();
    std::string out = "{";
    append_head(out);
    out += R"(,"content":[)";
    bool first = true;
    for (const ReplyItem& item : choice.items) {
      if (item.kind != ReplyItem::Kind::call && item.text.empty()) continue;
      if (!std::exchange(first, false)) out += ',';
      append_item(out, item);
    }
    out += "],";
    append_stop(out, choice.end);
    out += ',';
    append_counts(out, totals.usage.prompt, totals.usage.cached, totals.usage.generated);
    if (facts_.return_token_ids) {
      out += R"(,"token_ids":)";
      append_json_ids(out, choice.all.ids);
    }
    out += '}';
    return out;
  }

 private:
  enum class Block : uint8_t { none, text, thinking, call };

  void append_head(std::string& out) const {
    out += R"("id":)";
    append_json_string(out, facts_.id);
    out += R"(,"type":"message","role":"assistant","model":)";
    append_json_string(out, facts_.model);
  }

  static void append_item(std::string& out, const ReplyItem& item) {
    if (item.kind == ReplyItem::Kind::content) {
      out += R"({"type":"text","text":)";
      append_json_string(out, item.text);
    } else if (item.kind == ReplyItem::Kind::reasoning) {
      out += R"({"type":"thinking","thinking":)";
      append_json_string(out, item.text);
      out += R"(,"signature":)";
      append_json_string(out, thinking_signature);
    } else {
      out += R"({"type":"tool_use","id":)";
      append_json_string(out, item.call_id);
      out += R"(,"name":)";
      append_json_string(out, item.name);
      out += R"(,"input":)";
      // Not just believed: one wrong byte would make the whole body unreadable.
      if (nlohmann::json::accept(item.text)) {
        out += item.text;
      } else {
        out += R"({"arguments":)";
        append_json_string(out, item.text);
        out += '}';
      }
    }
    out += '}';
  }

  void block(std::string& out, Block kind, std::string_view start) {
    if (open_ == kind) return;
    close_block(out);
    open_ = kind;
    out += "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":";
    append_json_integer(out, index_);
    out += R"(,"content_block":)";
    out += start;
    out += "}\n\n";
  }

  void close_block(std::string& out) {
    if (open_ == Block::none) return;
    if (open_ == Block::thinking) delta(out, "signature_delta", "signature", thinking_signature);
    open_ = Block::none;
    out += "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":";
    append_json_integer(out, index_++);
    out += "}\n\n";
  }

  void delta(std::string& out, std::string_view type, std::string_view field, std::string_view text) const {
    out += "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":";
    append_json_integer(out, index_);
    out += R"(,"delta":{"type":")";
    out += type;
    out += R"(",")";
    out += field;
    out += R"(":)";
    append_json_string(out, text);
    out += "}}\n\n";
  }

  Block open_ = Block::none;
  int64_t index_ = 0;  // of the open block, or of the next
  ChoiceEnd end_;
};

// Anthropic's name for what went wrong.
std::string_view error_type(const ErrorFacts& error) {
  constexpr std::array<std::string_view, 5> busy{"queue_timeout", "engine_crash_loop", "engine_unloaded", "shutting_down", "engine_not_ready"};
  switch (error.status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 408: return "timeout_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return std::find(busy.begin(), busy.end(), error.code) != busy.end() ? "overloaded_error" : "api_error";
    case 499:
    case 500: return "api_error";
    default: return "invalid_request_error";
  }
}

}  // namespace

std::unique_ptr<ReplyFormat> make_messages_reply(ReplyFacts facts) { return std::make_unique<MessagesReply>(std::move(facts)); }

std::string messages_error_object(const ErrorFacts& error) {
  std::string out = R"({"type":"error","error":{"type":)";
  append_json_string(out, error_type(error));
  out += R"(,"message":)";
  append_json_string(out, error.message);
  out += R"(,"code":)";
  append_json_string(out, error.code);
  if (!error.param.empty()) {
    out += R"(,"param":)";
    append_json_string(out, error.param);
  }
  out += "}}";
  return out;
}

Response messages_error(const ErrorFacts& error) { return error_answer(error, messages_error_object(error)); }

}  // namespace vigil::api
