// write(2) until the line is out; SIGPIPE must be ignored by the program.
#include "engine/output.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace vigil::engine {

void Output::line(const protocol::EngineLine& line) {
  const std::string text = protocol::encode(line);
  const std::lock_guard lock(mutex_);
  std::string_view left = text;
  while (!broken_ && !left.empty()) {
    const ssize_t written = ::write(fd_, left.data(), left.size());
    if (written >= 0) {
      left.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN) {  // the other end may have made the pipe non-blocking
      pollfd ready{fd_, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      broken_ = true;
      on_broken_();
    }
  }
}

}  // namespace vigil::engine
