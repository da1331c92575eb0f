// What a service manager hears on its notify socket, and the sockets that it hands over.
#include <catch2/catch.hpp>

#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "server/observe/notify.hpp"

using namespace vigil;
using namespace vigil::observe;

namespace {

class NotifySocket {
 public:
  NotifySocket() {
    char folder[] = "/tmp/vigil-notify-XXXXXX";
    folder_ = ::mkdtemp(folder);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = folder_ + "/socket";
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    fd_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    REQUIRE(::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    ::setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  ~NotifySocket() {
    ::close(fd_);
    ::unsetenv("NOTIFY_SOCKET");
    std::filesystem::remove_all(folder_);
  }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;
  std::string next() {  // a datagram is there as soon as it is sent
    char buffer[4096];
    const ssize_t got = ::recv(fd_, buffer, sizeof buffer, 0);
    return got < 0 ? "nothing" : std::string(buffer, static_cast<size_t>(got));
  }

 private:
  std::string folder_;
  int fd_ = -1;
};

// Puts a descriptor at number 3, where LISTEN_FDS begins, and what was there back afterwards.
class AtThree {
 public:
  explicit AtThree(int fd) {
    const int high = ::fcntl(fd, F_DUPFD_CLOEXEC, 100);  // it may be 3 already
    ::close(fd);
    saved_ = ::fcntl(3, F_DUPFD_CLOEXEC, 101);
    ::dup2(high, 3);
    ::close(high);
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", "1", 1);
  }
  ~AtThree() {
    if (saved_ >= 0) {
      ::dup2(saved_, 3);
      ::close(saved_);
    } else {
      ::close(3);
    }
    ::unsetenv("LISTEN_PID");
    ::unsetenv("LISTEN_FDS");
  }
  AtThree(const AtThree&) = delete;
  AtThree& operator=(const AtThree&) = delete;

 private:
  int saved_ = -1;
};

enum class Listening { yes, no };

int tcp_socket(Listening listening) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  if (listening == Listening::yes) REQUIRE(::listen(fd, 1) == 0);
  return fd;
}

}  // namespace

TEST_CASE("the service manager hears the daemon's life") {
  NotifySocket socket;
  notify_ready("listening");
  CHECK(socket.next() == "READY=1\nSTATUS=listening");
  notify_status("2 requests\nREADY=1");
  CHECK(socket.next() == "STATUS=2 requests READY=1");  // a line break cannot begin another assignment
  notify_watchdog();
  CHECK(socket.next() == "WATCHDOG=1");
  timespec before{};
  clock_gettime(CLOCK_MONOTONIC, &before);
  notify_reloading();
  const std::string reloading = socket.next();
  INFO(reloading);
  const std::string start = "RELOADING=1\nMONOTONIC_USEC=";
  REQUIRE(reloading.starts_with(start));
  CHECK(std::stoll(reloading.substr(start.size())) >= static_cast<long long>(before.tv_sec) * 1'000'000);
  notify_stopping("draining");
  CHECK(socket.next() == "STOPPING=1\nSTATUS=draining");
  CHECK(socket.next() == "nothing");
}

TEST_CASE("without a service manager nothing happens") {
  ::unsetenv("NOTIFY_SOCKET");
  ::unsetenv("WATCHDOG_USEC");
  ::unsetenv("LISTEN_FDS");
  notify_ready("");
  notify_watchdog();
  CHECK_FALSE(watchdog_interval());
  const auto sockets = take_listening_sockets();
  REQUIRE(sockets.ok());
  CHECK(sockets->empty());
}

TEST_CASE("the watchdog is told twice in its limit, and only by the process that is meant") {
  ::setenv("WATCHDOG_USEC", "30000000", 1);
  CHECK(watchdog_interval() == Duration(std::chrono::seconds(15)));
  ::setenv("WATCHDOG_PID", std::to_string(::getpid()).c_str(), 1);
  CHECK(watchdog_interval() == Duration(std::chrono::seconds(15)));
  ::setenv("WATCHDOG_PID", "1", 1);
  CHECK_FALSE(watchdog_interval());
  ::unsetenv("WATCHDOG_PID");
  ::unsetenv("WATCHDOG_USEC");
}

TEST_CASE("a listening socket is taken once, closed on exec, and its variables are used up") {
  const AtThree three(tcp_socket(Listening::yes));
  const auto sockets = take_listening_sockets();
  INFO((sockets.ok() ? "" : sockets.error()));
  REQUIRE(sockets.ok());
  CHECK((*sockets == std::vector<int>{3}));
  CHECK((::fcntl(3, F_GETFD) & FD_CLOEXEC) != 0);
  CHECK(::getenv("LISTEN_FDS") == nullptr);
  CHECK(::getenv("LISTEN_PID") == nullptr);
}

TEST_CASE("a descriptor that is no listening stream socket is refused by number") {
  const AtThree three(tcp_socket(Listening::no));
  const auto sockets = take_listening_sockets();
  REQUIRE_FALSE(sockets.ok());
  CHECK(sockets.error().find("descriptor 3") != std::string::npos);
}

TEST_CASE("sockets for another process are not ours") {
  const AtThree three(tcp_socket(Listening::yes));
  ::setenv("LISTEN_PID", "1", 1);
  const auto sockets = take_listening_sockets();
  REQUIRE(sockets.ok());
  CHECK(sockets->empty());
}
