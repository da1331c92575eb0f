// See child_flags.hpp.
#include "protocol/child_flags.hpp"

#include <charconv>
#include <string>

namespace vigil::protocol {

Result<void> each_flag(std::span<const std::string_view> arguments, const std::function<Result<void>(std::string_view flag, std::string_view value)>& apply) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string_view flag = arguments[i], value;
    const size_t equals = flag.find('=');
    if (equals != std::string_view::npos) {
      value = flag.substr(equals + 1);
      flag = flag.substr(0, equals);
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      return Error{"flag '" + std::string(flag) + "' needs a value"};
    }
    if (Result<void> applied = apply(flag, value); !applied) return Error{applied.error()};
  }
  return {};
}

Result<int64_t> flag_number(std::string_view flag, std::string_view text, int64_t low, int64_t high) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high) {
    return Error{std::string(flag) + " '" + std::string(text) + "' is not a number from " + std::to_string(low) + " to " + std::to_string(high)};
  }
  return value;
}

}  // namespace vigil::protocol
