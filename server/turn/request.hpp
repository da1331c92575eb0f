// A request as the turn sees it: ids and settings, no text, no dialect, no connection. And how it ends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "protocol/lines.hpp"
#include "protocol/time.hpp"
#include "server/turn/error.hpp"

namespace vigil::turn {

using TokenId = protocol::TokenId;
using RequestKey = uint64_t;  // one per accepted request, never used again; a finished key is inert
using LeaseId = uint64_t;     // one per use of an engine; also the tag on the line protocol; never used again
using Generation = uint64_t;  // one per engine process

// Where a picture is to be fetched from. All pictures of a request that have the same address share one, and so do the request's choices, so that
// it is fetched once. Used on the decision thread alone once the request is with the desk.
struct PictureAddress {
  std::string url;
  std::shared_ptr<const std::string> bytes = {};  // null until they came
  uint64_t hash = 0;                              // of the bytes
};

// One picture of a request, as its client sent it. Decoding is the vision child's.
struct Picture {
  std::shared_ptr<const std::string> bytes;  // null while `address` says where they are to come from
  std::string part;               // the field for error texts: "messages[0].content[1]"
  uint64_t hash = 0;              // of the bytes (or the address), to tell pictures apart quickly; equal hashes prove nothing
  std::shared_ptr<PictureAddress> address = {};
};

// What the vision child made of a request's pictures: one file for GENI. The destructor of the implementation removes the file.
struct Embeddings {
  virtual ~Embeddings() = default;
  std::string path;
  std::vector<int64_t> rows;      // per picture, each at least 1
};

// How an answer that begins with thinking is brought to its end: the engine puts `ids` behind so many tokens, unless `unless` came before.
struct ThinkingEnd {
  std::vector<TokenId> ids;       // what closes the thinking, not empty
  TokenId unless = -1;
  int64_t most = 0;               // tokens of thinking; 0 = what the reserve leaves
  int64_t reserve = 0;            // tokens that the answer keeps of all that may come, at most half of them
};

struct Request {
  std::string id;                 // X-Request-Id, shown in /status
  std::string client;             // whose turn it is: API key, prompt_cache_key, user or connection (contract, "Fairness")
  bool stream = false;
  std::vector<TokenId> prompt;    // not empty
  int64_t max_new = 0;            // tokens; 0 = as many as the context holds
  protocol::Sampling sampling;
  std::vector<TokenId> end_ids;   // ids that end an answer and are never shown
  uint64_t fingerprint = 0;       // hash of prompt and parameters, for requests that crash engines
  uint64_t vocabulary = 0;        // whose ids `prompt` are; an engine of another model is never sent them
  std::string grammar_field;      // what asked for sampling.grammar, for errors
  std::optional<ThinkingEnd> thinking_end;  // engines that take no grammars are not told of it
  // Pictures: `image_token` stands in `prompt` once for each. Once they are encoded the desk repeats it rows[i] times and sets `embeddings`.
  std::vector<Picture> pictures;
  TokenId image_token = -1;
  std::shared_ptr<const Embeddings> embeddings;
  // Not tokens are wanted but the vector of the prompt (EMB): it comes by on_vector, and max_new and sampling say nothing.
  std::optional<protocol::Pooling> embed = {};
};

enum class Finish : uint8_t { stop, length };

struct Usage {
  int64_t prompt = 0;     // ids sent
  int64_t cached = 0;     // RESUME's n
  int64_t generated = 0;  // tokens seen
};

struct Finished { Finish finish = Finish::stop; };
struct Failed { RequestError error; };
enum class CancelledBy : uint8_t { client_left, slow_reader, api };
struct Cancelled { CancelledBy by = CancelledBy::client_left; };

struct Ending {
  std::variant<Finished, Failed, Cancelled> how;
  Usage usage;
  double queued_s = 0, first_token_s = 0, total_s = 0;  // first_token_s from admission; 0 when no token came
};

// What the receiver of tokens wants next.
enum class Verdict : uint8_t { more, stop, length };  // stop: a stop string was matched; length: a limit of its own was reached

// Where a request's tokens and its one ending go. Implemented by server/api. Calls come on the decision thread; none may throw or
// call back into the desk, except through a posted event.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  virtual void on_started(const std::vector<TokenId>& /*prompt*/) {}  // the engine has the request, with these ids: a picture's stand once for each row
  virtual void on_prompt_progress(int64_t /*read*/, int64_t /*total*/) {}
  virtual Verdict on_token(const protocol::Token& token) = 0;      // never an end id; never after a verdict other than `more`
  virtual bool on_vector(const protocol::VectorPart& /*part*/) { return false; }  // false: it does not fit, and the request fails
  virtual void on_end(const Ending& ending) = 0;                   // exactly once, the last call
};

}  // namespace vigil::turn
