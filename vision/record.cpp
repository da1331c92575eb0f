// See record.hpp.
#include "vision/record.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "vision/fault.hpp"

namespace vigil::vision {
namespace {

static_assert(std::endian::native == std::endian::little, "records are written as they lie in memory");

bool write_whole(int fd, const void* data, size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t count = ::write(fd, from, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    from += count;
    bytes -= static_cast<size_t>(count);
  }
  return true;
}

}  // namespace

Result<void> write_record(const std::string& path, const RecordShape& shape, std::span<const float> values) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return fault("its embeddings cannot be written: " + std::string(std::strerror(errno)));
  const std::array<int32_t, 4> numbers{static_cast<int32_t>(shape.rows), static_cast<int32_t>(shape.columns_of_grid), static_cast<int32_t>(shape.rows_of_grid),
                                       static_cast<int32_t>(shape.width)};
  const bool written = write_whole(fd, "SVE1", 4) && write_whole(fd, numbers.data(), sizeof numbers) && write_whole(fd, values.data(), values.size_bytes());
  int why = errno;
  const bool closed = ::close(fd) == 0;
  if (written && closed) return {};
  if (written) why = errno;
  ::unlink(path.c_str());
  return fault("its embeddings cannot be written: " + std::string(std::strerror(why)));
}

}  // namespace vigil::vision
