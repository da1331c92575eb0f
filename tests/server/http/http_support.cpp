// The loop, the scripted api and the raw client of the HTTP tests.
#include "http_support.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cstdlib>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>

#include "server/api/api.hpp"

namespace vigil::http::test {
namespace {
namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

class ScriptedExchange final : public api::Exchange {
 public:
  explicit ScriptedExchange(std::shared_ptr<Call> call) : call_(std::move(call)) {}
  ~ScriptedExchange() override { call_->exchange_gone = true; }
  void client_left() override { ++call_->left; }
  void reader_blocked() override { ++call_->blocked; }
  void reader_ready() override { ++call_->ready; }

 private:
  std::shared_ptr<Call> call_;
};
}  // namespace

struct World::Impl {
  asio::io_context io{1};
};

struct Client::Impl : std::enable_shared_from_this<Client::Impl> {
  explicit Impl(asio::io_context& io) : socket(io) {}
  void read() {
    if (reading || stopped || ended) return;
    reading = true;
    socket.async_read_some(asio::buffer(scratch), [self = shared_from_this()](const error_code& ec, size_t n) {
      self->reading = false;
      if (ec) {
        self->ended = true;
        self->reset = ec != asio::error::eof;
        return;
      }
      self->received.append(self->scratch.data(), n);
      self->read();
    });
  }
  void write() {
    if (writing || outgoing.empty()) return;
    writing = true;
    socket.async_write_some(asio::buffer(outgoing), [self = shared_from_this()](const error_code& ec, size_t n) {
      self->writing = false;
      if (ec) return self->outgoing.clear();
      self->outgoing.erase(0, n);
      self->write();
    });
  }
  tcp::socket socket;
  std::array<char, 65536> scratch{};
  std::string received, outgoing;
  bool reading = false, writing = false, stopped = false, ended = false, reset = false;
};

World::World() : routes([](const turn::RequestError& error) { return api::error_response(error); }), impl_(std::make_unique<Impl>()) {
  options.bound_host = "127.0.0.1";
  options.version = "9.9.9";
  const Handler scripted = [this](api::HttpRequest request, std::shared_ptr<api::Channel> channel) -> std::unique_ptr<api::Exchange> {
    auto call = std::make_shared<Call>();
    call->request = std::move(request);
    call->channel = std::move(channel);
    calls.push_back(call);
    if (on_call) on_call(*call);
    return std::make_unique<ScriptedExchange>(std::move(call));
  };
  const Handler echo = [](api::HttpRequest request, std::shared_ptr<api::Channel> channel) -> std::unique_ptr<api::Exchange> {
    api::Response response;
    response.body = request.method + " " + request.path + " [" + request.path_parameter + "]";
    channel->respond(std::move(response));
    return nullptr;
  };
  routes.add({"POST", "/v1/chat/completions", scripted, Key::needed, BodyUse::read, {}});
  routes.add({"GET", "/v1/slow", scripted, Key::needed, BodyUse::ignored, {}});
  routes.add({"GET", "/v1/models", echo, Key::needed, BodyUse::ignored, {}});
  routes.add({"GET", "/v1/models/{id}", echo, Key::needed, BodyUse::ignored, {}});
  routes.add({"DELETE", "/v1/requests/{id}", echo, Key::needed, BodyUse::ignored, {}});
  routes.add({"GET", "/health", echo, Key::not_needed, BodyUse::ignored, {}});
}

World::~World() {
  server.reset();
  impl_->io.restart();
  impl_->io.poll();
}

void World::start() {
  ServerObserver observer;
  observer.finished = [this](const AccessRecord& record) { finished.push_back(record); };
  observer.warning = [this](const std::string& line) { warnings.push_back(line); };
  observer.fault = [this](const std::string& line) { faults.push_back(line); };
  server = std::make_unique<Server>(impl_->io, options, routes, observer);
  const auto bound = server->bind("127.0.0.1", 0);
  REQUIRE(bound.ok());
  server->start();
}

bool World::until(const std::function<bool()>& holds, double limit_s) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit_s);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    impl_->io.restart();
    impl_->io.run_one_for(std::chrono::milliseconds(20));
  }
  return true;
}

void World::turn() {
  impl_->io.restart();
  impl_->io.poll();
}

Client::Client(World& world, int receive_buffer_bytes) : impl_(std::make_shared<Impl>(world.impl_->io)), world_(world) {
  impl_->socket.open(tcp::v4());
  if (receive_buffer_bytes > 0) impl_->socket.set_option(tcp::socket::receive_buffer_size(receive_buffer_bytes));
  impl_->socket.connect({asio::ip::address_v4::loopback(), world.server->port()});
  impl_->read();
}
Client::~Client() { close(); }

void Client::send(const std::string& bytes) {
  impl_->outgoing += bytes;
  impl_->write();
}
void Client::half_close() {
  REQUIRE(world_.until([&] { return impl_->outgoing.empty(); }));
  impl_->socket.shutdown(tcp::socket::shutdown_send);
}
void Client::close() {
  error_code ignored;
  impl_->socket.close(ignored);
}
void Client::reset() {
  impl_->socket.set_option(asio::socket_base::linger(true, 0));
  close();
}
void Client::stop_reading() {
  impl_->stopped = true;
  error_code ignored;
  impl_->socket.cancel(ignored);
  REQUIRE(world_.until([&] { return !impl_->reading; }));
  impl_->ended = false;
}
void Client::resume_reading() {
  impl_->stopped = false;
  impl_->read();
}
void Client::read_some(size_t bytes) {
  error_code ec;
  impl_->socket.non_blocking(true, ec);
  const size_t n = impl_->socket.read_some(asio::buffer(impl_->scratch.data(), std::min(bytes, impl_->scratch.size())), ec);
  impl_->received.append(impl_->scratch.data(), n);
}
const std::string& Client::received() const { return impl_->received; }
bool Client::ended() const { return impl_->ended; }
bool Client::was_reset() const { return impl_->reset; }
uint16_t Client::port() const { return impl_->socket.local_endpoint().port(); }
size_t Client::unsent() const { return impl_->outgoing.size(); }

Answer Client::answer(bool head_only) {
  std::optional<Answer> answer;
  const bool came = world_.until([&] { return (answer = take_answer(impl_->received, head_only)) || impl_->ended; });
  if (!answer) answer = take_answer(impl_->received, head_only);
  INFO("received so far: " << impl_->received.substr(0, 2000));
  REQUIRE(came);
  REQUIRE(answer);
  return *answer;
}
bool Client::wait_for_text(const std::string& text) {
  return world_.until([&] { return impl_->received.find(text) != std::string::npos; });
}
bool Client::wait_for_end() {
  return world_.until([&] { return impl_->ended; });
}

std::string Answer::header(const std::string& name) const {
  const std::string wanted = "\r\n" + lower(name) + ": ";
  const size_t at = lower(head).find(wanted);
  if (at == std::string::npos) return {};
  const size_t begin = at + wanted.size();
  return head.substr(begin, head.find("\r\n", begin) - begin);
}
bool Answer::has(const std::string& name) const { return lower(head).find("\r\n" + lower(name) + ": ") != std::string::npos; }

std::optional<Answer> take_answer(std::string& bytes, bool head_only) {
  const size_t end = bytes.find("\r\n\r\n");
  if (end == std::string::npos) return std::nullopt;
  Answer answer;
  answer.head = bytes.substr(0, end + 2);
  answer.status = std::atoi(answer.head.c_str() + 9);
  size_t at = end + 4;
  if (answer.status == 100 || answer.status == 204 || head_only) {
    answer.complete = true;
  } else if (answer.header("transfer-encoding") == "chunked") {
    answer.chunked = true;
    for (;;) {
      const size_t line = bytes.find("\r\n", at);
      if (line == std::string::npos) return std::nullopt;
      const auto size = std::strtoul(bytes.c_str() + at, nullptr, 16);
      if (bytes.size() < line + 2 + size + 2) return std::nullopt;
      answer.body += bytes.substr(line + 2, size);
      at = line + 2 + size + 2;
      if (size == 0) break;
    }
    answer.complete = true;
  } else if (answer.has("content-length")) {
    const auto size = static_cast<size_t>(std::atoll(answer.header("content-length").c_str()));
    if (bytes.size() < at + size) return std::nullopt;
    answer.body = bytes.substr(at, size);
    at += size;
    answer.complete = true;
  } else {
    answer.body = bytes.substr(at);
    at = bytes.size();
  }
  bytes.erase(0, at);
  return answer;
}

std::string get(const std::string& path, const std::string& headers) {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n";
}
std::string post(const std::string& path, const std::string& body, const std::string& headers) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body;
}
api::StreamPlan event_stream() {
  api::StreamPlan plan;
  plan.keepalive = [] { return std::string(": waiting\n\n"); };
  return plan;
}

}  // namespace vigil::http::test
