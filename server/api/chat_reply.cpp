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
  explicit ChatReply(ReplyFacts facts) : facts_(std::move(facts)), head_(R"(data: {"id":)") {
    append_json_string(head_, facts_.id);
    head_ += R"(,"object":"chat.completion.chunk","created":)";
    append_json_integer(head_, facts_.created);
    head_ += R"(,"model":)";
    append_json_string(head_, facts_.model);
    tail_ = facts_.include_usage ? R"(,"usage":null})" : "}";
    tail_ += "\n\n";
  }

  void open(std::string& out) override {
    out += head_;
    if (facts_.return_token_ids) {
      out += R"(,"prompt_token_ids":)";
      append_json_ids(out, facts_.prompt_ids);
    }
    out += R"(,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}])";
    out += tail_;
  }

  void piece(std::string& out, const Piece& piece) override {
    out += head_;
    out += R"(,"choices":[{"index":0,"delta":{"content":")";
    append_json_escaped(out, piece.text);
    out += R"("},)";
    append_logprobs(out, piece.logprobs);
    out += R"(,"finish_reason":null)";
    append_ids(out, piece);
    out += "}]";
    out += tail_;
  }

  void close(std::string& out, turn::Finish finish, const Piece& rest, const turn::Ending& ending) override {
    out += head_;
    out += R"(,"choices":[{"index":0,"delta":{},)";
    append_logprobs(out, rest.logprobs);
    out += R"(,"finish_reason":")";
    out += finish_reason(finish);
    out += '"';
    append_ids(out, rest);
    out += "}]";
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
    std::string out = R"({"id":)";
    append_json_string(out, facts_.id);
    out += R"(,"object":"chat.completion","created":)";
    append_json_integer(out, facts_.created);
    out += R"(,"model":)";
    append_json_string(out, facts_.model);
    if (facts_.return_token_ids) {
      out += R"(,"prompt_token_ids":)";
      append_json_ids(out, facts_.prompt_ids);
    }
    out += R"(,"choices":[{"index":0,"message":{"role":"assistant","content":)";
    append_json_string(out, all.text);
    out += R"(,"refusal":null},)";
    append_logprobs(out, all.logprobs);
    out += R"(,"finish_reason":")";
    out += finish_reason(finish);
    out += '"';
    append_ids(out, all);
    out += "}],";
    append_usage(out, ending.usage);
    out += ',';
    append_timings(out, ending);
    out += '}';
    return out;
  }

 private:
  void append_ids(std::string& out, const Piece& piece) const {
    if (!facts_.return_token_ids) return;
    out += R"(,"token_ids":)";
    append_json_ids(out, piece.ids);
  }

  ReplyFacts facts_;
  std::string head_, tail_;  // of every chunk
};

}  // namespace

std::unique_ptr<ReplyFormat> make_chat_reply(ReplyFacts facts) { return std::make_unique<ChatReply>(std::move(facts)); }

}  // namespace vigil::api
