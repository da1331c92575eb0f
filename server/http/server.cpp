// Joins listeners and sessions; admits connections under http.connections.
#include "server/http/server.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "server/http/listener.hpp"
#include "server/http/session.hpp"

namespace vigil::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// Connections beyond http.connections that are told so; those after them wait in the kernel's backlog.
constexpr size_t kRefusedAtOnce = 64;

void set_option(int descriptor, int level, int name, int value) { ::setsockopt(descriptor, level, name, &value, sizeof value); }

// A vanished peer is noticed by probes when idle (contract: 10 s, 3 probes) and by unacknowledged bytes when writing.
void tune(tcp::socket& socket, const config::Http& limits) {
  const int descriptor = socket.native_handle();
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  set_option(descriptor, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(descriptor, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(descriptor, IPPROTO_TCP, TCP_KEEPCNT, 3);
  if (limits.write_s > 0)
    set_option(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(std::clamp(limits.write_s * 1000.0, 1.0, 2e9)));
}

std::string random_prefix(std::random_device& random) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text = "req-";
  for (int i = 0; i < 12; ++i) text.push_back(digits[random() % 16]);
  return text + "-";
}

}  // namespace

struct Server::State : std::enable_shared_from_this<Server::State> {
  State(asio::io_context& io_context, ServerOptions options, RouteTable routes, ServerObserver observer)
      : io(io_context), context(std::make_shared<SessionContext>(
                            SessionContext{std::make_shared<const ServerOptions>(std::move(options)), std::move(routes),
                                           std::move(observer), {}, {}, {}, {}, false, false, 0, 0, 0, {}, 0, false})) {
    std::random_device random;
    context->id_prefix = random_prefix(random);
    context->key_salt = (static_cast<uint64_t>(random()) << 32) ^ random();
  }

  void add(tcp::acceptor acceptor);
  void admit(tcp::socket socket);
  bool evict_idle();
  void on_closed();
  std::vector<std::shared_ptr<Session>> sessions() const;

  asio::io_context& io;
  std::shared_ptr<SessionContext> context;
  std::vector<std::shared_ptr<Listener>> listeners;
  std::function<void()> finished;
  bool paused = false;
};

void Server::State::add(tcp::acceptor acceptor) {
  const std::weak_ptr<State> weak = weak_from_this();
  listeners.push_back(std::make_shared<Listener>(
      std::move(acceptor),
      [weak](tcp::socket socket) {
        if (const auto state = weak.lock()) state->admit(std::move(socket));
      },
      context->observer.warning));
}

std::vector<std::shared_ptr<Session>> Server::State::sessions() const {
  std::vector<std::shared_ptr<Session>> copy;
  copy.reserve(context->open.size());
  for (const auto& [key, session] : context->open) copy.push_back(session);
  return copy;
}

// A connection between two requests gives way to one that wants something.
bool Server::State::evict_idle() {
  for (const auto& [key, session] : context->open) {
    if (!session->idle()) continue;
    const auto chosen = session;  // close() takes it out of the map
    chosen->close();
    return true;
  }
  return false;
}

void Server::State::admit(tcp::socket socket) {
  const config::Http& limits = context->options->limits;
  const auto limit = static_cast<size_t>(std::max<int64_t>(limits.connections, 0));
  auto admission = Session::Admission::serve;
  if (limit > 0 && context->open.size() >= limit && !evict_idle()) admission = Session::Admission::refuse;
  tune(socket, limits);
  auto session = std::make_shared<Session>(std::move(socket), context);
  context->open.emplace(session.get(), session);
  session->start(admission);
  if (limit > 0 && context->open.size() >= limit + kRefusedAtOnce) {
    paused = true;
    for (const auto& listener : listeners) listener->pause();
  }
}

void Server::State::on_closed() {
  const auto limit = static_cast<size_t>(std::max<int64_t>(context->options->limits.connections, 0));
  if (paused && (limit == 0 || context->open.size() < limit + kRefusedAtOnce)) {
    paused = false;
    for (const auto& listener : listeners) listener->resume();
  }
  if (finished && context->open.empty()) asio::post(io, std::exchange(finished, nullptr));
}

Server::Server(asio::io_context& io, ServerOptions options, RouteTable routes, ServerObserver observer)
    : state_(std::make_shared<State>(io, std::move(options), std::move(routes), std::move(observer))) {
  state_->context->closed = [weak = std::weak_ptr<State>(state_)] {
    if (const auto state = weak.lock()) state->on_closed();
  };
}

Server::~Server() {
  stop_accepting();
  cancel_all();
}

Result<void> Server::bind(const std::string& host, uint16_t port) {
  auto acceptor = Listener::open(state_->io.get_executor(), host, port);
  if (!acceptor) return Error{acceptor.error()};
  state_->add(std::move(acceptor.value()));
  return {};
}

Result<void> Server::adopt(int listening_descriptor) {
  auto acceptor = Listener::adopt(state_->io.get_executor(), listening_descriptor);
  if (!acceptor) return Error{acceptor.error()};
  state_->add(std::move(acceptor.value()));
  return {};
}

uint16_t Server::port() const { return state_->listeners.empty() ? uint16_t{0} : state_->listeners.front()->port(); }

std::string Server::address() const {
  if (state_->listeners.empty()) return {};
  return state_->listeners.front()->address() + ":" + std::to_string(port());
}

void Server::start() {
  for (const auto& listener : state_->listeners) listener->start();
}

void Server::set_options(ServerOptions options) {
  state_->context->options = std::make_shared<const ServerOptions>(std::move(options));
}

size_t Server::open_connections() const { return state_->context->open.size(); }

void Server::gather() { state_->context->gathering = true; }

void Server::flush() {
  state_->context->gathering = false;
  Session::flush_all(*state_->context);
}

void Server::stop_accepting() {
  state_->context->draining = true;
  for (const auto& listener : state_->listeners) listener->stop();
}

void Server::close_idle() {
  for (const auto& session : state_->sessions())
    if (session->idle()) session->close();
}

void Server::when_finished(std::function<void()> finished) {
  if (state_->context->open.empty()) return asio::post(state_->io, std::move(finished));
  state_->finished = std::move(finished);
}

void Server::cancel_all() {
  for (const auto& session : state_->sessions()) session->close();
}

}  // namespace vigil::http
