// Writes small GGUF v3 files: metadata and tensors held in memory. For make_model and tests; it checks nothing that the reader would refuse.
// Format: ggml project, docs/gguf.md; Q8_0 blocks as in ggml-common.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/tensor_type.hpp"
#include "protocol/result.hpp"

namespace vigil::gguf {

// Little-endian values appended one after another: the parts of a GGUF file.
class ByteWriter {
 public:
  template <typename T>
  void number(T value) {
    const auto raw = std::as_bytes(std::span(&value, 1));
    bytes_.insert(bytes_.end(), raw.begin(), raw.end());
  }
  void string(std::string_view text);  // its length as u64, then its bytes
  void raw(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void pad_to(size_t alignment);  // zeros up to a multiple of `alignment` bytes
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class Writer {
 public:
  void put_u32(std::string_view key, uint32_t value);
  void put_u64(std::string_view key, uint64_t value);
  void put_f32(std::string_view key, float value);
  void put_bool(std::string_view key, bool value);
  void put_string(std::string_view key, std::string_view value);
  void put_strings(std::string_view key, const std::vector<std::string>& values);
  void put_f32s(std::string_view key, const std::vector<float>& values);
  void put_i32s(std::string_view key, const std::vector<int32_t>& values);
  // dims: innermost first; data: as `type` lays it out.
  void add_tensor(std::string_view name, TensorType type, std::vector<uint64_t> dims, std::vector<std::byte> data);

  std::vector<std::byte> bytes() const;                // the whole file
  Result<void> write(const std::string& path) const;  // replaces the file; errors name the path

 private:
  struct Entry {
    std::string name;
    TensorType type;
    std::vector<uint64_t> dims;
    std::vector<std::byte> data;
  };
  void key(std::string_view key, uint32_t value_type);

  ByteWriter metadata_;
  uint64_t pairs_ = 0;
  std::vector<Entry> tensors_;
};

// IEEE 754 half precision, rounded to nearest even.
uint16_t half_bits(float value);
std::vector<std::byte> f32_bytes(std::span<const float> values);
// Blocks of 32: half-precision scale d = max|x| / 127, then 32 signed bytes round(x / d). `values` is a multiple of 32 long.
std::vector<std::byte> q8_0_bytes(std::span<const float> values);

}  // namespace vigil::gguf
