// The sink of one choice: tokens become text, text becomes parts of a reply. Not here: the channel (reply.hpp), the reply's shape.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/api/reply.hpp"
#include "server/text/output_parser.hpp"
#include "server/text/repetition_guard.hpp"
#include "server/text/stop_strings.hpp"
#include "server/text/token_stream.hpp"

namespace vigil::api {

class ReplyWriter final : public turn::ReplySink, private text::OutputSink {
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
  };
  explicit ReplyWriter(Setup setup);

  turn::Verdict on_token(const protocol::Token& token) override;
  void on_end(const turn::Ending& ending) override;

 private:
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
  std::string failure_;   // of ours; ends the request with internal_error
};

}  // namespace vigil::api
