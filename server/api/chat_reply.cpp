// See chat_reply.hpp.
#include "server/api/chat_reply.hpp"

#include <utility>

#include "server/api/json_text.hpp"

namespace vigil::api {

namespace {

// {"token","logprob","bytes"
void append_candidate(std::string& out, const std::string& bytes, double logprob) {
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
}

void append_logprobs(std::string& out, const std::vector<TokenLogprob>& logprobs) {
  out += R"("logprobs":)";
  if (logprobs.empty()) {
    out += "null";
    return;
  }
  out += R"({"content":[)";
  for (size_t i = 0; i < logprobs.size(); ++i) {
    if (i > 0) out += ',';
    append_candidate(out, logprobs[i].bytes, logprobs[i].logprob);
    out += R"(,"top_logprobs":[)";
    for (size_t j = 0; j < logprobs[i].top.size(); ++j) {
      if (j > 0) out += ',';
      append_candidate(out, logprobs[i].top[j].first, logprobs[i].top[j].second);
      out += '}';
    }
    out += "]}";
  }
  out += R"(],"refusal":null})";
}

class ChatReply final : public ReplyFormat {
 public:
  explicit ChatReply(ReplyFacts facts) : ReplyFormat(std::move(facts)), bare_call_(facts_.choices, false), object_head_(R"({"id":)") {
    append_json_string(object_head_, facts_.id);
    object_head_ += R"(,"object":"chat.completion)";
    std::string rest = R"(","created":)";
    append_json_integer(rest, facts_.created);
    rest += R"(,"model":)";
    append_json_string(rest, facts_.model);
    head_ = "data: " + object_head_ + ".chunk" + rest;
    object_head_ += rest;
    tail_ = facts_.include_usage ? R"(,"usage":null})" : "}";
    tail_ += "\n\n";
  }

  void open(std::string& out) override {
    for (size_t i = 0; i < facts_.choices; ++i) {
      out += head_;
      if (i == 0) append_prompt(out);
      append_delta(out, i);
      out += R"("role":"assistant","content":""},"logprobs":null,"finish_reason":null}])";
      out += tail_;
    }
  }

  // One chunk a part; the last one carries what is known of the tokens.
  void piece(std::string& out, const Piece& piece) override {
    size_t carrier = piece.parts.size();
    while (carrier > 0 && piece.parts[carrier - 1].kind == PartKind::call_end) --carrier;
    for (size_t i = 0; i < piece.parts.size(); ++i) {
      const Part& part = piece.parts[i];
      if (part.kind == PartKind::call_end && !bare_call_[piece.choice]) continue;
      out += head_;
      append_delta(out, piece.choice);
      append_part(out, piece, part);
      end_chunk(out, i + 1 == carrier ? piece : nothing_);
    }
    if (carrier > 0 || (piece.ids.empty() && piece.logprobs.empty())) return;
    out += head_;
    append_delta(out, piece.choice);
    end_chunk(out, piece);
  }

  void end_choice(std::string& out, const ChoiceEnd& end, const Piece& rest) override {
    out += head_;
    append_delta(out, end.choice);
    end_chunk(out, rest, finish_word(end.reason));
  }

  void close(std::string& out, const ReplyTotals& totals) override {
    if (facts_.include_usage) {
      out += head_;
      out += R"(,"choices":[],)";
      append_usage(out, totals);
      out += ',';
      append_timings(out, totals);
      out += "}\n\n";
    }
    out += "data: [DONE]\n\n";
  }

  std::string whole(const std::vector<ReplyChoice>& choices, const ReplyTotals& totals) override {
    std::string out = object_head_;
    append_prompt(out);
    out += R"(,"choices":[)";
    for (const ReplyChoice& choice : choices) {
      if (choice.end.choice > 0) out += ',';
      out += R"({"index":)";
      append_json_integer(out, static_cast<int64_t>(choice.end.choice));
      out += R"(,"message":)";
      append_message(out, choice.items);
      out += ',';
      append_logprobs(out, choice.all.logprobs);
      out += R"(,"finish_reason":")";
      out += finish_word(choice.end.reason);
      out += '"';
      append_ids(out, choice.all);
      out += '}';
    }
    out += "],";
    append_usage(out, totals);
    out += ',';
    append_timings(out, totals);
    out += '}';
    return out;
  }

 private:
  void append_prompt(std::string& out) const {
    if (!facts_.return_token_ids) return;
    out += ',';
    append_prompt_ids(out, prompt_);
  }

  void append_ids(std::string& out, const Piece& piece) const {
    if (!facts_.return_token_ids) return;
    out += R"(,"token_ids":)";
    append_json_ids(out, piece.ids);
  }

  // Up to the delta's first member.
  static void append_delta(std::string& out, size_t choice) {
    out += R"(,"choices":[{"index":)";
    append_json_integer(out, static_cast<int64_t>(choice));
    out += R"(,"delta":{)";
  }

  void end_chunk(std::string& out, const Piece& tokens, std::string_view finish = {}) const {
    out += "},";
    append_logprobs(out, tokens.logprobs);
    if (finish.empty()) {
      out += R"(,"finish_reason":null)";
    } else {
      out += R"(,"finish_reason":")";
      out += finish;
      out += '"';
    }
    append_ids(out, tokens);
    out += "}]";
    out += tail_;
  }

  void append_part(std::string& out, const Piece& piece, const Part& part) {
    const std::string_view text = piece.text_of(part);
    switch (part.kind) {
      case PartKind::content:
        out += R"("content":")";
        append_json_escaped(out, text);
        out += '"';
        return;
      case PartKind::reasoning:  // two names are in use
        for (const char* name : {R"("reasoning_content":")", R"(,"reasoning":")"}) {
          out += name;
          append_json_escaped(out, text);
          out += '"';
        }
        return;
      case PartKind::call_begin:
        bare_call_[piece.choice] = true;
        append_call_index(out, part.call);
        append_call_head(out, part.call_id, text);
        out += R"(""}}])";
        return;
      case PartKind::call_arguments:
      case PartKind::call_end:  // of a call without a character of arguments
        bare_call_[piece.choice] = false;
        append_call_index(out, part.call);
        out += R"(,"function":{"arguments":)";
        append_json_string(out, part.kind == PartKind::call_end ? "{}" : text);
        out += "}}]";
        return;
    }
  }

  static void append_call_index(std::string& out, size_t call) {
    out += R"("tool_calls":[{"index":)";
    append_json_integer(out, static_cast<int64_t>(call));
  }

  // ,"id","type","function":{"name","arguments": and no further
  static void append_call_head(std::string& out, std::string_view id, std::string_view name) {
    out += R"(,"id":)";
    append_json_string(out, id);
    out += R"(,"type":"function","function":{"name":)";
    append_json_string(out, name);
    out += R"(,"arguments":)";
  }

  static void append_message(std::string& out, const std::vector<ReplyItem>& items) {
    const std::string content = joined(items, ReplyItem::Kind::content), reasoning = joined(items, ReplyItem::Kind::reasoning);
    std::string calls;
    size_t count = 0;
    for (const ReplyItem& item : items) {
      if (item.kind != ReplyItem::Kind::call) continue;
      calls += count == 0 ? R"({"index":)" : R"(,{"index":)";
      append_json_integer(calls, static_cast<int64_t>(count++));
      append_call_head(calls, item.call_id, item.name);
      append_json_string(calls, item.text);
      calls += "}}";
    }
    out += R"({"role":"assistant","content":)";
    if (content.empty() && count > 0) {
      out += "null";
    } else {
      append_json_string(out, content);
    }
    out += R"(,"refusal":null)";
    if (!reasoning.empty()) {
      for (const char* name : {R"(,"reasoning_content":)", R"(,"reasoning":)"}) {
        out += name;
        append_json_string(out, reasoning);
      }
    }
    if (count > 0) out += R"(,"tool_calls":[)" + calls + ']';
    out += '}';
  }

  std::vector<bool> bare_call_;  // by choice: the open call has no arguments yet
  std::string object_head_;      // of a whole reply
  std::string head_, tail_;      // of every chunk
  const Piece nothing_;
};

}  // namespace

std::unique_ptr<ReplyFormat> make_chat_reply(ReplyFacts facts) { return std::make_unique<ChatReply>(std::move(facts)); }

}  // namespace vigil::api
