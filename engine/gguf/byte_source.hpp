// Where the bytes of a model file come from. The daemon and the vision child use pread (a file that shrinks is a read error, not a
// SIGBUS); only the engine maps, and only for tensor data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "protocol/result.hpp"

namespace vigil::gguf {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;  // bytes
  // Fills `out` from `offset`; an error when the range is not wholly inside or the file cannot be read.
  virtual Result<void> read(uint64_t offset, std::span<std::byte> out) const = 0;
};

// Opened read-only, O_CLOEXEC; regular files only. Errors name the path and errno's text.
Result<std::unique_ptr<ByteSource>> open_pread(const std::string& path);
// Bytes in memory, for tests and fuzzing.
std::unique_ptr<ByteSource> from_memory(std::vector<std::byte> bytes);

// A read-only mapping of a whole file, for tensor data in the engine.
class Mapping {
 public:
  static Result<Mapping> open(const std::string& path);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();
  std::span<const std::byte> bytes() const { return bytes_; }
  // Gives the memory of whole pages of a mapping back; reading them again fetches them from the file.
  static void forget(std::span<const std::byte> part);

 private:
  explicit Mapping(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

}  // namespace vigil::gguf
