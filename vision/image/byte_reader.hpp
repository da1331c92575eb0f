// Numbers out of untrusted bytes. The caller has checked that they are there; an access outside is a fault of ours and ends the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

namespace vigil::vision {

inline uint32_t byte_at(std::span<const uint8_t> bytes, size_t at) {
  if (at >= bytes.size()) std::abort();
  return bytes[at];
}
inline uint32_t little16(std::span<const uint8_t> bytes, size_t at) { return byte_at(bytes, at) | byte_at(bytes, at + 1) << 8; }
inline uint32_t little32(std::span<const uint8_t> bytes, size_t at) { return little16(bytes, at) | little16(bytes, at + 2) << 16; }
inline uint32_t big16(std::span<const uint8_t> bytes, size_t at) { return byte_at(bytes, at) << 8 | byte_at(bytes, at + 1); }
inline uint32_t big32(std::span<const uint8_t> bytes, size_t at) { return big16(bytes, at) << 16 | big16(bytes, at + 2); }

}  // namespace vigil::vision
