// Connections over real sockets: early answers, bodies, pipelining, limits, keys, CORS, paths, reload, drain.
#include <catch2/catch.hpp>

#include <chrono>

#include "http_support.hpp"

using namespace vigil;
using namespace vigil::http;
using namespace vigil::http::test;

namespace {
std::string code_of(const Answer& answer) {
  const size_t at = answer.body.find("\"code\":\"");
  return at == std::string::npos ? "" : answer.body.substr(at + 8, answer.body.find('"', at + 8) - at - 8);
}
void respond(Call& call, const std::string& body) {
  api::Response response;
  response.body = body;
  call.channel->respond(std::move(response));
}
void echo_size(Call& call) { respond(call, std::to_string(call.request.body.size())); }
}  // namespace

TEST_CASE("an answer carries the connection's headers; HEAD the same without a body") {
  World world;
  world.start();
  Client client(world);
  client.send(get("/health", "X-Request-Id: mine-1\r\n"));
  const Answer first = client.answer();
  CHECK(first.status == 200);
  CHECK(first.body == "GET /health []");
  CHECK(first.header("x-request-id") == "mine-1");
  CHECK(first.header("server") == "vigil/9.9.9");
  CHECK(first.header("date").size() == 29);
  CHECK_FALSE(first.has("connection"));
  client.send("HEAD /health HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: has space\r\n\r\n");
  const Answer head = client.answer(true);
  CHECK(head.status == 200);
  CHECK(head.header("content-length") == "15");  // of "HEAD /health []"
  CHECK(head.header("x-request-id").find("req-") == 0);
  client.send(get("/health"));
  CHECK(client.answer().body == "GET /health []");
  CHECK(world.server->open_connections() == 1);
  CHECK(world.finished.size() == 3);
  CHECK(world.finished[0].request_id == "mine-1");
}

TEST_CASE("paths: doubled and trailing slashes, ids with slashes; what is not there is JSON") {
  World world;
  world.start();
  Client client(world);
  const auto ask = [&](const std::string& path) {
    client.send(get(path));
    return client.answer();
  };
  CHECK(ask("/v1//models").body == "GET /v1/models []");
  CHECK(ask("/v1/models/").body == "GET /v1/models []");
  CHECK(ask("/v1/models/a/b:c").body == "GET /v1/models/a/b:c [a/b:c]");
  CHECK(ask("/v1/models/a%2Fb:c").body == "GET /v1/models/a/b:c [a/b:c]");
  const Answer missing = ask("/nothing%00\"");
  CHECK(missing.status == 404);
  CHECK(code_of(missing) == "not_found");
  CHECK(missing.header("content-type") == "application/json");
  CHECK(ask("/%zz").status == 400);
  const Answer method = ask("/v1/chat/completions");
  CHECK(method.status == 405);
  CHECK(code_of(method) == "method_not_allowed");
  CHECK(method.header("allow") == "POST, OPTIONS");
}

TEST_CASE("requests in one write are answered in order, with and without bodies") {
  World world;
  world.on_call = [](Call& call) { respond(call, "body " + call.request.body); };
  world.start();
  Client client(world);
  client.send("DELETE /v1/requests/7 HTTP/1.1\r\nHost: localhost\r\n\r\n" + get("/health") + post("/v1/chat/completions", "one") +
              post("/v1/chat/completions", "two"));
  CHECK(client.answer().body == "DELETE /v1/requests/7 [7]");
  CHECK(client.answer().body == "GET /health []");
  CHECK(client.answer().body == "body one");
  CHECK(client.answer().body == "body two");
}

TEST_CASE("bytes that arrive while a request is answered are kept up to 64 KiB and then answered") {
  World world;
  world.start();
  Client client(world);
  client.send(post("/v1/chat/completions", "x"));
  REQUIRE(world.until([&] { return world.calls.size() == 1; }));
  std::string flood;
  while (flood.size() < 400 * 1024) flood += get("/v1/models/" + std::string(1000, 'm'));
  const size_t sent = flood.size() / get("/v1/models/" + std::string(1000, 'm')).size();
  client.send(flood);
  REQUIRE(world.until([&] { return client.unsent() == 0 || client.unsent() < flood.size(); }));
  world.turn();
  CHECK(client.received().empty());
  CHECK(world.calls[0]->left == 0);
  respond(*world.calls[0], "first");
  CHECK(client.answer().body == "first");
  for (size_t i = 0; i < sent; ++i) REQUIRE(client.answer().status == 200);
}

TEST_CASE("a client that resets is noticed even behind a full pipeline") {
  World world;
  world.start();
  Client client(world);
  client.send(post("/v1/chat/completions", "x") + std::string(64 * 1024, 'y'));
  REQUIRE(world.until([&] { return world.calls.size() == 1 && client.unsent() == 0; }));
  world.turn();
  client.reset();
  CHECK(world.until([&] { return world.calls[0]->left == 1; }));
}

TEST_CASE("chunked bodies arrive as with a length") {
  World world;
  world.on_call = [](Call& call) { respond(call, call.request.body); };
  world.start();
  Client client(world);
  const std::string head = "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  client.send(head + "2;a=b\r\nh\xc3\r\n");
  world.turn();
  client.send("2\r\n\xa9!\r\n0\r\nX-Trailer: 1\r\n\r\n");
  CHECK(client.answer().body == "h\xc3\xa9!");
  client.send(head + "nonsense\r\n");
  const Answer bad = client.answer();
  CHECK(bad.status == 400);
  CHECK(bad.header("connection") == "close");
  CHECK(client.wait_for_end());
  CHECK_FALSE(client.was_reset());
}

TEST_CASE("100 Continue is said only when the body will be read") {
  World world;
  world.options.api_keys = {"secret"};
  world.on_call = echo_size;
  world.start();
  const std::string head = "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n";
  Client good(world);
  good.send(head + "Authorization: bearer secret\r\n\r\n");
  CHECK(good.answer().status == 100);
  good.send("12345");
  CHECK(good.answer().body == "5");
  Client bad(world);
  bad.send(head + "Authorization: Bearer wrong\r\n\r\n");
  const Answer refused = bad.answer();
  CHECK(refused.status == 401);
  CHECK(code_of(refused) == "invalid_api_key");
  CHECK(refused.header("connection") == "close");
}

TEST_CASE("an early error reaches a client that still sends; nothing of its body is answered") {
  World world;
  world.options.api_keys = {"secret"};
  world.options.limits.body_bytes = 100 * 1024;
  world.start();
  struct Row { const char* what; std::string head; int status; };
  const std::string key = "Authorization: Bearer secret\r\n";
  const std::string length = "Content-Length: 20000000\r\n";
  for (const Row& row : {Row{"no key", "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 20000000\r\n", 401},
                         Row{"no path", "POST /nope HTTP/1.1\r\nHost: h\r\nContent-Length: 20000000\r\n", 404},
                         Row{"no method", "PUT /v1/models HTTP/1.1\r\nHost: h\r\nContent-Length: 20000000\r\n", 405},
                         Row{"too large", "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n" + key + length, 413},
                         Row{"too large in chunks", "POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\n" + key + "Transfer-Encoding: chunked\r\n", 413}}) {
    INFO(row.what);
    Client client(world);
    client.send(row.head + "\r\n");
    if (row.head.find("chunked") != std::string::npos) client.send("F00000\r\n");
    std::string body;
    while (body.size() < 10000000) body += "GET /health HTTP/1.1\r\nHost: h\r\n\r\n";
    client.send(body + body);
    const Answer answer = client.answer();
    CHECK(answer.status == row.status);
    CHECK(answer.header("connection") == "close");
    REQUIRE(world.until([&] { return client.unsent() == 0; }));  // the rest is swallowed, no reset
    client.half_close();
    CHECK(client.wait_for_end());
    CHECK_FALSE(client.was_reset());
    CHECK(client.received().empty());
  }
  CHECK(world.calls.empty());
  CHECK(world.until([&] { return world.server->open_connections() == 0; }));
}

TEST_CASE("an early error without a body leaves the connection in use") {
  World world;
  world.start();
  Client client(world);
  client.send(get("/nope") + "POST /v1/models HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n" + get("/health"));
  CHECK(client.answer().status == 404);
  CHECK(client.answer().status == 405);
  CHECK(client.answer().status == 200);
}

TEST_CASE("limits of size at their edges") {
  World world;
  world.options.limits.body_bytes = 1000;
  world.options.limits.header_bytes = 500;
  world.on_call = echo_size;
  world.start();
  for (const size_t size : {999U, 1000U}) {
    Client client(world);
    client.send(post("/v1/chat/completions", std::string(size, 'x')));
    CHECK(client.answer().body == std::to_string(size));
  }
  Client client(world);
  client.send(post("/v1/chat/completions", std::string(1001, 'x')));
  const Answer large = client.answer();
  CHECK(large.status == 413);
  CHECK(code_of(large) == "request_too_large");
  CHECK(large.body.find("http.body_bytes") != std::string::npos);
  Client claim(world);
  claim.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n");
  CHECK(claim.answer().status == 413);
  Client header(world);
  header.send(get("/health", "X: " + std::string(500, 'x') + "\r\n"));
  const Answer wide = header.answer();
  CHECK(wide.status == 431);
  CHECK(code_of(wide) == "headers_too_large");
  CHECK(wide.has("x-request-id"));
  Client ignored(world);
  ignored.send("GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc" + get("/health"));
  CHECK(ignored.answer().status == 200);
  CHECK(ignored.answer().status == 200);
}

TEST_CASE("bodies of all connections share http.body_total_bytes, which is given back") {
  World world;
  world.options.limits.body_total_bytes = 40000;  // above one read, so that a body is counted in pieces
  world.start();
  Client first(world), second(world), third(world);
  first.send(post("/v1/chat/completions", std::string(24000, 'x')));
  REQUIRE(world.until([&] { return world.calls.size() == 1; }));
  second.send(post("/v1/chat/completions", std::string(24000, 'x')));
  const Answer claimed = second.answer();
  CHECK(claimed.status == 429);
  CHECK(claimed.has("retry-after"));
  CHECK(claimed.body.find("http.body_total_bytes") != std::string::npos);
  third.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2EE0\r\n" + std::string(12000, 'x') +
             "\r\n2EE0\r\n" + std::string(12000, 'x') + "\r\n0\r\n\r\n");
  CHECK(third.answer().status == 429);
  first.reset();
  REQUIRE(world.until([&] { return world.calls[0]->left == 1; }));
  Client fourth(world);
  world.on_call = echo_size;
  for (int i = 0; i < 5; ++i) {
    fourth.send(post("/v1/chat/completions", std::string(40000, 'x')));
    CHECK(fourth.answer().body == "40000");
  }
}

TEST_CASE("slow headers and bodies are ended in time, others are served meanwhile") {
  World world;
  world.options.limits.header_s = 0.3;
  world.options.limits.body_s = 0.3;
  world.start();
  Client silent(world), header(world), body(world), other(world);
  header.send("GET /health HT");
  body.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc");
  other.send(get("/health"));
  CHECK(other.answer().status == 200);
  const Answer late_header = header.answer();
  CHECK(late_header.status == 408);
  CHECK(code_of(late_header) == "request_timeout");
  CHECK(late_header.body.find("0.3 s (http.header_s)") != std::string::npos);
  const Answer late_body = body.answer();
  CHECK(late_body.status == 408);
  CHECK(late_body.body.find("0.3 s (http.body_s)") != std::string::npos);
  CHECK(silent.wait_for_end());
  CHECK(silent.received().empty());
  CHECK(header.wait_for_end());
  CHECK(world.calls.empty());
}

TEST_CASE("a trickle of header bytes does not move the limit") {
  World world;
  world.options.limits.header_s = 0.3;
  world.start();
  Client client(world);
  const std::string head = "GET /health HTTP/1.1\r\nX: ";
  size_t sent = 0;
  auto next = std::chrono::steady_clock::now();  // a byte a millisecond: as fast as it goes the head would be too large first
  CHECK(world.until([&] {
    if (std::chrono::steady_clock::now() >= next && client.unsent() == 0 && !client.ended()) {
      client.send(sent < head.size() ? head.substr(sent, 1) : "x");
      ++sent;
      next += std::chrono::milliseconds(1);
    }
    return client.received().find("408") != std::string::npos;
  }));
}

TEST_CASE("an idle connection is closed after http.idle_s") {
  World world;
  world.options.limits.idle_s = 0.2;
  world.start();
  Client client(world);
  client.send(get("/health"));
  CHECK(client.answer().status == 200);
  CHECK(client.wait_for_end());
  CHECK_FALSE(client.was_reset());
  CHECK(world.until([&] { return world.server->open_connections() == 0; }));
}

TEST_CASE("broken requests get a 400 and the end of the connection") {
  for (const char* bytes : {"\x16\x03\x01\x02\x05\x01\r\n\r\n", "GET /health HTTP/1.1\r\n\r\n", "GET /health HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
                            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
                            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "GET /health HTTP/1.1\r\nHost: localhost\n\n",
                            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n"}) {
    INFO(bytes);
    World world;
    world.start();
    Client client(world);
    client.send(std::string(bytes) + get("/health"));
    const Answer answer = client.answer();
    CHECK(answer.status == 400);
    CHECK(code_of(answer) == "invalid_request");
    CHECK(answer.has("x-request-id"));
    CHECK(client.wait_for_end());
    CHECK_FALSE(client.was_reset());
    CHECK(client.received().empty());
    CHECK(world.calls.empty());
  }
}

TEST_CASE("a body cut by the end of input is a 400, not a request") {
  World world;
  world.start();
  Client client(world);
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc");
  client.half_close();
  CHECK(client.answer().status == 400);
  CHECK(world.calls.empty());
  REQUIRE(world.until([&] { return world.server->open_connections() == 0; }));
  REQUIRE(world.finished.size() == 1);  // recorded once, and not as one whose client left
  CHECK_FALSE(world.finished[0].left);
}

TEST_CASE("keys: which paths need one, several of them name the client") {
  World world;
  world.options.api_keys = {"one", "two"};
  world.start();
  Client client(world);
  client.send(get("/health") + get("/v1/models") + get("/v1/models", "Authorization: BEARER two\r\n") + get("/v1/models", "Authorization: Bearer \r\n"));
  CHECK(client.answer().status == 200);
  const Answer refused = client.answer();
  CHECK(refused.status == 401);
  CHECK(refused.header("www-authenticate") == "Bearer");
  CHECK(client.answer().status == 200);
  CHECK(client.answer().status == 401);
  Client a(world), b(world), c(world);
  a.send(post("/v1/chat/completions", "x", "x-api-key: one\r\n"));
  b.send(post("/v1/chat/completions", "x", "Authorization: Bearer one\r\n"));
  c.send(post("/v1/chat/completions", "x", "x-api-key: two\r\n"));
  REQUIRE(world.until([&] { return world.calls.size() == 3; }));
  CHECK(world.calls[0]->request.client_is_key);
  std::map<std::string, int> clients;
  for (const auto& call : world.calls) ++clients[call->request.client];
  CHECK(clients.size() == 2);
  for (const auto& [name, count] : clients) CHECK(name.find("one") == std::string::npos);
}

TEST_CASE("without several keys the client is its connection") {
  World world;
  world.options.api_keys = {"one"};
  world.start();
  Client a(world), b(world);
  a.send(post("/v1/chat/completions", "x", "x-api-key: one\r\n"));
  b.send(post("/v1/chat/completions", "x", "x-api-key: one\r\n"));
  REQUIRE(world.until([&] { return world.calls.size() == 2; }));
  CHECK(world.calls[0]->request.client != world.calls[1]->request.client);
  CHECK_FALSE(world.calls[0]->request.client_is_key);
}

TEST_CASE("without a key Host and Origin are checked; with one they are not") {
  World world;
  world.start();
  const auto status = [&](const std::string& host, const std::string& headers = "") {
    Client client(world);
    client.send("GET /health HTTP/1.1\r\nHost: " + host + "\r\n" + headers + "\r\n");
    return client.answer().status;
  };
  CHECK(status("localhost:1") == 200);
  CHECK(status("127.0.0.1") == 200);
  CHECK(status("rebound.example") == 403);
  CHECK(status("") == 403);
  CHECK(status("localhost", "Origin: https://evil.example\r\n") == 403);
  CHECK(status("localhost", "Origin: http://localhost:3000\r\n") == 200);
  Client absolute(world);
  absolute.send("GET http://rebound.example/health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const Answer answer = absolute.answer();
  CHECK(answer.status == 403);
  CHECK(code_of(answer) == "host_not_allowed");
  ServerOptions with_key = world.options;
  with_key.api_keys = {"k"};
  world.server->set_options(with_key);
  CHECK(status("rebound.example", "Origin: https://evil.example\r\n") == 200);
}

TEST_CASE("CORS: preflight without key, the same headers on errors and streams, none for a foreign origin") {
  World world;
  world.options.api_keys = {"k"};
  world.options.cors_origins = {"https://app.example"};
  world.on_call = [](Call& call) {
    call.channel->plan_stream(event_stream());
    call.channel->write("data: 1\n\n");
    call.channel->finish();
  };
  world.start();
  Client client(world);
  const std::string origin = "Origin: https://app.example\r\n";
  const std::string ask = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization,content-type\r\n";
  client.send("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: h\r\n" + origin + ask + "\r\n");
  const Answer preflight = client.answer();
  CHECK(preflight.status == 204);
  CHECK(preflight.header("access-control-allow-origin") == "https://app.example");
  CHECK(preflight.header("access-control-allow-headers").find("authorization") != std::string::npos);
  CHECK(preflight.header("access-control-allow-methods").find("POST") != std::string::npos);
  CHECK_FALSE(preflight.has("content-length"));
  client.send(post("/v1/chat/completions", "x", origin));
  const Answer refused = client.answer();
  CHECK(refused.status == 401);
  CHECK(refused.header("access-control-allow-origin") == "https://app.example");
  client.send(post("/v1/chat/completions", "x", origin + "x-api-key: k\r\n"));
  const Answer stream = client.answer();
  CHECK(stream.chunked);
  CHECK(stream.header("access-control-allow-origin") == "https://app.example");
  CHECK(stream.header("access-control-expose-headers").find("X-Request-Id") != std::string::npos);
  client.send("OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: h\r\nOrigin: https://evil.example\r\n" + ask + "\r\n" +
              get("/health", "Origin: https://evil.example\r\n") + "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n" +
              "OPTIONS /nope HTTP/1.1\r\nHost: h\r\n" + origin + "\r\n");
  for (int i = 0; i < 3; ++i) CHECK_FALSE(client.answer().has("access-control-allow-origin"));
  const Answer nowhere = client.answer();
  CHECK(nowhere.status == 404);
  CHECK(nowhere.has("access-control-allow-origin"));
}

TEST_CASE("HTTP/1.0 is answered and closed, or kept when asked") {
  World world;
  world.start();
  Client client(world);
  client.send("GET /health HTTP/1.0\r\n\r\n");
  CHECK(client.answer().header("connection") == "close");
  CHECK(client.wait_for_end());
  Client kept(world);
  kept.send("GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  CHECK(kept.answer().header("connection") == "keep-alive");
  kept.send("GET /health HTTP/1.0\r\n\r\n");
  CHECK(kept.answer().status == 200);
}

TEST_CASE("beyond http.connections: an idle connection gives way, else 429 and the end; the cap frees again") {
  World world;
  world.options.limits.connections = 2;
  world.start();
  auto idle = std::make_unique<Client>(world);
  idle->send(get("/health"));
  CHECK(idle->answer().status == 200);
  Client busy(world);
  busy.send(post("/v1/chat/completions", "x"));
  REQUIRE(world.until([&] { return world.calls.size() == 1; }));
  Client third(world);
  third.send(post("/v1/chat/completions", "x"));
  REQUIRE(world.until([&] { return world.calls.size() == 2; }));
  CHECK(idle->wait_for_end());
  Client fourth(world);
  fourth.send(get("/health"));
  const Answer refused = fourth.answer();
  CHECK(refused.status == 429);
  CHECK(refused.has("retry-after"));
  CHECK(refused.body.find("http.connections") != std::string::npos);
  CHECK(fourth.wait_for_end());
  third.reset();
  REQUIRE(world.until([&] { return world.server->open_connections() == 1; }));
  Client fifth(world);
  fifth.send(get("/health"));
  CHECK(fifth.answer().status == 200);
}

TEST_CASE("an exception of a route, and a request that is let go, are a 500 with the id in the log") {
  World world;
  int turn = 0;
  world.on_call = [&](Call& call) {
    if (turn++ == 0) throw std::runtime_error("boom");
    call.channel.reset();
  };
  world.start();
  Client client(world);
  client.send(post("/v1/chat/completions", "x", "X-Request-Id: oops\r\n"));
  const Answer answer = client.answer();
  CHECK(answer.status == 500);
  CHECK(code_of(answer) == "internal_error");
  CHECK(answer.body.find("boom") == std::string::npos);
  REQUIRE(world.faults.size() == 1);
  CHECK(world.faults[0].find("oops") != std::string::npos);
  CHECK(world.faults[0].find("boom") != std::string::npos);
  client.send(post("/v1/chat/completions", "x"));
  CHECK(client.answer().status == 500);
  client.send(get("/health"));
  CHECK(client.answer().status == 200);
}

TEST_CASE("a channel is inert once its request is over") {
  World world;
  world.start();
  Client client(world);
  client.send(post("/v1/chat/completions", "one"));
  REQUIRE(world.until([&] { return world.calls.size() == 1; }));
  respond(*world.calls[0], "answer one");
  respond(*world.calls[0], "twice");
  CHECK(client.answer().body == "answer one");
  CHECK(world.until([&] { return world.calls[0]->exchange_gone; }));
  client.send(post("/v1/chat/completions", "two"));
  REQUIRE(world.until([&] { return world.calls.size() == 2; }));
  respond(*world.calls[0], "late");
  world.calls[0]->channel->write("late");
  world.calls[0]->channel->finish();
  world.calls[0]->channel.reset();
  world.turn();
  CHECK(client.received().empty());
  respond(*world.calls[1], "answer two");
  CHECK(client.answer().body == "answer two");
  CHECK(world.calls[0]->left == 0);
  CHECK(world.faults.empty());
}

TEST_CASE("drain: no new connections, idle ones closed, answers say close, then all is finished") {
  World world;
  world.start();
  Client idle(world), busy(world);
  idle.send(get("/health"));
  CHECK(idle.answer().status == 200);
  busy.send(post("/v1/chat/completions", "x") + get("/health"));
  REQUIRE(world.until([&] { return world.calls.size() == 1; }));
  world.server->stop_accepting();
  world.server->close_idle();
  CHECK(idle.wait_for_end());
  bool finished = false;
  world.server->when_finished([&] { finished = true; });
  world.turn();
  CHECK_FALSE(finished);
  CHECK_THROWS(Client(world));
  respond(*world.calls[0], "done");
  const Answer answer = busy.answer();
  CHECK(answer.body == "done");
  CHECK(answer.header("connection") == "close");
  CHECK(world.until([&] { return finished; }));
  CHECK(world.calls[0]->left == 0);
}

TEST_CASE("cancel_all ends what is open") {
  World world;
  world.start();
  Client plain(world), stream(world), reading(world);
  plain.send(post("/v1/chat/completions", "x"));
  stream.send(post("/v1/chat/completions", "x"));
  reading.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc");
  REQUIRE(world.until([&] { return world.calls.size() == 2 && world.server->open_connections() == 3; }));
  world.calls[1]->channel->plan_stream(event_stream());
  bool finished = false;
  world.server->when_finished([&] { finished = true; });
  world.server->cancel_all();
  CHECK(world.calls[0]->left == 1);
  CHECK(world.calls[1]->left == 1);
  CHECK(world.until([&] { return finished; }));
  CHECK(world.server->open_connections() == 0);
}

TEST_CASE("binding: a taken port is named, IPv6 literals work, other descriptors are refused") {
  World world;
  world.start();
  const auto taken = world.server->bind("127.0.0.1", world.server->port());
  REQUIRE_FALSE(taken.ok());
  CHECK(taken.error() == "cannot listen on 127.0.0.1:" + std::to_string(world.server->port()) + ": address in use (host, port)");
  const auto nowhere = world.server->bind("203.0.113.9", 1);
  REQUIRE_FALSE(nowhere.ok());
  CHECK(nowhere.error() == "cannot listen on 203.0.113.9:1: this machine has no such address (host, port)");
  CHECK_FALSE(world.server->bind("", 1).ok());
  for (const char* host : {"::1", "[::1]"}) {
    const auto ipv6 = world.server->bind(host, 0);
    INFO((ipv6.ok() ? "" : ipv6.error()));
    CHECK((ipv6.ok() || ipv6.error().find("cannot listen on [::1]:0") == 0));  // a machine may have no IPv6
  }
}
