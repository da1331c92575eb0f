// A connection's bytes through the request parser, the gate and the answer writer, as a session would: no crash, caps hold, and bytes give
// the same requests however they are cut. First byte: sizes of the pieces; second: keys, origins, hosts. Not here: sockets, JSON bodies.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/answer.hpp"
#include "server/http/gate.hpp"
#include "server/http/request_parser.hpp"
#include "server/http/routes.hpp"
#include "server/http/target.hpp"

namespace {

using namespace vigil;
using namespace vigil::http;
using Progress = RequestParser::Progress;

constexpr size_t kHeaderBytes = 2048;
constexpr size_t kBodyBytes = 300;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s\n", what);
  std::abort();
}

const RouteTable& routes() {
  static const RouteTable table = [] {
    RouteTable made([](const turn::RequestError& error) {
      api::Response response;
      response.status = turn::kind_of(error.code).status;
      response.body = error.message;
      return response;
    });
    const auto add = [&](const char* method, const char* pattern, Key key, BodyUse body) { made.add({method, pattern, {}, key, body, {}}); };
    add("POST", "/v1/chat/completions", Key::needed, BodyUse::read);
    add("GET", "/v1/models", Key::needed, BodyUse::ignored);
    add("GET", "/v1/models/{id}", Key::needed, BodyUse::ignored);
    add("DELETE", "/v1/requests/{id}", Key::needed, BodyUse::ignored);
    add("GET", "/health", Key::not_needed, BodyUse::ignored);
    return made;
  }();
  return table;
}

ServerOptions options_of(uint8_t choice) {
  ServerOptions options;
  options.limits.body_bytes = kBodyBytes;
  options.bound_host = (choice & 1) != 0 ? "0.0.0.0" : "127.0.0.1";
  if ((choice & 2) != 0) options.api_keys = {"key", "other"};
  if ((choice & 4) != 0) options.cors_origins = {"https://app.example"};
  if ((choice & 8) != 0) options.allowed_hosts = {"box.lan"};
  return options;
}

// One header block, no line that a value has brought along, and a body of the stated length.
void check_answer(const RequestHead& head, const Verdict& verdict, const ServerOptions& options) {
  AnswerFrame frame;
  frame.version = head.version;
  frame.request_id = acceptable_request_id(head.field("x-request-id")) ? std::string(head.field("x-request-id")) : "ours";
  frame.cors = cors_headers(head.field("origin"), options);
  frame.server = "vigil";
  const std::string bytes = whole_answer(frame, *verdict.answer);
  const size_t end = bytes.find("\r\n\r\n");
  require(end != std::string::npos, "an answer has a header block");
  const size_t lines = static_cast<size_t>(std::count(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
  const size_t expected = 4 + frame.cors.size() + verdict.answer->headers.size() + (verdict.answer->status == 204 ? 0 : 2);
  require(lines == expected, "every header is one line");
  require(verdict.answer->status == 204 || bytes.substr(end + 4) == verdict.answer->body, "the body is what was said");
  for (const char c : verdict.answer->body) require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "messages hold visible ASCII");
}

struct Outcome {
  Progress progress = Progress::need_more;
  std::string body, method, target;
  bool let_in = false;
  bool operator==(const Outcome&) const = default;
};

void check_verdict(const RequestHead& head, const Verdict& verdict, const ServerOptions& options) {
  for (const std::string& segment : verdict.target.segments) require(!segment.empty(), "no empty segment");
  if (verdict.answer) return check_answer(head, verdict, options);
  require(verdict.route != nullptr, "who is let in has a route");
  require(options.api_keys.empty() || verdict.key || verdict.route->key == Key::not_needed, "nobody comes in without a key");
  require(verdict.body_bytes > 0 && verdict.body_bytes <= kBodyBytes, "a body has its cap");
  require(head.content_length.value_or(0) <= verdict.body_bytes, "a claim over the cap is refused");
}

// The requests of a connection; `step` gives the size of each piece, 0 = all at once.
std::vector<Outcome> run(std::string_view bytes, size_t step, const ServerOptions& options) {
  std::vector<Outcome> outcomes;
  std::string input;
  size_t at = 0;
  RequestParser parser(kHeaderBytes);
  Outcome current;
  size_t cap = 0;
  for (;;) {
    const size_t used = parser.feed(input);
    require(used <= input.size(), "no more is used than was there");
    input.erase(0, used);
    current.progress = parser.progress();
    if (current.progress == Progress::need_more) {
      require(cap == 0 || parser.body_size() <= cap, "a body stays under its cap");
      if (at == bytes.size()) break;
      const size_t size = step == 0 ? bytes.size() : std::min(step, bytes.size() - at);
      input.append(bytes.substr(at, size));
      at += std::min(size, bytes.size() - at);
      continue;
    }
    if (current.progress == Progress::failed) {
      require(!parser.failure().message.empty(), "a failure says something");
      break;
    }
    if (current.method.empty()) {
      const RequestHead& head = parser.head();
      require(!head.method.empty(), "a request has a method");
      const Verdict verdict = judge(head, options, routes());
      check_verdict(head, verdict, options);
      current.method = head.method;
      current.target = head.target;
      current.let_in = !verdict.answer;
      cap = verdict.body_bytes;
      if (current.progress == Progress::head_complete) {
        if (verdict.answer) break;  // the session closes over an unread body
        parser.read_body(cap);
        continue;
      }
    }
    require(cap == 0 || parser.body_size() <= cap, "a body stays under its cap");
    current.body = parser.take_body();
    outcomes.push_back(std::exchange(current, {}));
    cap = 0;
    parser = RequestParser(kHeaderBytes);
  }
  // Small pieces make Beast look for the end of the head before it judges the head's lines: a fault may show later, never as acceptance.
  if (current.progress == Progress::failed) current.progress = Progress::need_more;
  current.body.clear();
  outcomes.push_back(current);
  return outcomes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t step = data[0] % 32 + 1;
  const ServerOptions options = options_of(data[1]);
  const std::string_view bytes(reinterpret_cast<const char*>(data + 2), std::min<size_t>(size - 2, 8192));
  require(run(bytes, 0, options) == run(bytes, step, options), "bytes give the same requests however they are cut");
  static_cast<void>(parse_target(bytes));
  if (const auto authority = parse_authority(bytes)) {
    const auto again = parse_authority(authority->host.find(':') == std::string::npos ? authority->host : "[" + authority->host + "]");
    require(again && again->host == authority->host, "an authority's host is an authority");
  }
  return 0;
}
