// How one dialect writes a reply: as stream events and as a whole. One object a reply; what it writes goes onto the buffer it is given.
// Not here: when it is written (generation.hpp), and errors before the stream begins.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/gguf/vocabulary.hpp"
#include "server/turn/request.hpp"

namespace vigil::api {

// Sent by chat and completions while nothing else is.
inline constexpr std::string_view keepalive_comment = ": keep-alive\n\n";

// The same in every event of a reply.
struct ReplyFacts {
  std::string id;                        // "chatcmpl-…", made by the api, unique
  std::string model;
  int64_t created = 0;                   // unix seconds
  bool include_usage = false;            // stream: a last chunk with the usage
  bool return_token_ids = false;
  std::vector<gguf::TokenId> prompt_ids; // only with return_token_ids
};

// Log probabilities of one token and its rivals, with the bytes that each stands for.
struct TokenLogprob {
  std::string bytes;
  double logprob = 0;
  std::vector<std::pair<std::string, double>> top;
};

// What one or more tokens gave.
struct Piece {
  std::string text;                      // valid UTF-8; may be empty
  std::vector<gguf::TokenId> ids;        // only with return_token_ids
  std::vector<TokenLogprob> logprobs;    // only when asked for
  bool empty() const { return text.empty() && ids.empty() && logprobs.empty(); }
  void clear() { text.clear(); ids.clear(); logprobs.clear(); }
};

class ReplyFormat {
 public:
  virtual ~ReplyFormat() = default;
  // Stream: what stands before the first piece, one piece, and everything from the finish reason to the end of the body. `rest` holds
  // tokens whose text was never shown (it has no text).
  virtual void open(std::string& out) = 0;
  virtual void piece(std::string& out, const Piece& piece) = 0;
  virtual void close(std::string& out, turn::Finish finish, const Piece& rest, const turn::Ending& ending) = 0;
  // A whole reply's body.
  virtual std::string whole(turn::Finish finish, const Piece& all, const turn::Ending& ending) = 0;
};

std::string_view finish_reason(turn::Finish finish);
// "usage":{...} and "timings":{...}, without a comma around them.
void append_usage(std::string& out, const turn::Usage& usage);
void append_timings(std::string& out, const turn::Ending& ending);

}  // namespace vigil::api
