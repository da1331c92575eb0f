// What a dialect may do with the connection that it answers on; implemented by http/session. And what the session tells the request
// that it carries. One channel serves one request; it is answered by respond() or by a stream, never both.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vigil::api {

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;  // beside the session's own (X-Request-Id, CORS, Date, Connection)
};

struct StreamPlan {
  std::string content_type = "text/event-stream";
  std::function<std::string()> keepalive;   // bytes to send when nothing was sent for http.keepalive_s; also the probe of a half-close
};

class Channel {
 public:
  virtual ~Channel() = default;
  // A whole answer. After it the channel takes nothing more.
  virtual void respond(Response response) = 0;
  // The answer will be a stream. Headers are held back until the first write, the first probe or http.commit_s.
  virtual void plan_stream(StreamPlan plan) = 0;
  // Whether it will be one shows later: plan_stream(), plan_whole() or the answer itself follows. Until then the end of the client's input
  // says nothing.
  virtual void plan_later() = 0;
  virtual void plan_whole() = 0;
  virtual void write(std::string_view bytes) = 0;  // commits the headers
  virtual void finish() = 0;                       // the end of the body
  // A failure: `plain` when the headers are still held back, else `event` and the end of the body.
  virtual void fail(Response plain, std::string_view event) = 0;
};

// A request that is being answered; the session holds it until the channel was answered or the client left.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual void client_left() = 0;                  // reset, close or end of input: nobody reads any more
  virtual void reader_blocked() = 0;               // the write buffer is full
  virtual void reader_ready() = 0;                 // it drained
};

// What a dialect needs to know of a request's HTTP side.
struct HttpRequest {
  std::string id;              // X-Request-Id: the client's when it is acceptable, else ours
  std::string method, path;    // path without query, percent-decoded
  std::string query;
  std::string path_parameter;  // {id} of the route
  std::string client;          // the API key (hashed) when several are configured, else the connection; the body may name a better one
  bool client_is_key = false;
  std::string body;
};

}  // namespace vigil::api
