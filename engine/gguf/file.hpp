// The header of a GGUF file (versions 2 and 3): metadata and tensor directory, read and checked; nothing in it is trusted.
// Format: the "GGUF" specification in the ggml project's docs/gguf.md. Little-endian only. Not here: tensor data, what keys mean.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/gguf/byte_source.hpp"
#include "engine/gguf/tensor_type.hpp"
#include "protocol/result.hpp"

namespace vigil::gguf {

// Caps on what a header may claim, each far above real files. Checked before anything is allocated.
struct HeaderLimits {
  uint64_t metadata_pairs = 65'536;
  uint64_t tensors = 65'536;
  uint64_t key_bytes = 65'535;            // the format's own limit
  uint64_t tensor_name_bytes = 1'024;     // the format says 64; writers go above it
  uint64_t string_bytes = 16u << 20;      // a chat template is the longest seen, far below
  uint64_t array_elements = 4u << 20;     // vocabularies: up to about 300,000
  uint64_t total_elements = 8u << 20;     // of all arrays together: bounds the memory of a parsed header
  uint64_t array_extra_bytes = 48u << 20; // what their elements take in memory beyond the file's bytes: 1.5 million strings, 6.9 million bytes
  uint64_t header_bytes = 256u << 20;
};

// What general.alignment may be: a power of two in this range.
inline constexpr uint64_t min_alignment = 8, max_alignment = 65'536;

enum class ValueType : uint32_t {
  u8 = 0, i8 = 1, u16 = 2, i16 = 3, u32 = 4, i32 = 5, f32 = 6, boolean = 7, string = 8, array = 9, u64 = 10, i64 = 11, f64 = 12
};

// Arrays hold one element type: integers of every width and booleans as int64 (u64 above 2^63-1 is an error), floats as double, strings. No
// arrays of arrays.
using Array = std::variant<std::vector<int64_t>, std::vector<double>, std::vector<std::string>>;
using Value = std::variant<int64_t, double, bool, std::string, Array>;

struct Tensor {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<int64_t> dims;  // 1 to 4, innermost (contiguous, row length) first, each >= 1
  uint64_t offset = 0;        // bytes from File::data_offset()
  uint64_t bytes = 0;         // size of the data, checked to lie inside the file
  int64_t elements() const;
  int64_t cols() const { return dims[0]; }                 // row length
  int64_t rows() const { return elements() / dims[0]; }
};

class File {
 public:
  // Reads and checks the whole header. Errors name the key or tensor ("tensor 'output.weight': offset 96 is not a multiple of 32").
  // Refused beside what the format forbids: a key or tensor name that comes twice, and tensors whose bytes overlap (no writer makes
  // them; a gap between tensors is allowed). Memory stays within a small multiple of the header's bytes: a count is believed only when
  // the rest of the file could hold it.
  static Result<File> parse(const ByteSource& source, const HeaderLimits& limits = {});

  uint32_t version() const { return version_; }
  uint64_t data_offset() const { return data_offset_; }
  uint64_t alignment() const { return alignment_; }

  const Value* find(std::string_view key) const;
  // Typed access: a missing key is an error that names it; so is a wrong type. Integer accessors also take any integer width.
  Result<int64_t> integer(std::string_view key) const;
  Result<double> number(std::string_view key) const;  // float or double only
  Result<bool> boolean(std::string_view key) const;
  Result<std::string> string(std::string_view key) const;
  Result<std::vector<std::string>> strings(std::string_view key) const;
  Result<std::vector<double>> numbers(std::string_view key) const;
  Result<std::vector<int64_t>> integers(std::string_view key) const;
  // The same with a default for a missing key; a wrong type is still an error.
  Result<int64_t> integer_or(std::string_view key, int64_t fallback) const;
  Result<double> number_or(std::string_view key, double fallback) const;
  Result<bool> boolean_or(std::string_view key, bool fallback) const;
  Result<std::string> string_or(std::string_view key, std::string fallback) const;

  const std::map<std::string, Value, std::less<>>& metadata() const { return metadata_; }
  const std::vector<Tensor>& tensors() const { return tensors_; }
  const Tensor* tensor(std::string_view name) const;

 private:
  friend class HeaderReader;
  uint32_t version_ = 3;
  uint64_t data_offset_ = 0;
  uint64_t alignment_ = 32;
  std::map<std::string, Value, std::less<>> metadata_;
  std::vector<Tensor> tensors_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace vigil::gguf
