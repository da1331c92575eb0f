// A real server on a loopback port with a scripted api behind it, and a raw client; both on one loop that a test turns until something holds.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/http/server.hpp"

namespace vigil::http::test {

// One request that reached the api.
struct Call {
  api::HttpRequest request;
  std::shared_ptr<api::Channel> channel;
  int left = 0, blocked = 0, ready = 0;
  bool exchange_gone = false;
};

struct Answer {
  int status = 0;
  std::string head;
  std::string body;   // chunks joined
  bool chunked = false, complete = false;
  std::string header(const std::string& name) const;  // any case; empty when absent
  bool has(const std::string& name) const;
};

class World;

class Client {
 public:
  Client(World& world, int receive_buffer_bytes = 0);
  ~Client();
  void send(const std::string& bytes);
  void half_close();
  void close();
  void reset();             // close with RST
  void stop_reading();
  void resume_reading();
  void read_some(size_t bytes);  // while reading is stopped: at most so many of those that have come
  const std::string& received() const;
  bool ended() const;       // end of file or reset seen
  bool was_reset() const;
  uint16_t port() const;    // its own
  size_t unsent() const;    // bytes that the socket has not taken yet
  // Waits for the next answer and takes it off; `head_only` for HEAD. Fails the test when none comes.
  Answer answer(bool head_only = false);
  bool wait_for_text(const std::string& text);
  bool wait_for_end();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
  World& world_;
  friend class World;
};

class World {
 public:
  World();
  ~World();
  void start();                                        // after options and routes were changed
  bool until(const std::function<bool()>& holds, double limit_s = 60);
  void turn();                                         // what is ready now

  ServerOptions options;
  RouteTable routes;
  // What a POST to /v1/chat/completions or GET /v1/slow does; by default nothing, the call stays open.
  std::function<void(Call&)> on_call;
  std::vector<std::shared_ptr<Call>> calls;
  std::vector<AccessRecord> finished;
  std::vector<std::string> warnings, faults;
  std::unique_ptr<Server> server;

 private:
  friend class Client;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string get(const std::string& path, const std::string& headers = "");
std::string post(const std::string& path, const std::string& body, const std::string& headers = "");
api::StreamPlan event_stream();
// Takes one answer off the front of `bytes`; nothing when it is not whole yet.
std::optional<Answer> take_answer(std::string& bytes, bool head_only);

}  // namespace vigil::http::test
