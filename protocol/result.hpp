// Result<T>: a value, or an error that says what is wrong and what to do. For failures that are expected.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace vigil {

struct Error {
  std::string message;  // one line, names the field, file or limit
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}          // implicit: `return value;`
  Result(Error error) : state_(std::move(error)) {}      // implicit: `return Error{"..."};`

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const std::string& error() const { return std::get<1>(state_).message; }

 private:
  std::variant<T, Error> state_;
};

// For operations that give nothing back.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}

  bool ok() const { return ok_; }
  explicit operator bool() const { return ok_; }
  const std::string& error() const { return error_.message; }

 private:
  Error error_;
  bool ok_ = true;
};

}  // namespace vigil
