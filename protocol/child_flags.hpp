// The command line of a child program: "--flag value" and "--flag=value". Not here: which flags there are (engine/options.cpp, vision/options.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "protocol/result.hpp"

namespace vigil::protocol {

// Calls `apply` for each pair in order, until one is refused; a flag without a value is.
Result<void> each_flag(std::span<const std::string_view> arguments, const std::function<Result<void>(std::string_view flag, std::string_view value)>& apply);

// A whole number from `low` to `high`; the error names the flag.
Result<int64_t> flag_number(std::string_view flag, std::string_view text, int64_t low, int64_t high);

}  // namespace vigil::protocol
