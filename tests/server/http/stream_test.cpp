// Streams over real sockets: held-back headers, keep-alives, failures, leaving, half-closes, slow readers.
#include <catch2/catch.hpp>

#include "http_support.hpp"
#include "protocol/time.hpp"

using namespace vigil;
using namespace vigil::http;
using namespace vigil::http::test;

namespace {
api::Response unavailable() {
  api::Response response;
  response.status = 503;
  response.body = "{\"plain\":1}";
  return response;
}
// A client whose streamed request has reached the api.
struct Stream {
  explicit Stream(World& world, const std::string& request = post("/v1/chat/completions", "x"), int receive_buffer_bytes = 0)
      : client(world, receive_buffer_bytes) {
    const size_t before = world.calls.size();
    client.send(request);
    REQUIRE(world.until([&] { return world.calls.size() == before + 1; }));
    call = world.calls.back();
  }
  api::Channel& channel() { return *call->channel; }
  Client client;
  std::shared_ptr<Call> call;
};
void plan(Call& call) { call.channel->plan_stream(event_stream()); }
}  // namespace

TEST_CASE("a stream is chunked, ends cleanly and leaves the connection in use") {
  World world;
  world.on_call = plan;
  world.start();
  Stream stream(world);
  world.turn();
  CHECK(stream.client.received().empty());  // headers held back
  stream.channel().write("data: 1\n\n");
  REQUIRE(stream.client.wait_for_text("data: 1"));
  stream.channel().write("data: 2\n\n");
  stream.channel().finish();
  const Answer answer = stream.client.answer();
  CHECK(answer.body == "data: 1\n\ndata: 2\n\n");
  CHECK(answer.header("content-type") == "text/event-stream");
  CHECK(answer.has("x-request-id"));
  stream.channel().write("late");
  stream.client.send(get("/health"));
  CHECK(stream.client.answer().status == 200);
  CHECK(stream.call->left == 0);
  CHECK(stream.call->exchange_gone);
}

TEST_CASE("events of one turn of the loop leave in one write") {
  World world;
  world.on_call = [](Call& call) {
    call.channel->plan_stream(event_stream());
    for (int i = 0; i < 3; ++i) call.channel->write("data: x\n\n");
  };
  world.start();
  Stream stream(world);
  REQUIRE(world.until([&] { return !stream.client.received().empty(); }));
  const std::string& got = stream.client.received();
  CHECK(got.find("9\r\ndata: x\n\n\r\n9\r\ndata: x\n\n\r\n9\r\ndata: x\n\n\r\n") != std::string::npos);
}

// The reset is known to the kernel at once, so a write that is not put off meets it before the loop turns.
TEST_CASE("a flush offers to the sockets what was written, without a turn of the loop") {
  World world;
  world.on_call = plan;
  world.start();
  Stream gone(world), here(world);
  gone.client.reset();
  gone.channel().write("data: 1\n\n");
  here.channel().write("data: 1\n\n");
  CHECK(gone.call->left == 0);
  world.server->flush();
  CHECK(gone.call->left == 1);
  world.server->flush();
  REQUIRE(here.client.wait_for_text("data: 1"));
  here.channel().finish();
  CHECK(here.client.answer().body == "data: 1\n\n");
  CHECK(gone.call->left == 1);
  CHECK(here.call->left == 0);
}

TEST_CASE("a failure before the commit is the plain answer, after it the event and the end of the body") {
  World world;
  world.on_call = plan;
  world.start();
  Stream early(world);
  early.channel().fail(unavailable(), "data: event\n\n");
  const Answer plain = early.client.answer();
  CHECK(plain.status == 503);
  CHECK(plain.body == "{\"plain\":1}");
  Stream late(world);
  late.channel().write("data: 1\n\n");
  late.channel().fail(unavailable(), "data: event\n\n");
  late.channel().write("data: more\n\n");
  const Answer framed = late.client.answer();
  CHECK(framed.status == 200);
  CHECK(framed.body == "data: 1\n\ndata: event\n\n");
}

TEST_CASE("commit_s sends the headers, keepalive_s the signs of life; then a failure is an event") {
  World world;
  world.options.limits.commit_s = 0.05;
  world.options.limits.keepalive_s = 0.05;
  world.on_call = plan;
  world.start();
  Stream stream(world);
  REQUIRE(stream.client.wait_for_text("\r\n\r\n"));
  CHECK(stream.client.received().find(": waiting") == std::string::npos);
  REQUIRE(stream.client.wait_for_text(": waiting\n\n\r\nb\r\n: waiting\n\n"));
  stream.channel().fail(unavailable(), "data: event\n\n");
  const Answer answer = stream.client.answer();
  CHECK(answer.status == 200);
  CHECK(answer.body.find(": waiting\n\n: waiting\n\n") == 0);
  CHECK(answer.body.find("data: event\n\n") == answer.body.size() - 13);
}

TEST_CASE("HTTP/1.0: a stream without chunks that ends with the connection") {
  World world;
  world.on_call = plan;
  world.start();
  Stream stream(world, "POST /v1/chat/completions HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx");
  stream.channel().write("data: 1\n\n");
  stream.channel().finish();
  REQUIRE(stream.client.wait_for_end());
  const std::string& got = stream.client.received();
  CHECK(got.find("chunked") == std::string::npos);
  CHECK(got.find("Connection: close\r\n") != std::string::npos);
  CHECK(got.substr(got.size() - 13) == "\r\n\r\ndata: 1\n\n");
  CHECK_FALSE(stream.client.was_reset());
}

TEST_CASE("leaving: close, reset and end of input of a plain request") {
  World world;
  world.start();
  const auto leave = GENERATE(0, 1, 2);
  Stream stream(world);
  if (leave == 0) stream.client.close();
  if (leave == 1) stream.client.reset();
  if (leave == 2) stream.client.half_close();
  REQUIRE(world.until([&] { return stream.call->left > 0; }));
  CHECK(stream.call->left == 1);
  CHECK(world.until([&] { return stream.call->exchange_gone && world.server->open_connections() == 0; }));
  stream.channel().respond({});
  REQUIRE(world.finished.size() == 1);
  CHECK(world.finished[0].left);
  CHECK(world.finished[0].status == 0);
}

TEST_CASE("leaving a stream: before the first byte, in the middle, and with pipelined bytes behind") {
  World world;
  world.on_call = plan;
  world.start();
  const auto begun = GENERATE(false, true);
  const auto how = GENERATE(0, 1);
  const auto pipelined = GENERATE(false, true);
  Stream stream(world);
  if (begun) stream.channel().write("data: 1\n\n");
  if (pipelined) stream.client.send(get("/health"));
  world.turn();
  if (how == 0) stream.client.close();
  else stream.client.reset();
  REQUIRE(world.until([&] { return stream.call->left > 0; }));
  CHECK(stream.call->left == 1);
  CHECK(world.until([&] { return world.server->open_connections() == 0; }));
}

TEST_CASE("a half-closed stream is probed at most three times and gets its answer") {
  World world;
  world.on_call = plan;
  world.start();
  Stream stream(world);
  stream.client.half_close();
  REQUIRE(stream.client.wait_for_text(": waiting\n\n\r\nb\r\n: waiting\n\n\r\nb\r\n: waiting\n\n"));
  // A fourth would come before this: the probes' timer is asked to run out by an event of the same length.
  stream.channel().write("data: 1\n\n");
  REQUIRE(stream.client.wait_for_text("data: 1"));
  CHECK(stream.call->left == 0);
  stream.channel().finish();
  const Answer answer = stream.client.answer();
  CHECK(answer.body == ": waiting\n\n: waiting\n\n: waiting\n\ndata: 1\n\n");
  CHECK(stream.client.wait_for_end());
  CHECK(stream.call->left == 0);
}

TEST_CASE("as long as it is open whether a stream will come, the end of input says nothing") {
  World world;
  world.on_call = [](Call& call) { call.channel->plan_later(); };
  world.start();
  SECTION("a stream is probed then") {
    Stream stream(world);
    stream.client.half_close();
    world.turn();
    CHECK(stream.call->left == 0);
    stream.channel().plan_stream(event_stream());
    REQUIRE(stream.client.wait_for_text(": waiting\n\n\r\nb\r\n: waiting\n\n\r\nb\r\n: waiting\n\n"));
    stream.channel().write("data: 1\n\n");
    stream.channel().finish();
    CHECK(stream.client.answer().complete);
    CHECK(stream.call->left == 0);
  }
  SECTION("for a whole answer it was leaving") {
    Stream stream(world);
    stream.client.half_close();
    world.turn();
    CHECK(stream.call->left == 0);
    stream.channel().plan_whole();
    CHECK(stream.call->left == 1);
    CHECK(world.until([&] { return world.server->open_connections() == 0; }));
  }
  SECTION("a reset is leaving at any time") {
    Stream stream(world);
    stream.client.reset();
    CHECK(world.until([&] { return stream.call->left == 1; }));
  }
  SECTION("a reset after the end of input too") {
    Stream stream(world);
    stream.client.half_close();
    world.turn();
    stream.client.reset();
    CHECK(world.until([&] { return stream.call->left == 1; }));
  }
  SECTION("an answer closes the question") {
    Stream stream(world);
    stream.channel().respond(unavailable());
    CHECK(stream.client.answer().status == 503);
  }
}

TEST_CASE("a half-closed client that goes later is still noticed") {
  World world;
  world.on_call = plan;
  world.start();
  Stream stream(world);
  stream.client.half_close();
  REQUIRE(stream.client.wait_for_text(": waiting\n\n\r\nb\r\n: waiting\n\n\r\nb\r\n: waiting\n\n"));
  stream.client.reset();
  CHECK(world.until([&] { return stream.call->left == 1; }));
}

TEST_CASE("an answer that is whole is written in full to a client that has half-closed") {
  World world;
  world.on_call = [](Call& call) {
    api::Response response;
    response.body = std::string(3000000, 'b');
    call.channel->respond(std::move(response));
  };
  world.start();
  Client client(world);
  client.send(post("/v1/chat/completions", "x"));
  client.half_close();
  CHECK(client.answer().body.size() == 3000000);
  CHECK(client.wait_for_end());
  CHECK_FALSE(client.was_reset());
}

TEST_CASE("a slow reader is told of once each way, and gets its stream without gaps") {
  World world;
  world.options.limits.write_buffer_bytes = 100 * 1024;
  world.on_call = plan;
  world.start();
  Stream stream(world, post("/v1/chat/completions", "x"), 128 * 1024);  // a smaller one makes the rest crawl at the pace of delayed acknowledgements
  stream.client.stop_reading();
  size_t lines = 0;
  const auto produce = [&] {
    std::string event = "data: " + std::to_string(lines++);
    event.resize(1000, '.');
    stream.channel().write(event);
  };
  // Until the kernel's buffers are full too and it stays blocked.
  REQUIRE(world.until([&] {
    for (int i = 0; i < 50 && stream.call->blocked == stream.call->ready; ++i) produce();
    for (int i = 0; i < 10; ++i) world.turn();
    return stream.call->blocked > stream.call->ready;
  }));
  const int blocked = stream.call->blocked;
  for (int i = 0; i < 20; ++i) produce();
  world.turn();
  CHECK(stream.call->blocked == blocked);
  CHECK(stream.call->ready == blocked - 1);
  stream.client.resume_reading();
  REQUIRE(world.until([&] { return stream.call->ready == blocked; }));
  CHECK(stream.call->blocked == blocked);
  stream.channel().finish();
  const Answer answer = stream.client.answer();
  REQUIRE(answer.body.size() == lines * 1000);
  for (size_t i = 0; i < lines; ++i) REQUIRE(answer.body.compare(i * 1000, 6 + std::to_string(i).size(), "data: " + std::to_string(i)) == 0);
  CHECK(stream.call->left == 0);
}

TEST_CASE("a reader that takes nothing for write_s is dropped") {
  World world;
  world.options.limits.write_buffer_bytes = 100 * 1024;
  world.options.limits.write_s = 0.3;
  world.on_call = plan;
  world.start();
  Stream stream(world, post("/v1/chat/completions", "x"), 8192);
  stream.client.stop_reading();
  REQUIRE(world.until([&] {
    if (stream.call->blocked == stream.call->ready) stream.channel().write(std::string(10000, 'x'));
    return stream.call->left > 0;
  }));
  CHECK(stream.call->left == 1);
  CHECK(world.server->open_connections() == 0);
  REQUIRE(world.warnings.size() == 1);
  CHECK(world.warnings[0].find("http.write_s") != std::string::npos);
}

// A client that reads `bytes` at a time of an answer that is more than the kernel holds, until something has come.
bool read_slowly(World& world, Client& client, size_t bytes, Duration every, const std::function<bool()>& holds) {
  client.stop_reading();
  client.send(post("/v1/chat/completions", "x"));
  auto next = std::chrono::steady_clock::now();
  return world.until([&] {
    if (const auto now = std::chrono::steady_clock::now(); now >= next) {
      next = now + every;
      client.read_some(bytes);
    }
    return holds();
  }, 30);
}
void answer_at_length(Call& call) {
  api::Response response;
  response.body = std::string(40 << 20, 'b');
  call.channel->respond(std::move(response));
}

TEST_CASE("a reader of a few bytes now and then is dropped too") {
  World world;
  world.options.limits.write_s = 1;
  world.on_call = answer_at_length;
  world.start();
  Client client(world, 2048);  // so small that the kernel sees it read all the time
  CHECK(read_slowly(world, client, 1024, std::chrono::milliseconds(100), [&] { return !world.calls.empty() && world.server->open_connections() == 0; }));
}

TEST_CASE("a slow reader that goes on reading is not dropped, though the kernel takes nothing more from us meanwhile") {
  World world;
  world.options.limits.write_s = 1;
  world.on_call = answer_at_length;
  world.start();
  Client client(world, 64 * 1024);
  CHECK(read_slowly(world, client, 48 * 1024, std::chrono::milliseconds(200), [&] { return client.received().size() > (1 << 20) || !world.warnings.empty(); }));
  CHECK(world.warnings.empty());
  CHECK(world.server->open_connections() == 1);
}

TEST_CASE("a slow reader whose request was ended does not keep its connection") {
  World world;
  world.options.limits.write_buffer_bytes = 100 * 1024;
  world.options.limits.write_s = 3;  // long enough to fill the buffers first on a busy machine
  world.on_call = plan;
  world.start();
  Stream stream(world, post("/v1/chat/completions", "x"), 8192);
  stream.client.stop_reading();
  REQUIRE(world.until([&] {
    if (stream.call->blocked == stream.call->ready) stream.channel().write(std::string(60000, 'x'));
    for (int i = 0; i < 10; ++i) world.turn();
    return stream.call->blocked > stream.call->ready;
  }));
  stream.channel().fail(unavailable(), "data: too slow\n\n");
  CHECK(world.until([&] { return world.server->open_connections() == 0; }));
  CHECK(stream.call->left == 0);  // it had its ending
}

TEST_CASE("an exception in a keep-alive breaks the stream off, never a clean end") {
  World world;
  world.options.limits.commit_s = 0;
  world.options.limits.keepalive_s = 0.05;
  world.on_call = [](Call& call) {
    api::StreamPlan bad;
    bad.keepalive = []() -> std::string { throw std::runtime_error("bad keepalive"); };
    call.channel->plan_stream(std::move(bad));
  };
  world.start();
  Stream stream(world);
  REQUIRE(stream.client.wait_for_end());
  CHECK(stream.client.received().find("0\r\n\r\n") == std::string::npos);
  CHECK(stream.call->left == 1);
  CHECK(world.faults.size() == 1);
}
