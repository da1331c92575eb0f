// One choice: its tokens become text, text becomes parts of a reply. Thinking that goes over its budget is ended here when the engine does not
// do it: the request is stopped, and another goes on behind the closing tag. Not here: the channel (reply.hpp), the reply's shape.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/api/reply.hpp"
#include "server/text/output_parser.hpp"
#include "server/text/repetition_guard.hpp"
#include "server/text/stop_strings.hpp"
#include "server/text/token_stream.hpp"

namespace vigil::api {

class ReplyWriter final : public std::enable_shared_from_this<ReplyWriter>, private text::OutputSink {
 public:
  struct Setup {
    std::shared_ptr<Reply> reply;
    std::shared_ptr<const Model> model;
    size_t choice = 0;
    std::vector<std::string> stop;
    bool return_token_ids = false;
    int64_t repeat_stop_tokens = 0;
    std::shared_ptr<const text::OutputFormat> format = {};  // how thinking and calls are written; null = all text is content
    text::OutputParser::Options parsing = {};
    std::optional<turn::ThinkingEnd> thinking = {};          // how it is ended; nothing = it has no limit
    int64_t max_new = 0;                                     // as the first request has it
    std::function<EngineStatus()> engine = {};               // with `thinking`
    // Sends the request again, later, not within this call: with these tokens of the answer behind the prompt, for so many more.
    std::function<void(std::shared_ptr<ReplyWriter>, std::vector<gguf::TokenId>, int64_t)> go_on = {};
  };
  explicit ReplyWriter(Setup setup);

  void on_started(const std::vector<gguf::TokenId>& prompt);
  turn::Verdict on_token(const protocol::Token& token);
  void on_end(const turn::Ending& ending);

 private:
  text::StopStrings::Match feed(gguf::TokenId id);
  void end_thinking(const turn::Ending& ending);
  turn::Verdict take(const protocol::Token& token);
  text::StopStrings::Match take_text(gguf::TokenId id);
  void take_control(gguf::TokenId id);
  void add_logprobs(const protocol::Token& token);
  void show(std::string_view text);                     // what no stop string can take back any more
  void finish(turn::Finish finish, const turn::Ending& ending);

  void content(std::string_view text) override { piece_.add(PartKind::content, text); }
  void reasoning(std::string_view text) override { piece_.add(PartKind::reasoning, text); }
  void call_begin(size_t index, std::string_view name) override;
  void call_arguments(size_t index, std::string_view json) override { piece_.add(PartKind::call_arguments, json, index); }
  void call_end(size_t index) override;

  Setup setup_;
  text::TokenStream stream_;
  text::StopStrings stops_;
  text::RepetitionGuard guard_;
  std::unique_ptr<text::OutputParser> parser_;
  Piece piece_;           // a stream: what was not sent yet; a plain answer: everything
  std::string fresh_, shown_;
  ChoiceEnd end_;
  size_t complete_calls_ = 0;
  int64_t thinking_budget_ = 0, limit_ = 0;    // tokens of thinking and of all; 0 = none
  bool over_budget_ = false;
  std::vector<gguf::TokenId> answered_;        // with a budget: every token so far
  std::optional<turn::Ending> before_;         // the request that was stopped in its thinking
  std::string failure_;   // of ours; ends the request with internal_error
};

// The desk's hold on a choice.
class ChoiceSink final : public turn::ReplySink {
 public:
  explicit ChoiceSink(std::shared_ptr<ReplyWriter> writer) : writer_(std::move(writer)) {}
  void on_started(const std::vector<gguf::TokenId>& prompt) override { writer_->on_started(prompt); }
  turn::Verdict on_token(const protocol::Token& token) override { return writer_->on_token(token); }
  void on_end(const turn::Ending& ending) override { writer_->on_end(ending); }

 private:
  std::shared_ptr<ReplyWriter> writer_;
};

}  // namespace vigil::api
