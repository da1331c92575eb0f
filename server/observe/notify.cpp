// Thin over libsystemd. The environment is left alone (children get theirs filtered), but for LISTEN_*, which are used up.
#include "server/observe/notify.hpp"

#include <cstdint>
#include <cstring>
#include <ctime>
#include <sys/socket.h>

#include <systemd/sd-daemon.h>

namespace vigil::observe {

namespace {

// A line break in a status would begin another assignment.
std::string one_line(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  return text;
}

void notify(const std::string& state) { sd_notify(0, state.c_str()); }

}  // namespace

void notify_ready(const std::string& status) { notify("READY=1\nSTATUS=" + one_line(status)); }
void notify_status(const std::string& status) { notify("STATUS=" + one_line(status)); }
void notify_stopping(const std::string& status) { notify("STOPPING=1\nSTATUS=" + one_line(status)); }
void notify_watchdog() { notify("WATCHDOG=1"); }

void notify_reloading() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  const int64_t usec = static_cast<int64_t>(time.tv_sec) * 1'000'000 + time.tv_nsec / 1000;
  notify("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(usec));
}

std::optional<Duration> watchdog_interval() {
  uint64_t usec = 0;
  if (sd_watchdog_enabled(0, &usec) <= 0 || usec == 0) return std::nullopt;
  return std::chrono::microseconds(usec / 2);
}

Result<std::vector<int>> take_listening_sockets() {
  const int count = sd_listen_fds(1);
  if (count < 0) return Error{std::string("LISTEN_FDS cannot be used: ") + std::strerror(-count)};
  std::vector<int> sockets;
  for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; ++fd) {
    if (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0) {
      return Error{"LISTEN_FDS: descriptor " + std::to_string(fd) + " is not a listening stream socket"};
    }
    sockets.push_back(fd);
  }
  return sockets;
}

}  // namespace vigil::observe
