// See picture_file.hpp.
#include "vision/picture_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "vision/fault.hpp"

namespace vigil::vision {
namespace {

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Result<std::vector<uint8_t>> read_picture_file(const std::string& path, int64_t most_bytes) {
  // Not blocking: a FIFO in its place would hold the open for ever.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)};
  if (file.fd < 0) return fault("the picture's file cannot be opened: " + std::string(std::strerror(errno)));
  struct stat info {};
  if (::fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode)) return fault("the picture's file is no regular file");
  if (info.st_size > most_bytes) {
    return Error{"the picture's file has " + std::to_string(info.st_size) + " bytes, over the limit of " + std::to_string(most_bytes) + " (--image-bytes)"};
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(info.st_size));
  size_t got = 0;
  while (got < bytes.size()) {
    const ssize_t count = ::read(file.fd, bytes.data() + got, bytes.size() - got);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fault("the picture's file cannot be read: " + std::string(std::strerror(errno)));
    if (count == 0) break;
    got += static_cast<size_t>(count);
  }
  bytes.resize(got);
  return bytes;
}

}  // namespace vigil::vision
