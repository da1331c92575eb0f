// See embeddings_file.hpp. A record comes from a child and is untrusted: nothing is allocated after its own numbers.
#include "server/process/embeddings_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>

#include "server/process/unique_fd.hpp"

namespace vigil::process {
namespace {

static_assert(std::endian::native == std::endian::little, "records are read and written as they lie in memory");

constexpr std::string_view magic = "SVE1";
constexpr size_t block_bytes = 256 * 1024;

std::string system_words() { return std::strerror(errno); }

// As many bytes as asked for, fewer at the end of the file; -1 on failure.
ssize_t read_whole(int fd, char* into, size_t bytes) {
  size_t got = 0;
  while (got < bytes) {
    const ssize_t n = ::read(fd, into + got, bytes - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    got += static_cast<size_t>(n);
  }
  return static_cast<ssize_t>(got);
}

bool write_whole(int fd, const char* from, size_t bytes) {
  while (bytes > 0) {
    const ssize_t n = ::write(fd, from, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    from += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

std::string shape_text(const RecordShape& shape) {
  return std::to_string(shape.rows) + " rows (" + std::to_string(shape.nx) + " x " + std::to_string(shape.ny) + ") of width " +
         std::to_string(shape.width);
}

int64_t bytes_of(const RecordShape& shape) {
  return record_header_bytes + shape.rows * shape.width * static_cast<int64_t>(sizeof(float));
}

Result<RecordShape> read_header(int fd) {
  std::array<char, record_header_bytes> header{};
  const ssize_t got = read_whole(fd, header.data(), header.size());
  if (got < 0) return Error{"it cannot be read: " + system_words()};
  if (got < record_header_bytes) return Error{"it has " + std::to_string(got) + " bytes, less than the header of a record"};
  if (std::string_view(header.data(), magic.size()) != magic) return Error{"it does not begin with SVE1"};
  std::array<int32_t, 4> numbers{};
  std::memcpy(numbers.data(), header.data() + magic.size(), sizeof numbers);
  return RecordShape{numbers[0], numbers[1], numbers[2], numbers[3]};
}

Result<void> check_numbers(int fd, const RecordShape& shape) {
  constexpr size_t block_floats = block_bytes / sizeof(float);
  const auto block = std::make_unique<float[]>(block_floats);
  int64_t left = shape.rows * shape.width, at = 0;
  while (left > 0) {
    const auto many = static_cast<size_t>(std::min<int64_t>(left, block_floats));
    const ssize_t got = read_whole(fd, reinterpret_cast<char*>(block.get()), many * sizeof(float));
    if (got < 0) return Error{"it cannot be read: " + system_words()};
    if (got != static_cast<ssize_t>(many * sizeof(float))) return Error{"it became shorter while it was read"};
    const float* end = block.get() + many;
    const float* wrong = std::find_if(static_cast<const float*>(block.get()), end, [](float value) { return !std::isfinite(value); });
    if (wrong != end) {
      const int64_t place = at + (wrong - block.get());
      return Error{"row " + std::to_string(place / shape.width) + " holds a number that is not finite at column " + std::to_string(place % shape.width)};
    }
    left -= static_cast<int64_t>(many);
    at += static_cast<int64_t>(many);
  }
  return {};
}

Result<void> append_file(int to, const std::string& path, char* block) {
  const UniqueFd from(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!from) return Error{"a record cannot be opened: " + system_words()};
  while (true) {
    const ssize_t got = read_whole(from.get(), block, block_bytes);
    if (got < 0) return Error{"a record cannot be read: " + system_words()};
    if (got == 0) return {};
    if (!write_whole(to, block, static_cast<size_t>(got))) return Error{"their file cannot be written: " + system_words()};
  }
}

}  // namespace

Result<void> check_shape(const RecordShape& promised) {
  if (promised.rows < 1 || promised.rows > max_record_rows) {
    return Error{std::to_string(promised.rows) + " embedding rows for one picture; 1 to " + std::to_string(max_record_rows) + " are allowed"};
  }
  if (promised.nx < 0 || promised.ny < 0 || promised.nx > max_record_rows || promised.ny > max_record_rows) {
    return Error{"a grid of " + std::to_string(promised.nx) + " x " + std::to_string(promised.ny)};
  }
  if (promised.width < 1) return Error{"a width of " + std::to_string(promised.width)};
  if (promised.rows > (max_record_bytes - record_header_bytes) / static_cast<int64_t>(sizeof(float)) / promised.width) {
    return Error{shape_text(promised) + " are over the limit of " + std::to_string(max_record_bytes) + " bytes a picture"};
  }
  return {};
}

Result<int64_t> check_record(const std::string& path, const RecordShape& promised) {
  if (auto good = check_shape(promised); !good) return Error{good.error()};
  // Not blocking: a FIFO in its place would hold the open for ever.
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return Error{errno == ENOENT ? std::string("it is not there") : "it cannot be opened: " + system_words()};
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return Error{"it is not a file"};
  auto shape = read_header(file.get());
  if (!shape) return Error{shape.error()};
  if (*shape != promised) return Error{"it holds " + shape_text(*shape) + "; READY and OK said " + shape_text(promised)};
  if (info.st_size != bytes_of(promised)) {
    return Error{"it has " + std::to_string(info.st_size) + " bytes; " + shape_text(promised) + " take " + std::to_string(bytes_of(promised))};
  }
  if (auto good = check_numbers(file.get(), promised); !good) return Error{good.error()};
  return static_cast<int64_t>(info.st_size);
}

Result<void> join_records(const std::vector<std::string>& records, const std::string& path) {
  const UniqueFd to(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!to) return Error{"their file cannot be made: " + system_words()};
  const auto block = std::make_unique<char[]>(block_bytes);
  for (const std::string& record : records) {
    if (auto done = append_file(to.get(), record, block.get()); !done) {
      ::unlink(path.c_str());
      return Error{done.error()};
    }
  }
  return {};
}

std::string encode_record(const RecordShape& shape, const std::vector<float>& values) {
  std::string out(magic);
  for (const int64_t number : {shape.rows, shape.nx, shape.ny, shape.width}) {
    const auto narrow = static_cast<int32_t>(number);
    out.append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
  }
  out.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return out;
}

}  // namespace vigil::process
