// The GGUF v3 writer and its two weight encodings. Not here: reading (header_reader.cpp).
#include "engine/gguf/writer.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

#include "engine/gguf/file.hpp"

namespace vigil::gguf {

namespace {

constexpr size_t alignment = 32;  // the format's default, bytes
constexpr size_t q8_0_block = 32;

uint32_t number_of(ValueType type) { return static_cast<uint32_t>(type); }

}  // namespace

void ByteWriter::string(std::string_view text) {
  number<uint64_t>(text.size());
  raw(std::as_bytes(std::span(text)));
}

void ByteWriter::pad_to(size_t multiple) {
  const size_t rest = bytes_.size() % multiple;
  if (rest != 0) bytes_.resize(bytes_.size() + multiple - rest);
}

void Writer::key(std::string_view key, uint32_t value_type) {
  metadata_.string(key);
  metadata_.number<uint32_t>(value_type);
  ++pairs_;
}

void Writer::put_u32(std::string_view name, uint32_t value) {
  key(name, number_of(ValueType::u32));
  metadata_.number(value);
}

void Writer::put_u64(std::string_view name, uint64_t value) {
  key(name, number_of(ValueType::u64));
  metadata_.number(value);
}

void Writer::put_f32(std::string_view name, float value) {
  key(name, number_of(ValueType::f32));
  metadata_.number(value);
}

void Writer::put_bool(std::string_view name, bool value) {
  key(name, number_of(ValueType::boolean));
  metadata_.number<uint8_t>(value ? 1 : 0);
}

void Writer::put_string(std::string_view name, std::string_view value) {
  key(name, number_of(ValueType::string));
  metadata_.string(value);
}

void Writer::put_strings(std::string_view name, const std::vector<std::string>& values) {
  key(name, number_of(ValueType::array));
  metadata_.number<uint32_t>(number_of(ValueType::string));
  metadata_.number<uint64_t>(values.size());
  for (const std::string& value : values) metadata_.string(value);
}

void Writer::put_f32s(std::string_view name, const std::vector<float>& values) {
  key(name, number_of(ValueType::array));
  metadata_.number<uint32_t>(number_of(ValueType::f32));
  metadata_.number<uint64_t>(values.size());
  metadata_.raw(std::as_bytes(std::span(values)));
}

void Writer::put_i32s(std::string_view name, const std::vector<int32_t>& values) {
  key(name, number_of(ValueType::array));
  metadata_.number<uint32_t>(number_of(ValueType::i32));
  metadata_.number<uint64_t>(values.size());
  metadata_.raw(std::as_bytes(std::span(values)));
}

void Writer::add_tensor(std::string_view name, TensorType type, std::vector<uint64_t> dims, std::vector<std::byte> data) {
  tensors_.push_back({std::string(name), type, std::move(dims), std::move(data)});
}

std::vector<std::byte> Writer::bytes() const {
  ByteWriter out;
  out.raw(std::as_bytes(std::span("GGUF", 4)));
  out.number<uint32_t>(3);
  out.number<uint64_t>(tensors_.size());
  out.number<uint64_t>(pairs_);
  out.raw(metadata_.bytes());
  uint64_t offset = 0;
  for (const Entry& tensor : tensors_) {
    out.string(tensor.name);
    out.number<uint32_t>(static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t length : tensor.dims) out.number(length);
    out.number<uint32_t>(static_cast<uint32_t>(tensor.type));
    out.number<uint64_t>(offset);
    offset += (tensor.data.size() + alignment - 1) / alignment * alignment;
  }
  for (const Entry& tensor : tensors_) {
    out.pad_to(alignment);
    out.raw(tensor.data);
  }
  if (!tensors_.empty()) out.pad_to(alignment);
  return out.bytes();
}

Result<void> Writer::write(const std::string& path) const {
  const auto content = bytes();
  const auto close = [](std::FILE* file) { std::fclose(file); };
  std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "wb"), close);
  if (!file) return Error{"cannot write '" + path + "': " + std::strerror(errno)};
  if (std::fwrite(content.data(), 1, content.size(), file.get()) != content.size() || std::fflush(file.get()) != 0) {
    return Error{"cannot write '" + path + "': " + std::strerror(errno)};
  }
  return {};
}

uint16_t half_bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);     // not a number
  if (rest >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);    // rounds to above 65504: infinity
  // Adding a number whose unit in the last place is the half's makes the addition itself round to nearest even.
  if (rest < 0x38800000u) {  // below 2^-14: a half without an implicit one, units of 2^-24
    const float shifted = std::bit_cast<float>(rest) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f)));
  }
  const uint32_t rounded = rest + 0x0fffu + ((rest >> 13) & 1u);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

std::vector<std::byte> f32_bytes(std::span<const float> values) {
  const auto raw = std::as_bytes(values);
  return {raw.begin(), raw.end()};
}

std::vector<std::byte> q8_0_bytes(std::span<const float> values) {
  ByteWriter out;
  for (size_t start = 0; start + q8_0_block <= values.size(); start += q8_0_block) {
    const auto block = values.subspan(start, q8_0_block);
    float largest = 0;
    for (const float value : block) largest = std::max(largest, std::fabs(value));
    const float scale = largest / 127.0f;
    out.number(half_bits(scale));
    for (const float value : block) out.number(static_cast<int8_t>(scale > 0 ? std::lround(value / scale) : 0));
  }
  return out.bytes();
}

}  // namespace vigil::gguf
