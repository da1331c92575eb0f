// The parts that see no socket: target, authority, keys, hosts, origins, routes, parser, answers, write buffer, leaving.
#include <catch2/catch.hpp>

#include "server/api/api.hpp"
#include "server/http/answer.hpp"
#include "server/http/gate.hpp"
#include "server/http/leaving.hpp"
#include "server/http/output_buffer.hpp"
#include "server/http/request_parser.hpp"
#include "server/http/security.hpp"
#include "server/http/target.hpp"

using namespace vigil;
using namespace vigil::http;

namespace {
RequestHead head_with(HeaderList fields) {
  RequestHead head;
  head.method = "GET";
  head.target = "/health";
  head.fields = std::move(fields);
  return head;
}

struct Parsed {
  RequestParser parser;
  std::string rest;
};
Parsed parse(std::string bytes, size_t header_bytes = 4096, size_t body_bytes = 1000) {
  Parsed out{RequestParser(header_bytes), {}};
  bytes.erase(0, out.parser.feed(bytes));
  if (out.parser.progress() == RequestParser::Progress::head_complete) {
    out.parser.read_body(body_bytes);
    bytes.erase(0, out.parser.feed(bytes));
  }
  out.rest = std::move(bytes);
  return out;
}
using Progress = RequestParser::Progress;
using turn::ErrorCode;
}  // namespace

TEST_CASE("targets are split, decoded and tidied") {
  const auto target = parse_target("/v1//models/a%2Fb:c/?x=%41&y#f");
  REQUIRE(target.ok());
  CHECK(target.value().segments == std::vector<std::string>{"v1", "models", "a/b:c"});
  CHECK(target.value().path == "/v1/models/a/b:c");
  CHECK(target.value().query == "x=%41&y");
  CHECK(parse_target("/").value().path == "/");
  CHECK(parse_target("/v1/models/").value().path == "/v1/models");
  CHECK(parse_target("/a?").value().query.empty());
  CHECK(parse_target("*").value().asterisk);
  const auto absolute = parse_target("HTTP://Example.org:8080/health?q");
  REQUIRE(absolute.ok());
  CHECK(absolute.value().authority == std::string("Example.org:8080"));
  CHECK(absolute.value().path == "/health");
  CHECK(absolute.value().query == "q");
  CHECK(parse_target("http://h?q#f").value().query == "q");
  CHECK(parse_target("http://h").value().path == "/");
  for (const char* bad : {"", "health", "host:80", "/a%", "/a%4", "/%zz", "/%4g", "ftp://x/y"}) {
    INFO(bad);
    CHECK_FALSE(parse_target(bad).ok());
  }
}

TEST_CASE("authorities") {
  CHECK(parse_authority("LocalHost:80")->host == "localhost");
  CHECK(parse_authority("LocalHost:80")->port == "80");
  CHECK(parse_authority("[::1]:8080")->host == "::1");
  CHECK(parse_authority("[::1]")->port.empty());
  CHECK(parse_authority("host.")->host == "host");
  for (const char* bad : {"", ":80", "a b", "u@h", "h:8x", "h:123456", "[::1", "[::1]x", "h/..", "[g]", "::1", "host..", "."}) {
    INFO(bad);
    CHECK_FALSE(parse_authority(bad));
  }
}

TEST_CASE("loopback names cannot be imitated") {
  for (const char* good : {"localhost", "LOCALHOST", "app.localhost", "127.0.0.1", "127.9.8.7", "::1"}) CHECK(is_loopback_name(good));
  for (const char* bad : {"127.evil.com", "127.0.0.1.evil.com", "localhost.evil.com", "xlocalhost", "128.0.0.1", "", ".localhost"}) {
    INFO(bad);
    CHECK_FALSE(is_loopback_name(bad));
  }
}

TEST_CASE("keys: scheme in any case, both headers, several keys, no prefix and no empty one") {
  const std::vector<std::string> keys{"alpha-key", "beta"};
  CHECK(matching_key(head_with({{"authorization", "Bearer alpha-key"}}), keys) == 0U);
  CHECK(matching_key(head_with({{"authorization", "bEaReR   beta "}}), keys) == 1U);
  CHECK(matching_key(head_with({{"x-api-key", "beta"}}), keys) == 1U);
  CHECK(matching_key(head_with({{"authorization", "Basic zzz"}, {"x-api-key", "beta"}}), keys) == 1U);
  for (const char* bad : {"Bearer ", "Bearer", "Bearer alpha", "Bearer alpha-key2", "Bearer betabeta", "alpha-key", "Bearerbeta", "Basic beta"}) {
    INFO(bad);
    CHECK_FALSE(matching_key(head_with({{"authorization", bad}}), keys));
  }
  CHECK_FALSE(matching_key(head_with({{"x-api-key", ""}}), keys));
  CHECK_FALSE(matching_key(head_with({}), keys));
  CHECK_FALSE(matching_key(head_with({{"x-api-key", "x"}}), {""}));
}

TEST_CASE("the comparison of keys looks at every byte, wherever the first wrong one stands") {
  struct Counting {
    std::string text;
    mutable size_t looks = 0;
    size_t size() const { return text.size(); }
    char operator[](size_t i) const { return ++looks, text[i]; }
  };
  const std::string secret = "0123456789";
  for (const char* presented : {"0123456789", "X123456789", "012345678X", "XXXXXXXXXX", "0123", "01234567890123456789", "X"}) {
    const Counting bytes{presented};
    CHECK(equal_in_constant_time(bytes, secret) == (secret == presented));
    CHECK(bytes.looks == bytes.text.size());
  }
  CHECK_FALSE(equal_in_constant_time(Counting{""}, ""));
}

TEST_CASE("hosts without a key") {
  ServerOptions options;
  options.bound_host = "192.168.1.5";
  options.allowed_hosts = {"Box.lan", "proxy.example:8443"};
  for (const char* good : {"localhost:8080", "127.0.0.1", "[::1]:80", "192.168.1.5:8080", "box.lan:1", "proxy.example:8443"}) {
    INFO(good);
    CHECK(host_allowed(good, options));
  }
  for (const char* bad : {"evil.example", "192.168.1.6", "proxy.example:80", "proxy.example", "", "box.lan.evil.example"}) {
    INFO(bad);
    CHECK_FALSE(host_allowed(bad, options));
  }
  options.bound_host = "0.0.0.0";  // an address cannot be rebound, a name can
  CHECK(host_allowed("10.0.0.7:8080", options));
  CHECK(host_allowed("[fd00::7]:8080", options));
  CHECK_FALSE(host_allowed("evil.example", options));
  options.bound_host = "::1";
  CHECK_FALSE(host_allowed("10.0.0.7", options));
  options.allowed_hosts = {"*"};
  CHECK(host_allowed("evil.example", options));
}

TEST_CASE("origins without a key") {
  ServerOptions options;
  options.cors_origins = {"https://app.example/"};
  CHECK(origin_allowed("", "localhost", options));
  CHECK(origin_allowed("https://app.example", "localhost", options));
  CHECK(origin_allowed("http://localhost:3000", "127.0.0.1:8080", options));
  CHECK(origin_allowed("http://box.lan:8080", "box.lan:8080", options));
  for (const char* bad : {"null", "https://evil.example", "http://box.lan:81", "file://", "http://localhost@evil.example"}) {
    INFO(bad);
    CHECK_FALSE(origin_allowed(bad, "box.lan:8080", options));
  }
}

TEST_CASE("CORS headers go to named origins alone") {
  ServerOptions options;
  CHECK(cors_headers("https://a.example", options).empty());
  options.cors_origins = {"https://a.example"};
  CHECK(cors_headers("https://a.example", options).size() == 3);
  CHECK(cors_headers("https://b.example", options).size() == 1);  // Vary
  options.cors_origins = {"*"};
  CHECK(cors_headers("https://b.example", options).size() == 3);
}

TEST_CASE("a request is parsed in any pieces") {
  const std::string bytes = "POST /x HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nx-a: 2\r\nTransfer-Encoding: chunked\r\n\r\n"
                            "3;ext=\"v\"\r\na\xc3\xa9\r\nA\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\nGET";
  for (size_t step = 1; step <= bytes.size(); ++step) {
    RequestParser parser(4096);
    std::string waiting;
    size_t at = 0;
    while (at < bytes.size() && parser.progress() != Progress::complete) {
      waiting += bytes.substr(at, step);
      at += step;
      for (;;) {
        waiting.erase(0, parser.feed(waiting));
        if (parser.progress() != Progress::head_complete) break;
        parser.read_body(100);
      }
      REQUIRE(parser.progress() != Progress::failed);
    }
    REQUIRE(parser.progress() == Progress::complete);
    CHECK(parser.head().field("x-a") == "1");
    CHECK(parser.head().count("x-a") == 2);
    CHECK(parser.take_body() == "a\xc3\xa9" "0123456789");
  }
}

TEST_CASE("framing that could hide a second request is refused") {
  for (const char* headers :
       {"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
        "Content-Length: 3\r\nContent-Length: 4\r\n", "Content-Length: 3, 4\r\n", "Content-Length: -1\r\n", "Content-Length: +3\r\n",
        "Content-Length: 0x3\r\n", "Content-Length: 99999999999999999999999\r\n", "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n", "Bad Name: 1\r\n", "X : 1\r\n"}) {
    INFO(headers);
    const auto parsed = parse(std::string("POST / HTTP/1.1\r\nHost: h\r\n") + headers + "\r\nabcGET / HTTP/1.1\r\n\r\n");
    REQUIRE(parsed.parser.progress() == Progress::failed);
    CHECK(parsed.parser.failure().code == ErrorCode::invalid_request);
  }
  CHECK(parse("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").parser.progress() == Progress::failed);
  CHECK(parse("GET / HTTP/2.0\r\n\r\n").parser.progress() == Progress::failed);
  CHECK(parse("\x16\x03\x01\x02\x00\x01\r\n\r\n").parser.progress() == Progress::failed);
  CHECK(parse("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n").parser.progress() == Progress::failed);
  // A line feed inside a quoted extension: refused wherever the pieces are cut.
  CHECK(parse("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;a=\"b\nc\"\r\nx\r\n0\r\n\r\n").parser.progress() == Progress::failed);
  CHECK(parse("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0;a=\"b\nc\"\r\n\r\n").parser.progress() == Progress::failed);
  CHECK(parse("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1;a=\"b c\"\r\nx\r\n0\r\n\r\n").parser.progress() == Progress::complete);
}

TEST_CASE("caps: header bytes, body bytes with and without a length, chunk lines; a claim allocates nothing") {
  const std::string start = "GET / HTTP/1.1\r\nX: ";
  const size_t limit = 200;
  const std::string fits = start + std::string(limit - start.size() - 4, 'x') + "\r\n\r\n";
  REQUIRE(fits.size() == limit);
  CHECK(parse(fits, limit).parser.progress() == Progress::complete);
  const auto over = parse(start + std::string(limit - start.size() - 3, 'x') + "\r\n\r\n", limit);
  CHECK(over.parser.failure().code == ErrorCode::headers_too_large);
  CHECK(over.parser.failure().message.find("http.header_bytes") != std::string::npos);
  CHECK(parse(std::string(limit + 1, 'x'), limit).parser.failure().code == ErrorCode::headers_too_large);
  CHECK(parse(start + std::string(limit, 'x'), limit).parser.failure().code == ErrorCode::headers_too_large);

  const std::string with_length = "POST / HTTP/1.1\r\nContent-Length: ";
  CHECK(parse(with_length + "10\r\n\r\n0123456789", 4096, 10).parser.progress() == Progress::complete);
  CHECK(parse(with_length + "11\r\n\r\n01234567890", 4096, 10).parser.failure().code == ErrorCode::request_too_large);
  auto claim = parse(with_length + "1000000000000\r\n\r\nab", 4096, 0);
  CHECK(claim.parser.progress() == Progress::need_more);
  CHECK(claim.parser.take_body().capacity() < 100);

  const std::string chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  CHECK(parse(chunked + "A\r\n0123456789\r\n0\r\n\r\n", 4096, 10).parser.progress() == Progress::complete);
  CHECK(parse(chunked + "A\r\n0123456789\r\n1\r\nx", 4096, 10).parser.failure().code == ErrorCode::request_too_large);
  CHECK(parse(chunked + "FFFFFFFFFFFF\r\n0123456789x", 4096, 10).parser.failure().code == ErrorCode::request_too_large);
  CHECK(parse(chunked + "1;" + std::string(20000, 'e')).parser.progress() == Progress::failed);
  CHECK(parse(chunked + "0\r\nT: " + std::string(20000, 'e')).parser.progress() == Progress::failed);
}

TEST_CASE("bytes behind a request are left for the next") {
  auto parsed = parse("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nabGET /next HTTP/1.1\r\n\r\n");
  CHECK(parsed.parser.progress() == Progress::complete);
  CHECK(parsed.parser.take_body() == "ab");
  CHECK(parsed.rest == "GET /next HTTP/1.1\r\n\r\n");
  CHECK(parse("DELETE /x HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n").rest == "GET / HTTP/1.1\r\n\r\n");
}

TEST_CASE("keep-alive by version and header") {
  CHECK(parse("GET / HTTP/1.1\r\n\r\n").parser.head().keep_alive);
  CHECK_FALSE(parse("GET / HTTP/1.1\r\nConnection: close\r\n\r\n").parser.head().keep_alive);
  CHECK_FALSE(parse("GET / HTTP/1.0\r\n\r\n").parser.head().keep_alive);
  CHECK(parse("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").parser.head().keep_alive);
}

TEST_CASE("answers: framing, HEAD, and no header of a value's own") {
  AnswerFrame frame;
  frame.connection = Connection::keep;
  frame.request_id = "id-1";
  frame.server = "vigil/1";
  frame.date = http_date(784111777);
  CHECK(frame.date == "Sun, 06 Nov 1994 08:49:37 GMT");
  api::Response response;
  response.body = "{}";
  response.headers.emplace_back("X-Text", "a\r\nSet-Cookie: b");
  std::string answer = whole_answer(frame, response);
  CHECK(answer.find("HTTP/1.1 200 OK\r\n") == 0);
  CHECK(answer.find("\r\nSet-Cookie") == std::string::npos);
  CHECK(answer.find("Content-Length: 2\r\n") != std::string::npos);
  CHECK(answer.substr(answer.size() - 6) == "\r\n\r\n{}");
  frame.body = BodyBytes::left_out;
  const std::string head = whole_answer(frame, response);
  CHECK(head + "{}" == answer);
  frame.version = Version::http_1_0;
  CHECK(whole_answer(frame, response).find("Connection: keep-alive\r\n") != std::string::npos);
  CHECK(stream_head(frame, "text/event-stream").find("chunked") == std::string::npos);

  std::string out;
  append_stream_bytes(out, Version::http_1_1, "");
  CHECK(out.empty());
  append_stream_bytes(out, Version::http_1_1, std::string(26, 'x'));
  append_stream_end(out, Version::http_1_1);
  CHECK(out == "1a\r\n" + std::string(26, 'x') + "\r\n0\r\n\r\n");
  out.clear();
  append_stream_bytes(out, Version::http_1_0, "raw");
  append_stream_end(out, Version::http_1_0);
  CHECK(out == "raw");
}

TEST_CASE("the write buffer joins what gathers and tells of pressure once each way") {
  using Pressure = OutputBuffer::Pressure;
  OutputBuffer buffer;
  CHECK(buffer.front().empty());
  buffer.tail() += "abc";
  CHECK(buffer.front() == "abc");
  buffer.tail() += "de";
  buffer.tail() += "f";
  buffer.sent(1);
  CHECK(buffer.front() == "bc");
  CHECK(buffer.size() == 5);
  buffer.sent(2);
  CHECK(buffer.front() == "def");
  buffer.sent(3);
  CHECK(buffer.empty());

  std::string all, got;
  for (int i = 0; i < 30000; ++i) {
    const std::string piece = "piece " + std::to_string(i) + std::string(40, '.');
    buffer.tail() += piece;
    all += piece;
    REQUIRE(buffer.size() == all.size() - got.size());
    if (i % 100 == 0) {
      const std::string_view run = buffer.front().substr(0, 1000);
      got += run;
      buffer.sent(run.size());
    }
  }
  while (!buffer.empty()) {
    const std::string run(buffer.front());
    REQUIRE(run.size() < 600 * 1024);  // blocks, not one string of everything
    got += run;
    buffer.sent(run.size());
  }
  CHECK(got == all);

  buffer.tail() += std::string(11, 'x');
  CHECK(buffer.pressure(0) == Pressure::unchanged);
  CHECK(buffer.pressure(11) == Pressure::unchanged);
  CHECK(buffer.pressure(10) == Pressure::blocked);
  CHECK(buffer.pressure(10) == Pressure::unchanged);
  static_cast<void>(buffer.front());
  buffer.sent(6);
  CHECK(buffer.pressure(10) == Pressure::unchanged);
  buffer.sent(1);
  CHECK(buffer.pressure(10) == Pressure::ready);
  CHECK(buffer.pressure(10) == Pressure::unchanged);
}

TEST_CASE("the end of input: a plain answer's client has left, a stream's is probed three times") {
  using Advice = LeavingWatch::Advice;
  using Answering = LeavingWatch::Answering;
  LeavingWatch watch;
  CHECK(watch.input_ended(Answering::plain) == Advice::left);
  CHECK(watch.input_ended(Answering::finished) == Advice::stay);
  CHECK(watch.input_ended(Answering::stream) == Advice::probe);
  CHECK(watch.probe_due(Answering::stream) == Advice::probe);
  CHECK(watch.probe_due(Answering::stream) == Advice::probe);
  CHECK(watch.probe_due(Answering::stream) == Advice::stay);
  watch.next_request();
  CHECK(watch.input_ended(Answering::stream) == Advice::probe);
  CHECK(watch.probe_due(Answering::finished) == Advice::stay);
}

TEST_CASE("request ids that are taken over") {
  CHECK(acceptable_request_id("a-B_9.:/"));
  CHECK(acceptable_request_id(std::string(128, 'x')));
  for (const std::string& bad : {std::string(), std::string(129, 'x'), std::string("a b"), std::string("a\x7f"), std::string("\xc3\xa9"), std::string("a\tb")})
    CHECK_FALSE(acceptable_request_id(bad));
}

TEST_CASE("the daemon's route table") {
  RouteTable table([](const turn::RequestError& error) { return api::error_response(error); });
  const auto add = [&](const char* method, const char* pattern) { table.add({method, pattern, {}, Key::needed, BodyUse::read, {}}); };
  add("GET", "/v1/models");
  add("GET", "/v1/models/{id}");
  add("POST", "/v1/models");
  const auto match = [&](const std::string& method, const std::string& path) { return table.match(method, parse_target(path).value()); };
  CHECK(match("GET", "/v1//models/").route->pattern == "/v1/models");
  CHECK(match("HEAD", "/v1/models").route->pattern == "/v1/models");
  CHECK(match("GET", "/v1/models/a/b:c").parameter == "a/b:c");
  CHECK(match("GET", "/v1/models/a%2Fb:c").parameter == "a/b:c");
  CHECK(match("DELETE", "/v1/models").route == nullptr);
  CHECK(match("DELETE", "/v1/models").allow == "GET, HEAD, POST, OPTIONS");
  CHECK(match("GET", "/v1").allow.empty());
  CHECK(match("GET", "/V1/models").allow.empty());
  CHECK(match("get", "/v1/models").route == nullptr);
}
