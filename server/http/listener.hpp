// Listening sockets and the accept loop; survives a shortage of descriptors. Not here: what a connection does.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/ip/tcp.hpp>

#include "protocol/result.hpp"
#include "server/http/alarm.hpp"

namespace vigil::http {

class Listener : public std::enable_shared_from_this<Listener> {
 public:
  using Accepted = std::function<void(boost::asio::ip::tcp::socket)>;
  using Warning = std::function<void(const std::string&)>;

  Listener(boost::asio::ip::tcp::acceptor acceptor, Accepted accepted, Warning warning);

  // host: a name, an IPv4 or an IPv6 address (with brackets or without). port 0 takes a free one.
  static Result<boost::asio::ip::tcp::acceptor> open(const boost::asio::any_io_executor& executor, const std::string& host, uint16_t port);
  // A listening TCP socket from a service manager; the descriptor is ours from here on, also on failure.
  static Result<boost::asio::ip::tcp::acceptor> adopt(const boost::asio::any_io_executor& executor, int descriptor);

  uint16_t port() const;
  std::string address() const;  // "127.0.0.1" or "[::1]"
  void start();
  void pause();                 // connections wait in the kernel's backlog
  void resume();
  void stop();                  // closes the socket

 private:
  void accept();
  void on_accept(const boost::system::error_code& ec, boost::asio::ip::tcp::socket socket);

  boost::asio::ip::tcp::acceptor acceptor_;
  Accepted accepted_;
  Warning warning_;
  Alarm back_off_;
  bool started_ = false, paused_ = false, accepting_ = false;
  std::chrono::steady_clock::time_point warned_at_ = std::chrono::steady_clock::now() - std::chrono::hours(1);
};

}  // namespace vigil::http
