// What the Api's parts share: the surroundings, ids and seeds, and the requests that are still being read or tokenised. Private to the room.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/api/api.hpp"
#include "server/api/errors.hpp"
#include "server/api/reply_format.hpp"

namespace vigil::api {

// One HTTP request from its reading to its ending, shared by the session's side (Exchange) and the desk's (ReplySink).
struct Flow {
  std::string request_id;
  std::shared_ptr<Channel> channel;
  ErrorShape error_shape = openai_error;   // of a plain answer
  std::shared_ptr<ReplyFormat> format;     // words failures in mid-stream; null until the body is read
  bool stream = false;
  std::vector<turn::RequestKey> keys;      // at the desk, one a choice; none until it has them
  std::atomic<bool> left = false;          // the client is gone; workers look too, and spare themselves the work
  bool ended = false;                      // the channel has its answer; nothing more may be written

  // The answer of a request that fails, whichever form its reply would have had.
  void fail(const ErrorFacts& error);
  void fail(const turn::RequestError& error) { fail(error_facts(error)); }
};

struct ApiState {
  explicit ApiState(Surroundings s) : surroundings(std::move(s)) {}

  Surroundings surroundings;
  std::set<std::shared_ptr<Flow>> preparing;  // not yet with the desk; no more than the workers hold
  bool closed = false;                        // the daemon is stopping: nothing new is read
  std::mt19937_64 random{std::random_device{}()};

  VisionStatus vision() const { return surroundings.vision ? surroundings.vision() : VisionStatus{}; }
  std::string new_reply_id(std::string_view prefix);  // 24 random characters behind the prefix
  static std::string new_call_id();                   // "call_" and 128 random bits: unique for ever
  uint64_t new_seed() { return random() >> 33; }      // 31 bits, which every engine can hold
};

// Runs a handler's body; whatever escapes it becomes a 500 that names the request. The catch-all of the room.
template <typename Body>
std::unique_ptr<Exchange> guarded(const HttpRequest& request, const std::shared_ptr<Channel>& channel, const Body& body,
                                  ErrorShape shape = openai_error);

void respond_json(Channel& channel, std::string body, int status = 200);
void respond_error(Channel& channel, const turn::RequestError& error);
turn::RequestError internal_error(const std::string& request_id, std::string_view what);
turn::RequestError shutting_down_error();

template <typename Body>
std::unique_ptr<Exchange> guarded(const HttpRequest& request, const std::shared_ptr<Channel>& channel, const Body& body, ErrorShape shape) {
  const std::string id = request.id;
  try {
    return body();
  } catch (const std::exception& failure) {
    channel->respond(shape(error_facts(internal_error(id, failure.what()))));
  } catch (...) {
    channel->respond(shape(error_facts(internal_error(id, "an exception of unknown type"))));
  }
  return nullptr;
}

}  // namespace vigil::api
