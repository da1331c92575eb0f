// How one dialect writes a reply: as stream events and as a whole. One object a reply; what it writes goes onto the buffer it is given.
// Not here: what the reply is (reply_parts.hpp), when it is written (reply.hpp), errors of a plain answer (errors.hpp).
#pragma once

#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api/errors.hpp"
#include "server/api/reply_parts.hpp"
#include "server/turn/request.hpp"

namespace vigil::api {

// Sent by chat and completions while nothing else is.
inline constexpr std::string_view keepalive_comment = ": keep-alive\n\n";

// The same in every event of a reply; known before its prompt is tokenised.
struct ReplyFacts {
  std::string id;                        // "chatcmpl-…", made by the api, unique
  std::string model;                     // the name that is answered with
  int64_t created = 0;                   // unix seconds
  size_t choices = 1;
  bool include_usage = false;            // stream: a last chunk with the usage
  bool return_token_ids = false;
};

// Known when the prompts have their ids, before open(). A picture is one of them until its rows are known, which is when the engine gets the prompt.
struct PromptFacts {
  std::vector<int64_t> tokens;                   // by prompt
  std::vector<std::vector<gguf::TokenId>> ids;   // by prompt; only with return_token_ids
  int64_t all_tokens() const { return std::accumulate(tokens.begin(), tokens.end(), int64_t{0}); }
};

struct ReplyTotals {
  turn::Usage usage;                     // a prompt counts once, however many choices it has
  int64_t reasoning = 0;                 // tokens, among usage.generated
  double queued_s = 0, first_token_s = 0, total_s = 0;
};

struct ReplyChoice {
  Piece all;                             // text, ids and log probabilities of the whole choice
  std::vector<ReplyItem> items;          // the same text, sorted; calls that are not complete are left out
  ChoiceEnd end;
};

class ReplyFormat {
 public:
  explicit ReplyFormat(ReplyFacts facts) : facts_(std::move(facts)) {}
  virtual ~ReplyFormat() = default;
  void set_prompt(PromptFacts prompt) { prompt_ = std::move(prompt); }
  void set_sent(size_t prompt, const std::vector<gguf::TokenId>& ids) {
    if (prompt >= prompt_.tokens.size() || prompt_.tokens[prompt] == static_cast<int64_t>(ids.size())) return;
    prompt_.tokens[prompt] = static_cast<int64_t>(ids.size());
    if (facts_.return_token_ids) prompt_.ids[prompt] = ids;
  }

  // Stream, in this order: open once, when the first token of any choice comes or the reply ends; pieces; for each choice its end; close.
  virtual void open(std::string& out) = 0;
  virtual void piece(std::string& out, const Piece& piece) = 0;             // it has at least one part
  // `rest` holds ids and log probabilities of tokens whose text was never shown; it has no part.
  virtual void end_choice(std::string& out, const ChoiceEnd& end, const Piece& rest) = 0;
  virtual void close(std::string& out, const ReplyTotals& totals) = 0;
  // A failure after the headers were sent, perhaps before open(); the body ends behind it.
  virtual std::string failed(const ErrorFacts& error) { return openai_error_event(error); }
  // While nothing is sent, perhaps before open(); never empty.
  virtual std::string keepalive() { return std::string(keepalive_comment); }

  // A whole reply's body.
  virtual std::string whole(const std::vector<ReplyChoice>& choices, const ReplyTotals& totals) = 0;

 protected:
  ReplyFacts facts_;
  PromptFacts prompt_;
};

std::string_view finish_word(FinishReason reason);  // stop, length, tool_calls
// "usage":{...} and "timings":{...}, without a comma around them.
void append_usage(std::string& out, const ReplyTotals& totals);
void append_timings(std::string& out, const ReplyTotals& totals);
// From the first token to the end; of an answer whose tokens came all at once, or that has only one, from when the engine got the request.
double tokens_per_second(const ReplyTotals& totals);
// "prompt_token_ids":[…], a list of lists for several prompts.
void append_prompt_ids(std::string& out, const PromptFacts& prompt);

}  // namespace vigil::api
