// See responses_reply.hpp.
#include "server/api/responses_reply.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include "server/api/json_text.hpp"

namespace vigil::api {

namespace {

using Kind = ReplyItem::Kind;

void append_logprobs(std::string& out, const std::vector<TokenLogprob>& logprobs) {
  const auto candidate = [&](const std::string& bytes, double logprob) {
    out += R"({"token":)";
    append_json_string(out, bytes);
    out += R"(,"logprob":)";
    append_json_number(out, logprob);
    out += R"(,"bytes":[)";
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (i > 0) out += ',';
      append_json_integer(out, static_cast<unsigned char>(bytes[i]));
    }
    out += ']';
  };
  out += '[';
  for (size_t i = 0; i < logprobs.size(); ++i) {
    if (i > 0) out += ',';
    candidate(logprobs[i].bytes, logprobs[i].logprob);
    out += R"(,"top_logprobs":[)";
    for (size_t j = 0; j < logprobs[i].top.size(); ++j) {
      if (j > 0) out += ',';
      candidate(logprobs[i].top[j].first, logprobs[i].top[j].second);
      out += '}';
    }
    out += "]}";
  }
  out += ']';
}

struct Item {
  ReplyItem reply;
  std::string id;
  std::vector<TokenLogprob> logprobs;
  std::string status = "in_progress";
};

class ResponsesReply final : public ReplyFormat {
 public:
  ResponsesReply(ReplyFacts facts, ResponsesWish wish) : ReplyFormat(std::move(facts)), wish_(std::move(wish)) {}

  void open(std::string& out) override {
    if (std::exchange(opened_, true)) return;  // by a keep-alive
    response_event(out, "response.created", "in_progress");
    response_event(out, "response.in_progress", "in_progress");
  }

  void piece(std::string& out, const Piece& piece) override {
    bool logprobs_told = piece.logprobs.empty();
    for (const Part& part : piece.parts) {
      const std::string_view text = piece.text_of(part);
      switch (part.kind) {
        case PartKind::content: {
          need_item(out, Kind::content);
          const bool tell = !std::exchange(logprobs_told, true);
          if (tell) items_.back().logprobs.insert(items_.back().logprobs.end(), piece.logprobs.begin(), piece.logprobs.end());
          items_.back().reply.text += text;
          item_event(out, "response.output_text.delta");
          out += R"(,"content_index":0,"delta":)";
          append_json_string(out, text);
          out += R"(,"logprobs":)";
          append_logprobs(out, tell ? piece.logprobs : std::vector<TokenLogprob>{});
          end_event(out);
          break;
        }
        case PartKind::reasoning:
          need_item(out, Kind::reasoning);
          items_.back().reply.text += text;
          item_event(out, wish_.summary ? "response.reasoning_summary_text.delta" : "response.reasoning_text.delta");
          out += wish_.summary ? R"(,"summary_index":0,"delta":)" : R"(,"content_index":0,"delta":)";
          append_json_string(out, text);
          end_event(out);
          break;
        case PartKind::call_begin:
          close_item(out, "completed");
          items_.push_back({{Kind::call, {}, std::string(text), part.call_id}, new_id("fc_"), {}});
          begin_item(out);
          break;
        case PartKind::call_arguments:
          items_.back().reply.text += text;
          item_event(out, "response.function_call_arguments.delta");
          out += R"(,"delta":)";
          append_json_string(out, text);
          end_event(out);
          break;
        case PartKind::call_end: close_item(out, "completed"); break;
      }
    }
  }

  void end_choice(std::string& out, const ChoiceEnd& end, const Piece& rest) override {
    end_ = end;
    const bool cut = end.reason == FinishReason::length;
    if (!is_open()) return;
    if (items_.back().reply.kind == Kind::call) {
      items_.pop_back();  // it was cut; whoever acts on finished items must not take it for whole
      return;
    }
    if (items_.back().reply.kind == Kind::content) {
      items_.back().logprobs.insert(items_.back().logprobs.end(), rest.logprobs.begin(), rest.logprobs.end());
    }
    close_item(out, cut ? "incomplete" : "completed");
  }

  void close(std::string& out, const ReplyTotals& totals) override {
    totals_ = &totals;
    if (end_.reason == FinishReason::length) {
      response_event(out, "response.incomplete", "incomplete");
    } else {
      response_event(out, "response.completed", "completed");
    }
    totals_ = nullptr;
  }

  std::string failed(const ErrorFacts& error) override {
    std::string out;
    open(out);
    error_ = &error;
    response_event(out, "response.failed", "failed");
    error_ = nullptr;
    return out;
  }

  std::string keepalive() override {
    std::string out;
    if (opened_) {
      response_event(out, "response.in_progress", "in_progress");
    } else {
      open(out);
    }
    return out;
  }

  std::string whole(const std::vector<ReplyChoice>& choices, const ReplyTotals& totals) override {
    const ReplyChoice& choice = choices.front();
    end_ = choice.end;
    const bool cut = end_.reason == FinishReason::length;
    for (const ReplyItem& item : choice.items) {
      if (item.kind != Kind::call && item.text.empty()) continue;
      const char* prefix = item.kind == Kind::content ? "msg_" : item.kind == Kind::reasoning ? "rs_" : "fc_";
      items_.push_back({item, new_id(prefix), {}, "completed"});
      if (item.kind == Kind::content && items_.back().logprobs.empty()) items_.back().logprobs = choice.all.logprobs;
    }
    if (cut && !items_.empty() && items_.back().reply.kind != Kind::call) items_.back().status = "incomplete";
    totals_ = &totals;
    std::string out;
    append_response(out, cut ? "incomplete" : "completed");
    totals_ = nullptr;
    return out;
  }

 private:
  std::string new_id(std::string_view prefix) {
    const size_t random = facts_.id.find('_');
    return std::string(prefix) + facts_.id.substr(random == std::string::npos ? 0 : random + 1) + "_" + std::to_string(next_id_++);
  }

  bool is_open() const { return !items_.empty() && items_.back().status == "in_progress"; }

  void need_item(std::string& out, Kind kind) {
    if (is_open() && items_.back().reply.kind == kind) return;
    close_item(out, "completed");
    items_.push_back({{kind, {}}, new_id(kind == Kind::content ? "msg_" : "rs_"), {}});
    begin_item(out);
  }

  void begin_item(std::string& out) {
    event(out, "response.output_item.added");
    out += R"(,"output_index":)";
    append_json_integer(out, static_cast<int64_t>(items_.size() - 1));
    out += R"(,"item":)";
    append_item(out, items_.back());
    end_event(out);
    if (items_.back().reply.kind != Kind::call) part_event(out, Step::added);
  }

  void close_item(std::string& out, std::string_view status) {
    if (!is_open()) return;
    Item& item = items_.back();
    item.status = status;
    if (item.reply.kind == Kind::call) {
      if (item.reply.text.empty()) item.reply.text = "{}";
      item_event(out, "response.function_call_arguments.done");
      out += R"(,"name":)";
      append_json_string(out, shown_name(item));
      out += R"(,"arguments":)";
    } else if (item.reply.kind == Kind::content) {
      item_event(out, "response.output_text.done");
      out += R"(,"content_index":0,"logprobs":)";
      append_logprobs(out, item.logprobs);
      out += R"(,"text":)";
    } else {
      item_event(out, wish_.summary ? "response.reasoning_summary_text.done" : "response.reasoning_text.done");
      out += wish_.summary ? R"(,"summary_index":0,"text":)" : R"(,"content_index":0,"text":)";
    }
    append_json_string(out, item.reply.text);
    end_event(out);
    if (item.reply.kind != Kind::call) part_event(out, Step::done);
    event(out, "response.output_item.done");
    out += R"(,"output_index":)";
    append_json_integer(out, static_cast<int64_t>(items_.size() - 1));
    out += R"(,"item":)";
    append_item(out, item);
    end_event(out);
  }

  enum class Step : uint8_t { added, done };
  void part_event(std::string& out, Step step) {
    const Item& item = items_.back();
    const bool summary = item.reply.kind == Kind::reasoning && wish_.summary;
    const bool added = step == Step::added;
    if (summary) {
      item_event(out, added ? "response.reasoning_summary_part.added" : "response.reasoning_summary_part.done");
      out += R"(,"summary_index":0,"part":)";
    } else {
      item_event(out, added ? "response.content_part.added" : "response.content_part.done");
      out += R"(,"content_index":0,"part":)";
    }
    append_part(out, item, added);
    end_event(out);
  }

  // The one part of an item; empty as long as it is new.
  void append_part(std::string& out, const Item& item, bool empty) const {
    if (item.reply.kind == Kind::content) {
      out += R"({"type":"output_text","annotations":[],"logprobs":)";
      append_logprobs(out, empty ? std::vector<TokenLogprob>{} : item.logprobs);
      out += R"(,"text":)";
    } else {
      out += wish_.summary ? R"({"type":"summary_text","text":)" : R"({"type":"reasoning_text","text":)";
    }
    append_json_string(out, empty ? std::string_view() : std::string_view(item.reply.text));
    out += '}';
  }

  std::string_view shown_name(const Item& item) const {
    const auto found = wish_.namespaced.find(item.reply.name);
    return found == wish_.namespaced.end() ? std::string_view(item.reply.name) : std::string_view(found->second.name);
  }

  void append_item(std::string& out, const Item& item) const {
    const bool fresh = item.status == "in_progress";
    out += R"({"id":)";
    append_json_string(out, item.id);
    if (item.reply.kind == Kind::content) {
      out += R"(,"type":"message","role":"assistant","content":[)";
      if (!fresh) append_part(out, item, false);
      out += ']';
    } else if (item.reply.kind == Kind::reasoning) {
      out += R"(,"type":"reasoning","summary":[)";
      if (!fresh && wish_.summary) append_part(out, item, false);
      out += ']';
      if (!wish_.summary) {
        out += R"(,"content":[)";
        if (!fresh) append_part(out, item, false);
        out += ']';
      }
      out += R"(,"encrypted_content":)";
      if (!fresh && wish_.encrypted) {
        append_json_string(out, seal_reasoning(item.reply.text));
      } else {
        out += "null";
      }
    } else {
      out += R"(,"type":"function_call","call_id":)";
      append_json_string(out, item.reply.call_id);
      out += R"(,"name":)";
      append_json_string(out, shown_name(item));
      const auto found = wish_.namespaced.find(item.reply.name);
      if (found != wish_.namespaced.end()) {
        out += R"(,"namespace":)";
        append_json_string(out, found->second.space);
      }
      out += R"(,"arguments":)";
      append_json_string(out, item.reply.text);
    }
    out += R"(,"status":")";
    out += item.status;
    out += "\"}";
  }

  void append_response(std::string& out, std::string_view status) const {
    out += R"({"id":)";
    append_json_string(out, facts_.id);
    out += R"(,"object":"response","created_at":)";
    append_json_integer(out, facts_.created);
    out += R"(,"status":")";
    out += status;
    out += R"(","model":)";
    append_json_string(out, facts_.model);
    out += R"(,"error":)";
    if (error_) {
      out += R"({"code":)";
      append_json_string(out, error_->code);
      out += R"(,"message":)";
      append_json_string(out, error_->message);
      out += '}';
    } else {
      out += "null";
    }
    out += status == "incomplete" ? R"(,"incomplete_details":{"reason":"max_output_tokens"},)" : R"(,"incomplete_details":null,)";
    out += wish_.echo;
    out += R"("output":[)";
    bool first = true;
    for (const Item& item : items_) {
      if (item.status == "in_progress") continue;
      if (!std::exchange(first, false)) out += ',';
      append_item(out, item);
    }
    out += R"(],"usage":)";
    if (totals_) {
      append_totals(out);
    } else {
      out += "null";
    }
    out += '}';
  }

  void append_totals(std::string& out) const {
    const turn::Usage& usage = totals_->usage;
    out += R"({"input_tokens":)";
    append_json_integer(out, usage.prompt);
    out += R"(,"input_tokens_details":{"cached_tokens":)";
    append_json_integer(out, usage.cached);
    out += R"(},"output_tokens":)";
    append_json_integer(out, usage.generated);
    out += R"(,"output_tokens_details":{"reasoning_tokens":)";
    append_json_integer(out, totals_->reasoning);
    out += R"(},"total_tokens":)";
    append_json_integer(out, usage.prompt + usage.generated);
    out += '}';
  }

  // "event: x\ndata: {"type":"x","sequence_number":n"; the rest follows up to end_event().
  void event(std::string& out, std::string_view type) {
    out += "event: ";
    out += type;
    out += "\ndata: {\"type\":\"";
    out += type;
    out += R"(","sequence_number":)";
    append_json_integer(out, sequence_++);
  }
  void item_event(std::string& out, std::string_view type) {
    event(out, type);
    out += R"(,"item_id":)";
    append_json_string(out, items_.back().id);
    out += R"(,"output_index":)";
    append_json_integer(out, static_cast<int64_t>(items_.size() - 1));
  }
  static void end_event(std::string& out) { out += "}\n\n"; }

  void response_event(std::string& out, std::string_view type, std::string_view status) {
    event(out, type);
    out += R"(,"response":)";
    append_response(out, status);
    end_event(out);
  }

  ResponsesWish wish_;
  std::vector<Item> items_;
  ChoiceEnd end_;
  bool opened_ = false;
  int64_t sequence_ = 0, next_id_ = 0;
  const ReplyTotals* totals_ = nullptr;  // only while the last event is written
  const ErrorFacts* error_ = nullptr;    // likewise
};

}  // namespace

std::unique_ptr<ReplyFormat> make_responses_reply(ReplyFacts facts, ResponsesWish wish) {
  return std::make_unique<ResponsesReply>(std::move(facts), std::move(wish));
}

}  // namespace vigil::api
