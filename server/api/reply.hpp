// One reply under way: its choices, each a request of its own at the desk, on one channel. It is answered once, when all choices have ended or
// one has failed. Not here: tokens to parts (reply_writer.hpp), the reply's shape (reply_format.hpp).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/api/reply_format.hpp"
#include "server/api/state.hpp"

namespace vigil::api {

class Reply {
 public:
  struct Setup {
    std::shared_ptr<Flow> flow;                    // with its format
    size_t choices = 1;
    size_t choices_per_prompt = 1;                 // the first one's usage counts the prompt
    std::string prompt_field;                      // for errors about the prompt that only the engine's READY can bring
    std::function<void(const std::string&)> log;
    std::function<void()> leave_others;            // takes what is still open from the desk, later, not within this call; may be empty
  };
  explicit Reply(Setup setup);

  bool stream() const { return setup_.flow->stream; }
  bool over() const { return setup_.flow->ended; }  // answered or failed: tokens that still come are for nobody
  const std::string& request_id() const { return setup_.flow->request_id; }
  void log(const std::string& line) const;

  // The engine has the prompt of a choice: the ids that it was sent.
  void sent(size_t choice, const std::vector<gguf::TokenId>& prompt) { setup_.flow->format->set_sent(choice / setup_.choices_per_prompt, prompt); }
  // A stream's next events; a piece without parts only says that a token came. Parts, ids and log probabilities that were written are cleared.
  void write(Piece& piece);
  // The end of a choice with what was not written yet: of a plain answer everything.
  void end_choice(ChoiceEnd end, Piece rest, const turn::Ending& ending);
  void fail(const ErrorFacts& error);
  void fail(turn::RequestError error);
  void client_left() { setup_.flow->ended = true; }  // nobody is there to read

 private:
  void begin();  // open(), before the first piece
  void count(size_t choice, const ChoiceEnd& end, const turn::Ending& ending);
  void end_stream_choice(const ChoiceEnd& end, Piece& rest);

  Setup setup_;
  std::vector<ReplyChoice> choices_;  // of a plain answer
  ReplyTotals totals_;
  size_t open_;                       // choices that have not ended
  std::string out_;
  bool opened_ = false;
};

}  // namespace vigil::api
