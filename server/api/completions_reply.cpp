// See completions_reply.hpp.
#include "server/api/completions_reply.hpp"

#include <utility>

#include "server/api/json_text.hpp"
#include "server/text/utf8.hpp"

namespace vigil::api {

namespace {

// Characters, not bytes: what text_offset counts.
int64_t characters(std::string_view text) {
  int64_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

class CompletionsReply final : public ReplyFormat {
 public:
  CompletionsReply(ReplyFacts facts, std::vector<std::string> echoes)
      : ReplyFormat(std::move(facts)), echoes_(std::move(echoes)), offsets_(facts_.choices, 0), object_head_(R"({"id":)") {
    for (size_t i = 0; i < facts_.choices; ++i) offsets_[i] = characters(echo(i));
    append_json_string(object_head_, facts_.id);
    object_head_ += R"(,"object":"text_completion","created":)";
    append_json_integer(object_head_, facts_.created);
    object_head_ += R"(,"model":)";
    append_json_string(object_head_, facts_.model);
    head_ = "data: " + object_head_;
    tail_ = facts_.include_usage ? R"(,"usage":null})" : "}";
    tail_ += "\n\n";
  }

  // The role chunk's place: only there when it has something to say.
  void open(std::string& out) override {
    for (size_t i = 0; i < facts_.choices; ++i) {
      const bool first = i == 0 && facts_.return_token_ids;
      if (echo(i).empty() && !first) continue;
      out += head_;
      if (i == 0) append_prompt(out);
      out += R"(,"choices":[)";
      append_choice(out, i, echo(i), Piece{}, {});
      out += ']';
      out += tail_;
    }
  }

  void piece(std::string& out, const Piece& piece) override { chunk(out, piece.choice, piece.text, piece, {}); }

  void end_choice(std::string& out, const ChoiceEnd& end, const Piece& rest) override { chunk(out, end.choice, {}, rest, finish_word(end.reason)); }

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
      append_choice(out, choice.end.choice, echo(choice.end.choice) + choice.all.text, choice.all, finish_word(choice.end.reason));
    }
    out += "],";
    append_usage(out, totals);
    out += ',';
    append_timings(out, totals);
    out += '}';
    return out;
  }

 private:
  const std::string& echo(size_t choice) const {
    static const std::string none;
    return echoes_.empty() ? none : echoes_[choice * echoes_.size() / facts_.choices];
  }

  void append_prompt(std::string& out) const {
    if (!facts_.return_token_ids) return;
    out += ',';
    append_prompt_ids(out, prompt_);
  }

  void chunk(std::string& out, size_t choice, std::string_view text, const Piece& tokens, std::string_view finish) {
    out += head_;
    out += R"(,"choices":[)";
    append_choice(out, choice, text, tokens, finish);
    out += ']';
    out += tail_;
  }

  void append_choice(std::string& out, size_t choice, std::string_view text, const Piece& tokens, std::string_view finish) {
    out += R"({"index":)";
    append_json_integer(out, static_cast<int64_t>(choice));
    out += R"(,"text":)";
    append_json_string(out, text);
    append_logprobs(out, choice, tokens.logprobs);
    out += R"(,"finish_reason":)";
    if (finish.empty()) {
      out += "null";
    } else {
      append_json_string(out, finish);
    }
    if (facts_.return_token_ids) {
      out += R"(,"token_ids":)";
      append_json_ids(out, tokens.ids);
    }
    out += '}';
  }

  // {"tokens","token_logprobs","top_logprobs","text_offset"}
  void append_logprobs(std::string& out, size_t choice, const std::vector<TokenLogprob>& logprobs) {
    if (logprobs.empty()) {
      out += R"(,"logprobs":null)";
      return;
    }
    int64_t& offset = offsets_[choice];
    std::string tokens, values, top, offsets;
    for (const TokenLogprob& token : logprobs) {
      if (!tokens.empty()) {
        for (std::string* list : {&tokens, &values, &top, &offsets}) *list += ',';
      }
      append_json_string(tokens, token.bytes);
      append_json_number(values, token.logprob);
      append_json_integer(offsets, offset);
      offset += characters(text::valid_utf8(token.bytes));
      top += '{';
      for (size_t i = 0; i < token.top.size(); ++i) {
        if (i > 0) top += ',';
        append_json_string(top, token.top[i].first);
        top += ':';
        append_json_number(top, token.top[i].second);
      }
      top += '}';
    }
    out += R"(,"logprobs":{"tokens":[)" + tokens + R"(],"token_logprobs":[)" + values + R"(],"top_logprobs":[)" + top + R"(],"text_offset":[)" +
           offsets + "]}";
  }

  std::vector<std::string> echoes_;  // one a prompt, or none
  std::vector<int64_t> offsets_;     // by choice: characters before the next token
  std::string object_head_, head_, tail_;
};

}  // namespace

std::unique_ptr<ReplyFormat> make_completions_reply(ReplyFacts facts, std::vector<std::string> echoes) {
  return std::make_unique<CompletionsReply>(std::move(facts), std::move(echoes));
}

}  // namespace vigil::api
