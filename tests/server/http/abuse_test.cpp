// Clients that do what they should not, and what the kernel is told about connections: odd bytes between requests, full pipelines, limits to
// the byte, a shortage of descriptors, every refusal with the headers that every answer has.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "http_support.hpp"

using namespace vigil;
using namespace vigil::http;
using namespace vigil::http::test;

namespace {
void respond(Call& call, const std::string& body) {
  api::Response response;
  response.body = body;
  call.channel->respond(std::move(response));
}
void echo_size(Call& call) { respond(call, std::to_string(call.request.body.size())); }

// The server's end of a client's connection; both are of this process.
int server_side(const Client& client) {
  for (int descriptor = 3; descriptor < 1024; ++descriptor) {
    sockaddr_in peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) == 0 && peer.sin_family == AF_INET && ntohs(peer.sin_port) == client.port())
      return descriptor;
  }
  return -1;
}
int option(int descriptor, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(descriptor, level, name, &value, &size) == 0 ? value : -1;
}

// Takes every descriptor that this process may still have, but for `left`.
class Shortage {
 public:
  explicit Shortage(size_t left) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{256, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
    for (int taken = ::open("/dev/null", O_RDONLY | O_CLOEXEC); taken >= 0; taken = ::dup(taken)) taken_.push_back(taken);
    for (size_t i = 0; i < left; ++i) release();
  }
  ~Shortage() {
    while (!taken_.empty()) release();
    ::setrlimit(RLIMIT_NOFILE, &before_);
  }
  Shortage(const Shortage&) = delete;
  Shortage& operator=(const Shortage&) = delete;
  void release() {
    ::close(taken_.back());
    taken_.pop_back();
  }

 private:
  rlimit before_{};
  std::vector<int> taken_;
};
}  // namespace

TEST_CASE("line breaks between requests are passed over, and the connection is idle meanwhile") {
  World world;
  world.options.limits.header_s = 60;
  world.options.limits.idle_s = 0.3;
  world.on_call = [](Call& call) { respond(call, "body " + call.request.body); };
  world.start();
  Client client(world);
  client.send("\r\n\r\n" + get("/health") + post("/v1/chat/completions", "one") + "\r\n" + post("/v1/chat/completions", "two") + "\r\n\r");
  CHECK(client.answer().status == 200);
  CHECK(client.answer().body == "body one");
  CHECK(client.answer().body == "body two");
  CHECK(client.wait_for_end());  // by idle_s, without an answer
  CHECK(client.received().empty());
  Client lone(world);
  lone.send(get("/health") + "\r" + get("/health"));
  CHECK(lone.answer().status == 200);
  CHECK(lone.answer().status == 400);
}

TEST_CASE("a client that closes is noticed even behind a full pipeline; a half-closed stream there is probed") {
  World world;
  world.start();
  Client plain(world);
  plain.send(post("/v1/chat/completions", "x") + std::string(100 * 1024, 'y'));
  REQUIRE(world.until([&] { return world.calls.size() == 1 && plain.unsent() == 0; }));
  plain.close();
  CHECK(world.until([&] { return world.calls[0]->left == 1; }, 20));
  world.on_call = [](Call& call) { call.channel->plan_stream(event_stream()); };
  Client stream(world);
  stream.send(post("/v1/chat/completions", "x") + std::string(100 * 1024, 'y'));
  REQUIRE(world.until([&] { return world.calls.size() == 2 && stream.unsent() == 0; }));
  stream.half_close();
  REQUIRE(stream.wait_for_text(": waiting\n\n\r\nb\r\n: waiting\n\n\r\nb\r\n: waiting\n\n"));
  CHECK(world.calls[1]->left == 0);
  stream.reset();
  CHECK(world.until([&] { return world.calls[1]->left == 1; }, 20));
}

TEST_CASE("vanished peers are noticed by the kernel: keep-alive probes, the user timeout, no delay") {
  World world;
  world.options.limits.write_s = 7.5;
  world.start();
  Client client(world);
  client.send(get("/health"));
  CHECK(client.answer().status == 200);
  const int descriptor = server_side(client);
  REQUIRE(descriptor >= 0);
  CHECK(option(descriptor, SOL_SOCKET, SO_KEEPALIVE) == 1);
  CHECK(option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE) == 10);
  CHECK(option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL) == 10);
  CHECK(option(descriptor, IPPROTO_TCP, TCP_KEEPCNT) == 3);
  CHECK(option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT) == 7500);
  CHECK(option(descriptor, IPPROTO_TCP, TCP_NODELAY) == 1);
  CHECK((::fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);  // no child inherits a client
}

// Not under a sanitizer: UBSan looks at objects through a pipe, and without descriptors it takes every one for a wrong one.
#ifndef __SANITIZE_ADDRESS__
TEST_CASE("a shortage of descriptors is told once; connections that exist go on, those that wait are served when it is over") {
  World world;
  world.start();
  Client before(world);
  before.send(get("/health"));
  CHECK(before.answer().status == 200);
  {
    Shortage shortage(1);
    Client waiting(world);  // takes the last one; the kernel's backlog holds its connection
    waiting.send(get("/health"));
    REQUIRE(world.until([&] { return !world.warnings.empty(); }, 20));
    CHECK(world.warnings[0].find("cannot accept connections for now") == 0);
    for (int i = 0; i < 20; ++i) {
      before.send(get("/health"));
      CHECK(before.answer().status == 200);
    }
    CHECK(waiting.received().empty());
    shortage.release();
    CHECK(waiting.answer().status == 200);
  }
  CHECK(world.warnings.size() == 1);
  Client after(world);
  after.send(get("/health"));
  CHECK(after.answer().status == 200);
}
#endif

TEST_CASE("the header's limit to the byte, over a socket and in pieces") {
  World world;
  world.options.limits.header_bytes = 300;
  world.start();
  const std::string start = "GET /health HTTP/1.1\r\nHost: localhost\r\nX: ";
  for (const size_t size : {299U, 300U, 301U}) {
    const std::string head = start + std::string(size - start.size() - 4, 'x') + "\r\n\r\n";
    REQUIRE(head.size() == size);
    for (const size_t piece : {size_t{1000}, size_t{7}}) {
      Client client(world);
      for (size_t at = 0; at < head.size(); at += piece) {
        client.send(head.substr(at, piece));
        world.turn();
      }
      CHECK(client.answer().status == (size <= 300 ? 200 : 431));
    }
  }
}

TEST_CASE("the body's limit to the byte, with a length and in chunks; what is over it is told before it is sent") {
  World world;
  world.options.limits.body_bytes = 20000;
  world.on_call = echo_size;
  world.start();
  for (const size_t size : {19999U, 20000U, 20001U}) {
    const int status = size <= 20000 ? 200 : 413;
    Client length(world);
    length.send(post("/v1/chat/completions", std::string(size, 'x')));
    CHECK(length.answer().status == status);
    Client chunks(world);
    chunks.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (size_t left = size; left > 0;) {
      const size_t piece = std::min<size_t>(left, 999);
      char line[16];
      std::snprintf(line, sizeof line, "%zx\r\n", piece);
      chunks.send(line + std::string(piece, 'x') + "\r\n");
      left -= piece;
    }
    chunks.send("0\r\n\r\n");
    CHECK(chunks.answer().status == status);
  }
  Client claim(world);
  claim.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 20001\r\n\r\n");
  CHECK(claim.answer().status == 413);  // instead of 100
}

TEST_CASE("every refusal has an id, JSON, the origin's headers, and none of a foreign one") {
  World world;
  world.options.api_keys = {"k"};
  world.options.cors_origins = {"https://app.example"};
  world.options.limits.body_bytes = 100;
  world.options.limits.body_s = 0.2;
  world.start();
  struct Row { const char* what; std::string request; int status; };
  const auto rows = [](const std::string& origin) {
    const std::string key = "x-api-key: k\r\n";
    const std::string with = "HTTP/1.1\r\nHost: h\r\n" + origin;
    return std::vector<Row>{{"key", "GET /v1/models " + with + "\r\n", 401},
                            {"path", "GET /nope " + with + key + "\r\n", 404},
                            {"method", "PUT /v1/models " + with + key + "\r\n", 405},
                            {"escape", "GET /%zz " + with + key + "\r\n", 400},
                            {"two hosts", "GET /health " + with + "Host: i\r\n\r\n", 400},
                            {"large", "POST /v1/chat/completions " + with + key + "Content-Length: 101\r\n\r\n", 413},
                            {"late", "POST /v1/chat/completions " + with + key + "Content-Length: 9\r\n\r\nabc", 408},
                            {"chunk", "POST /v1/chat/completions " + with + key + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400}};
  };
  for (const Row& row : rows("Origin: https://app.example\r\n")) {
    INFO(row.what);
    Client client(world);
    client.send(row.request);
    const Answer answer = client.answer();
    CHECK(answer.status == row.status);
    CHECK(answer.has("x-request-id"));
    CHECK(answer.header("content-type") == "application/json");
    CHECK(answer.header("access-control-allow-origin") == "https://app.example");
    CHECK(answer.header("access-control-expose-headers").find("Retry-After") != std::string::npos);
  }
  for (const Row& row : rows("Origin: https://evil.example\r\n")) {
    INFO(row.what);
    Client client(world);
    client.send(row.request);
    const Answer answer = client.answer();
    CHECK(answer.status == row.status);
    CHECK_FALSE(answer.has("access-control-allow-origin"));
  }
}

TEST_CASE("HEAD has the status and headers of GET and no body, errors too") {
  World world;
  world.options.api_keys = {"k"};
  world.start();
  const std::string key = "x-api-key: k\r\n";
  for (const std::string& rest : {"/v1/models HTTP/1.1\r\nHost: h\r\n" + key, std::string("/v1/models HTTP/1.1\r\nHost: h\r\n"), "/nope HTTP/1.1\r\nHost: h\r\n" + key,
                                  "/v1/chat/completions HTTP/1.1\r\nHost: h\r\n" + key}) {
    INFO(rest);
    Client client(world);
    client.send("GET " + rest + "X-Request-Id: same\r\n\r\n");
    const Answer whole = client.answer();
    client.send("HEAD " + rest + "X-Request-Id: same\r\n\r\nGET /health HTTP/1.1\r\nHost: h\r\n\r\n");
    const Answer head = client.answer(true);
    CHECK(head.status == whole.status);
    for (const char* name : {"content-type", "x-request-id", "allow", "www-authenticate"}) CHECK(head.header(name) == whole.header(name));
    CHECK(std::stoul(head.header("content-length")) > 0);
    const Answer next = client.answer();
    CHECK(next.head.find("HTTP/1.1 200 ") == 0);  // follows at once: no body came between
    CHECK(next.body == "GET /health []");
  }
}
