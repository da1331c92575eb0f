// Accepting connections.
#include "server/http/listener.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/ip/v6_only.hpp>

namespace vigil::http {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr Duration kBackOff = std::chrono::milliseconds(100);
constexpr Duration kWarnEvery = std::chrono::seconds(10);

std::string named(const std::string& host, uint16_t port) {
  const bool bare_ipv6 = host.find(':') != std::string::npos && host.front() != '[';
  return (bare_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string reason(const error_code& ec) {
  if (ec == asio::error::address_in_use) return "address in use";
  if (ec == asio::error::access_denied) return "permission denied";
  if (ec == boost::system::errc::address_not_available) return "this machine has no such address";
  if (ec == asio::error::host_not_found || ec == asio::error::host_not_found_try_again) return "no such host";
  return ec.message();
}

Error cannot_listen(const std::string& host, uint16_t port, const error_code& ec) {
  return Error{"cannot listen on " + named(host, port) + ": " + reason(ec) + " (host, port)"};
}

Result<tcp::endpoint> endpoint_of(const asio::any_io_executor& executor, const std::string& host, uint16_t port) {
  std::string bare = host;
  if (bare.size() > 2 && bare.front() == '[' && bare.back() == ']') bare = bare.substr(1, bare.size() - 2);
  error_code ec;
  const auto address = asio::ip::make_address(bare, ec);
  if (!ec) return tcp::endpoint(address, port);
  if (bare.empty()) return Error{"cannot listen: host is empty; 127.0.0.1 serves this machine, 0.0.0.0 every interface (host, port)"};
  tcp::resolver resolver(executor);
  const auto found = resolver.resolve(bare, std::to_string(port), tcp::resolver::passive, ec);
  if (ec || found.empty()) return cannot_listen(host, port, ec ? ec : error_code(asio::error::host_not_found));
  for (const auto& entry : found)
    if (entry.endpoint().address().is_v4()) return entry.endpoint();
  return found.begin()->endpoint();
}

}  // namespace

Listener::Listener(tcp::acceptor acceptor, Accepted accepted, Warning warning)
    : acceptor_(std::move(acceptor)), accepted_(std::move(accepted)), warning_(std::move(warning)), back_off_(acceptor_.get_executor()) {
  // Else Asio would swallow an aborted connection and wait for the next to arrive, although others may have been waiting behind it.
  error_code ignored;
  acceptor_.set_option(asio::socket_base::enable_connection_aborted(true), ignored);
}

Result<tcp::acceptor> Listener::open(const asio::any_io_executor& executor, const std::string& host, uint16_t port) {
  const auto endpoint = endpoint_of(executor, host, port);
  if (!endpoint) return Error{endpoint.error()};
  tcp::acceptor acceptor(executor);
  error_code ec;
  if (acceptor.open(endpoint.value().protocol(), ec)) return cannot_listen(host, port, ec);
  ::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
  if (acceptor.set_option(tcp::acceptor::reuse_address(true), ec)) return cannot_listen(host, port, ec);
  if (endpoint.value().address().is_v6() && acceptor.set_option(asio::ip::v6_only(false), ec)) return cannot_listen(host, port, ec);
  if (acceptor.bind(endpoint.value(), ec)) return cannot_listen(host, port, ec);
  if (acceptor.listen(asio::socket_base::max_listen_connections, ec)) return cannot_listen(host, port, ec);
  return acceptor;
}

Result<tcp::acceptor> Listener::adopt(const asio::any_io_executor& executor, int descriptor) {
  const auto refuse = [descriptor](const std::string& why) {
    ::close(descriptor);
    return Error{"the socket that was handed over (LISTEN_FDS, descriptor " + std::to_string(descriptor) + ") " + why};
  };
  int listening = 0;
  socklen_t size = sizeof listening;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) != 0 || listening == 0)
    return refuse("is not a listening stream socket");
  int domain = 0;
  size = sizeof domain;
  if (::getsockopt(descriptor, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || (domain != AF_INET && domain != AF_INET6))
    return refuse("is not a TCP socket");
  ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  tcp::acceptor acceptor(executor);
  error_code ec;
  if (acceptor.assign(domain == AF_INET ? tcp::v4() : tcp::v6(), descriptor, ec)) return refuse("cannot be used: " + ec.message());
  return acceptor;
}

uint16_t Listener::port() const {
  error_code ec;
  const auto endpoint = acceptor_.local_endpoint(ec);
  return ec ? uint16_t{0} : endpoint.port();
}

std::string Listener::address() const {
  error_code ec;
  const auto endpoint = acceptor_.local_endpoint(ec);
  if (ec) return {};
  const std::string text = endpoint.address().to_string();
  return endpoint.address().is_v6() ? "[" + text + "]" : text;
}

void Listener::start() {
  started_ = true;
  accept();
}

void Listener::pause() { paused_ = true; }

void Listener::resume() {
  if (!std::exchange(paused_, false)) return;
  accept();
}

void Listener::stop() {
  started_ = false;
  back_off_.clear();
  error_code ignored;
  acceptor_.close(ignored);
}

void Listener::accept() {
  if (!started_ || paused_ || accepting_ || !acceptor_.is_open()) return;
  accepting_ = true;
  acceptor_.async_accept([self = shared_from_this()](const error_code& ec, tcp::socket socket) {
    self->accepting_ = false;
    self->on_accept(ec, std::move(socket));
  });
}

void Listener::on_accept(const error_code& ec, tcp::socket socket) {
  if (!started_ || ec == asio::error::operation_aborted) return;
  if (!ec) {
    try {
      accepted_(std::move(socket));
    } catch (const std::exception& error) {
      if (warning_) warning_(std::string("a connection could not be served: ") + error.what());
    }
    return accept();
  }
  // The peer's own hurry (on Linux also some errors of the network) costs nothing; a shortage would repeat at once, so it waits until descriptors have come free.
  if (ec == asio::error::connection_aborted || ec == asio::error::connection_reset || ec == boost::system::errc::protocol_error) return accept();
  const auto now = std::chrono::steady_clock::now();
  if (warning_ && now - warned_at_ >= kWarnEvery) {
    warned_at_ = now;
    warning_("cannot accept connections for now: " + ec.message() + " (open-file limit: LimitNOFILE, http.connections)");
  }
  back_off_.set(kBackOff, [self = shared_from_this()] { self->accept(); });
}

}  // namespace vigil::http
