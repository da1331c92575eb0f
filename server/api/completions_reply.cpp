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
  CompletionsReply(ReplyFacts facts, std::string echo) : facts_(std::move(facts)), echo_(std::move(echo)), offset_(characters(echo_)) {
    std::string shared = R"({"id":)";
    append_json_string(shared, facts_.id);
    shared += R"(,"object":"text_completion","created":)";
    append_json_integer(shared, facts_.created);
    shared += R"(,"model":)";
    append_json_string(shared, facts_.model);
    object_head_ = shared;
    head_ = "data: " + shared;
    tail_ = facts_.include_usage ? R"(,"usage":null})" : "}";
    tail_ += "\n\n";
  }

  // The role chunk's place: only there when it has something to say.
  void open(std::string& out) override {
    if (echo_.empty() && !facts_.return_token_ids) return;
    out += head_;
    append_prompt_ids(out);
    Piece echoed;
    echoed.text = echo_;
    append_choice(out, echoed, "null");
    out += tail_;
  }

  void piece(std::string& out, const Piece& piece) override {
    out += head_;
    append_choice(out, piece, "null");
    out += tail_;
  }

  void close(std::string& out, turn::Finish finish, const Piece& rest, const turn::Ending& ending) override {
    out += head_;
    append_choice(out, rest, '"' + std::string(finish_reason(finish)) + '"');
    out += tail_;
    if (facts_.include_usage) {
      out += head_;
      out += R"(,"choices":[],)";
      append_usage(out, ending.usage);
      out += ',';
      append_timings(out, ending);
      out += "}\n\n";
    }
    out += "data: [DONE]\n\n";
  }

  std::string whole(turn::Finish finish, const Piece& all, const turn::Ending& ending) override {
    std::string out = object_head_;
    append_prompt_ids(out);
    Piece echoed = all;
    echoed.text.insert(0, echo_);
    append_choice(out, echoed, '"' + std::string(finish_reason(finish)) + '"');
    out += ',';
    append_usage(out, ending.usage);
    out += ',';
    append_timings(out, ending);
    out += '}';
    return out;
  }

 private:
  void append_prompt_ids(std::string& out) const {
    if (!facts_.return_token_ids) return;
    out += R"(,"prompt_token_ids":)";
    append_json_ids(out, facts_.prompt_ids);
  }

  void append_choice(std::string& out, const Piece& piece, std::string_view finish) {
    out += R"(,"choices":[{"index":0,"text":)";
    append_json_string(out, piece.text);
    append_logprobs(out, piece.logprobs);
    out += R"(,"finish_reason":)";
    out += finish;
    if (facts_.return_token_ids) {
      out += R"(,"token_ids":)";
      append_json_ids(out, piece.ids);
    }
    out += "}]";
  }

  // {"tokens","token_logprobs","top_logprobs","text_offset"}
  void append_logprobs(std::string& out, const std::vector<TokenLogprob>& logprobs) {
    if (logprobs.empty()) {
      out += R"(,"logprobs":null)";
      return;
    }
    std::string tokens, values, top, offsets;
    for (const TokenLogprob& token : logprobs) {
      if (!tokens.empty()) {
        for (std::string* list : {&tokens, &values, &top, &offsets}) *list += ',';
      }
      append_json_string(tokens, token.bytes);
      append_json_number(values, token.logprob);
      append_json_integer(offsets, offset_);
      offset_ += characters(text::valid_utf8(token.bytes));
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

  ReplyFacts facts_;
  std::string echo_;
  int64_t offset_;
  std::string object_head_, head_, tail_;
};

}  // namespace

std::unique_ptr<ReplyFormat> make_completions_reply(ReplyFacts facts, std::string echo) {
  return std::make_unique<CompletionsReply>(std::move(facts), std::move(echo));
}

}  // namespace vigil::api
