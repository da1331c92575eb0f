// The HTTP server as the daemon uses it: listening sockets, the connections' count and end, reload. Everything runs on the io_context's
// one thread. Not here: what is answered (routes, api).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "protocol/result.hpp"
#include "server/http/observer.hpp"
#include "server/http/options.hpp"
#include "server/http/routes.hpp"

namespace boost::asio {
class io_context;
}

namespace vigil::http {

class Server {
 public:
  // `api_routes(api)` is the daemon's table.
  Server(boost::asio::io_context& io, ServerOptions options, RouteTable routes, ServerObserver observer = {});
  ~Server();  // closes what is open
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Binds and listens; connections wait in the backlog until start(). "cannot listen on 127.0.0.1:8080: address in use (host, port)".
  Result<void> bind(const std::string& host, uint16_t port);
  Result<void> adopt(int listening_descriptor);  // socket activation; may be called for several
  uint16_t port() const;                         // of the first listening socket; 0 before
  std::string address() const;                   // "127.0.0.1:43121", "[::1]:8080"
  void start();

  void set_options(ServerOptions options);       // holds for requests that begin afterwards
  size_t open_connections() const;
  void gather();                                 // a flush() comes before the end of this turn of the loop: nothing else need see to it
  void flush();                                  // writes now what the answers have gathered, else the end of the loop's turn does

  // ---- the end, in this order
  void stop_accepting();                         // closes the listening sockets; from now on every answer says Connection: close
  void close_idle();                             // connections between two requests
  void when_finished(std::function<void()> finished);  // called once, when no connection is open: perhaps at once
  void cancel_all();                             // closes all; clients of open requests count as gone

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace vigil::http
