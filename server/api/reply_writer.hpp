// The sink of one generation: tokens become text, text a reply on the channel. Not here: the reply's shape (reply_format.hpp).
#pragma once

#include <memory>
#include <string>

#include "server/api/parameters.hpp"
#include "server/api/reply_format.hpp"
#include "server/api/state.hpp"
#include "server/text/repetition_guard.hpp"
#include "server/text/stop_strings.hpp"
#include "server/text/token_stream.hpp"

namespace vigil::api {

class ReplyWriter final : public turn::ReplySink {
 public:
  struct Setup {
    std::shared_ptr<Flow> flow;
    std::shared_ptr<const Model> model;
    std::unique_ptr<ReplyFormat> format;
    std::vector<std::string> stop;
    bool return_token_ids = false;
    int64_t repeat_stop_tokens = 0;
    std::string prompt_field;
    std::function<void(const std::string&)> log;
  };
  explicit ReplyWriter(Setup setup);

  turn::Verdict on_token(const protocol::Token& token) override;
  void on_end(const turn::Ending& ending) override;

 private:
  turn::Verdict take(const protocol::Token& token);
  void write_piece();
  void finish(turn::Finish finish, const turn::Ending& ending);
  void fail(turn::RequestError error);

  Setup setup_;
  text::TokenStream stream_;
  text::StopStrings stops_;
  text::RepetitionGuard guard_;
  Piece piece_;           // a stream: what was not sent yet; a plain answer: everything
  std::string whole_, out_;
  bool opened_ = false;   // the events before the first piece were written
  std::string failure_;   // of ours; ends the request with internal_error
};

}  // namespace vigil::api
