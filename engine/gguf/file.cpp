// Lookups in a parsed header. Reading and checking it is header_reader.cpp.
#include "engine/gguf/file.hpp"

#include "engine/gguf/printable.hpp"

namespace vigil::gguf {

namespace {

struct TypeName {
  const char* operator()(int64_t) const { return "an integer"; }
  const char* operator()(double) const { return "a floating-point number"; }
  const char* operator()(bool) const { return "a boolean"; }
  const char* operator()(const std::string&) const { return "a string"; }
  const char* operator()(const Array& array) const {
    return std::visit([this](const auto& items) { return (*this)(items); }, array);
  }
  const char* operator()(const std::vector<int64_t>&) const { return "an array of integers"; }
  const char* operator()(const std::vector<double>&) const { return "an array of floating-point numbers"; }
  const char* operator()(const std::vector<std::string>&) const { return "an array of strings"; }
};

template <typename T>
inline constexpr bool is_vector = false;
template <typename T>
inline constexpr bool is_vector<std::vector<T>> = true;

template <typename T>
const T* pick(const Value& value) {
  if constexpr (is_vector<T>) {
    const auto* array = std::get_if<Array>(&value);
    return array ? std::get_if<T>(array) : nullptr;
  } else {
    return std::get_if<T>(&value);
  }
}

template <typename T>
Result<T> typed(const File& file, std::string_view key) {
  const Value* value = file.find(key);
  if (!value) return Error{"key " + printable(key) + " is missing"};
  const T* held = pick<T>(*value);
  if (!held) return Error{"key " + printable(key) + " is " + std::visit(TypeName{}, *value) + "; it must be " + TypeName{}(T{})};
  return *held;
}

template <typename T>
Result<T> typed_or(const File& file, std::string_view key, T fallback) {
  if (!file.find(key)) return fallback;
  return typed<T>(file, key);
}

}  // namespace

std::string printable(std::string_view name) {
  constexpr size_t most_bytes = 80;
  constexpr char digits[] = "0123456789abcdef";
  std::string text = "'";
  for (const char c : name.substr(0, most_bytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      text += c;
    } else {
      text += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
  }
  text += name.size() > most_bytes ? "'..." : "'";
  return text;
}

int64_t Tensor::elements() const {
  int64_t product = 1;
  for (const int64_t length : dims) product *= length;
  return product;
}

const Value* File::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

const Tensor* File::tensor(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

Result<int64_t> File::integer(std::string_view key) const { return typed<int64_t>(*this, key); }
Result<double> File::number(std::string_view key) const { return typed<double>(*this, key); }
Result<bool> File::boolean(std::string_view key) const { return typed<bool>(*this, key); }
Result<std::string> File::string(std::string_view key) const { return typed<std::string>(*this, key); }
Result<std::vector<std::string>> File::strings(std::string_view key) const { return typed<std::vector<std::string>>(*this, key); }
Result<std::vector<double>> File::numbers(std::string_view key) const { return typed<std::vector<double>>(*this, key); }
Result<std::vector<int64_t>> File::integers(std::string_view key) const { return typed<std::vector<int64_t>>(*this, key); }

Result<int64_t> File::integer_or(std::string_view key, int64_t fallback) const { return typed_or<int64_t>(*this, key, fallback); }
Result<double> File::number_or(std::string_view key, double fallback) const { return typed_or<double>(*this, key, fallback); }
Result<bool> File::boolean_or(std::string_view key, bool fallback) const { return typed_or<bool>(*this, key, fallback); }
Result<std::string> File::string_or(std::string_view key, std::string fallback) const {
  return typed_or<std::string>(*this, key, std::move(fallback));
}

}  // namespace vigil::gguf
