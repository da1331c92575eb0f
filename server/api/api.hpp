// The dialects behind one door: a parsed HTTP request in, an answer on its channel out. Routes call a Handler; nothing here knows sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/gguf/tokenizer.hpp"
#include "engine/gguf/vocabulary.hpp"
#include "protocol/time.hpp"
#include "server/api/channel.hpp"
#include "server/text/chat_template.hpp"
#include "server/text/image_markers.hpp"
#include "server/text/output_parser.hpp"
#include "server/turn/desk.hpp"
#include "server/url/allow_list.hpp"

namespace vigil::api {

// The model that requests may name and what turns text into ids and back. Immutable once made; several may follow one another.
struct Model {
  std::string id;                           // configuration's model_name, else general.name, else the file's name without .gguf
  std::vector<std::string> aliases;
  int64_t created = 0;                      // unix seconds: the file's modification time
  int64_t trained_context = 0;              // tokens, from the file; the engine's READY may say less
  uint64_t stamp = 0;                       // another model, another stamp: see turn::Request::vocabulary
  std::shared_ptr<const gguf::Vocabulary> vocabulary;
  std::shared_ptr<const gguf::Tokenizer> tokenizer;
  size_t longest_token_bytes = 0;           // no token stands for more text than this; 0 = not known
  std::string chat_template;                // of the file or chat_template_file; empty = the documented plain one
  std::shared_ptr<const text::ChatTemplate> chat;  // that template, compiled; null when there is none
  std::shared_ptr<const text::OutputFormat> output;  // how it writes thinking and calls; null = all it writes is content
  std::optional<text::ImageMarkers> image;  // what stands for a picture; nothing = it takes none
};

// Reading, templating and tokenising of long texts run elsewhere; `done` comes back on the decision thread.
class Workers {
 public:
  virtual ~Workers() = default;
  // `bytes`: how much text the job works through. Very long jobs leave room for others.
  virtual void run(size_t bytes, std::function<void()> job, std::function<void()> done) = 0;
};

struct EngineStatus {                       // for /status and /ready; filled by the driver
  std::string state;                        // unloaded, starting, ready, stopping, backoff, failed
  uint64_t generation = 0;
  int64_t pid = 0;
  double in_state_s = 0, load = 0;
  int64_t context = 0;
  int slots = 1;
  std::string reason;
  double retry_in_s = 0;
  bool lazy = false;
  bool can_logprobs = false, can_grammar = false;
};

struct VisionStatus {                       // for /status and for requests with pictures; filled by the vision child's driver
  std::string state = "absent";             // or an engine's states; absent: there is no vision child, and pictures are refused
  uint64_t generation = 0;
  int64_t pid = 0;
  std::string reason;
  int64_t image_bytes = 0;                  // vision.image_bytes
  std::shared_ptr<const url::AllowList> url_allow = {};  // vision.url_allow; null or empty: pictures by address are refused
};

struct Settings {
  size_t inline_body_bytes = 64 * 1024;     // longer bodies are read by the workers
  size_t inline_text_bytes = 16 * 1024;     // longer texts are tokenised by them
  int64_t repeat_stop_tokens = 256;         // engine.repeat_stop_tokens; 0 = never
  int64_t thinking_reserve = 512;           // engine.thinking_reserve: tokens that thinking leaves to the answer
  std::string version;
};

// How an order about the engine ended: nothing when well. Called once, later, on the decision thread.
using OrderDone = std::function<void(const std::optional<turn::RequestError>&)>;

// What the api needs from the rest of the daemon. All functions are called on the decision thread.
struct Surroundings {
  turn::Desk& desk;
  Workers& workers;
  std::function<TimePoint()> now;
  std::function<int64_t()> unix_seconds;
  std::function<std::shared_ptr<const Model>()> model;
  std::function<EngineStatus()> engine;
  std::function<std::string()> metrics_text;
  std::function<double()> uptime_s;
  Settings settings;
  std::function<void(const std::string& line)> log = {};  // what only the operator should read; may be empty
  std::function<void(OrderDone)> load = {}, unload = {};  // of the engine, by hand
  std::function<VisionStatus()> vision = {};              // empty = absent
};

struct ApiState;

class Api {
 public:
  explicit Api(Surroundings surroundings);
  ~Api();

  // Each answers on the channel now or later. What comes back is null when the channel was answered before returning.
  using Handler = std::unique_ptr<Exchange> (Api::*)(HttpRequest request, std::shared_ptr<Channel> channel);
  std::unique_ptr<Exchange> chat_completions(HttpRequest request, std::shared_ptr<Channel> channel);
  std::unique_ptr<Exchange> completions(HttpRequest request, std::shared_ptr<Channel> channel);
  std::unique_ptr<Exchange> responses(HttpRequest request, std::shared_ptr<Channel> channel);
  std::unique_ptr<Exchange> embeddings(HttpRequest request, std::shared_ptr<Channel> channel);
  std::unique_ptr<Exchange> messages(HttpRequest request, std::shared_ptr<Channel> channel);
  std::unique_ptr<Exchange> count_tokens(HttpRequest request, std::shared_ptr<Channel> channel);
  std::unique_ptr<Exchange> models(HttpRequest request, std::shared_ptr<Channel> channel);
  std::unique_ptr<Exchange> model(HttpRequest request, std::shared_ptr<Channel> channel);
  std::unique_ptr<Exchange> tokenize(HttpRequest request, std::shared_ptr<Channel> channel);
  std::unique_ptr<Exchange> detokenize(HttpRequest request, std::shared_ptr<Channel> channel);
  std::unique_ptr<Exchange> load(HttpRequest request, std::shared_ptr<Channel> channel);
  std::unique_ptr<Exchange> unload(HttpRequest request, std::shared_ptr<Channel> channel);
  std::unique_ptr<Exchange> cancel_request(HttpRequest request, std::shared_ptr<Channel> channel);
  std::unique_ptr<Exchange> health(HttpRequest request, std::shared_ptr<Channel> channel);
  std::unique_ptr<Exchange> ready(HttpRequest request, std::shared_ptr<Channel> channel);
  std::unique_ptr<Exchange> status(HttpRequest request, std::shared_ptr<Channel> channel);
  std::unique_ptr<Exchange> metrics(HttpRequest request, std::shared_ptr<Channel> channel);

  // The daemon is stopping: what is still being read or tokenised ends with shutting_down, and nothing new is read.
  void close();

  const Surroundings& surroundings() const;

 private:
  std::shared_ptr<ApiState> state_;         // jobs that come back from the workers find it gone when the Api is
};

// The error object of the OpenAI dialects with the status and headers that its kind asks for (Retry-After, x-should-retry).
Response error_response(const turn::RequestError& error);
// The same in the shape of the messages dialect.
Response messages_error_response(const turn::RequestError& error);

}  // namespace vigil::api
