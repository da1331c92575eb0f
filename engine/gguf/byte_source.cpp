// Files by pread, bytes in memory, and a read-only mapping. No format knowledge.
#include "engine/gguf/byte_source.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace vigil::gguf {

namespace {

std::string reason(int code) { return std::generic_category().message(code); }

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

struct OpenFile {
  Descriptor descriptor;
  uint64_t size;  // bytes
};

Result<OpenFile> open_regular(const std::string& path) {
  // O_NONBLOCK: opening a FIFO nobody writes to would hang otherwise, before fstat can refuse it.
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) return Error{"cannot open '" + path + "': " + reason(errno)};
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) return Error{"cannot read '" + path + "': " + reason(errno)};
  if (!S_ISREG(status.st_mode)) return Error{"'" + path + "' is not a regular file"};
  return OpenFile{std::move(descriptor), static_cast<uint64_t>(status.st_size)};
}

bool inside(uint64_t size, uint64_t offset, uint64_t length) { return offset <= size && length <= size - offset; }

Error outside(uint64_t size, uint64_t offset, uint64_t length) {
  return Error{"bytes " + std::to_string(offset) + " + " + std::to_string(length) + " lie outside the file of " +
               std::to_string(size) + " bytes"};
}

class PreadSource final : public ByteSource {
 public:
  PreadSource(std::string path, OpenFile file) : path_(std::move(path)), file_(std::move(file)) {}

  uint64_t size() const override { return file_.size; }

  Result<void> read(uint64_t offset, std::span<std::byte> out) const override {
    if (!inside(file_.size, offset, out.size())) return outside(file_.size, offset, out.size());
    while (!out.empty()) {
      const ssize_t got = ::pread(file_.descriptor.get(), out.data(), out.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Error{"cannot read '" + path_ + "': " + reason(errno)};
      if (got == 0) return Error{"'" + path_ + "' became shorter while it was read"};
      out = out.subspan(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    }
    return {};
  }

 private:
  std::string path_;
  OpenFile file_;
};

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}

  uint64_t size() const override { return bytes_.size(); }

  Result<void> read(uint64_t offset, std::span<std::byte> out) const override {
    if (!inside(bytes_.size(), offset, out.size())) return outside(bytes_.size(), offset, out.size());
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    return {};
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

Result<std::unique_ptr<ByteSource>> open_pread(const std::string& path) {
  auto file = open_regular(path);
  if (!file) return Error{file.error()};
  return std::unique_ptr<ByteSource>(std::make_unique<PreadSource>(path, std::move(*file)));
}

std::unique_ptr<ByteSource> from_memory(std::vector<std::byte> bytes) { return std::make_unique<MemorySource>(std::move(bytes)); }

Result<Mapping> Mapping::open(const std::string& path) {
  auto file = open_regular(path);
  if (!file) return Error{file.error()};
  if (file->size == 0) return Error{"'" + path + "' is empty"};
  void* address = ::mmap(nullptr, file->size, PROT_READ, MAP_PRIVATE, file->descriptor.get(), 0);
  if (address == MAP_FAILED) return Error{"cannot map '" + path + "': " + reason(errno)};
  return Mapping(std::span(static_cast<const std::byte*>(address), file->size));
}

Mapping::Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  return *this;
}

void Mapping::forget(std::span<const std::byte> part) {
  const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const uintptr_t first = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(part.data() + part.size()) / page * page;
  if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace vigil::gguf
