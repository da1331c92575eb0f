// "--flag value" pairs and "--flag=value".
#include "vision/options.hpp"

#include <charconv>

namespace vigil::vision {
namespace {

Result<int64_t> number(std::string_view flag, std::string_view text, int64_t low, int64_t high) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < low || value > high) {
    return Error{std::string(flag) + " '" + std::string(text) + "' is not a number from " + std::to_string(low) + " to " + std::to_string(high)};
  }
  return value;
}

Result<void> apply(Options& options, std::string_view flag, std::string_view value) {
  const auto take = [&](int64_t low, int64_t high, auto&& store) -> Result<void> {
    const Result<int64_t> parsed = number(flag, value, low, high);
    if (!parsed) return Error{parsed.error()};
    store(*parsed);
    return {};
  };
  if (flag == "--mmproj") return options.projector = std::string(value), Result<void>();
  if (flag == "--model") return options.model = std::string(value), Result<void>();
  if (flag == "--threads") return take(0, 1024, [&](int64_t n) { options.threads = static_cast<int>(n); });
  if (flag == "--image-pixels") return take(1, int64_t{1} << 40, [&](int64_t n) { options.decode.pixels = n; });
  if (flag == "--image-bytes") return take(1, int64_t{1} << 40, [&](int64_t n) { options.image_bytes = n; });
  if (flag == "--image-tokens") return take(1, 1 << 16, [&](int64_t n) { options.encoder.tokens = n; });
  if (flag == "--class-token") {
    if (value != "last" && value != "first") return Error{"--class-token '" + std::string(value) + "' is not last or first"};
    options.encoder.class_token = value == "last" ? ClassToken::last : ClassToken::first;
    return {};
  }
  return Error{"unknown flag '" + std::string(flag) + "'"};
}

}  // namespace

Result<Options> parse_options(std::span<const std::string_view> arguments) {
  Options options;
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
    if (Result<void> applied = apply(options, flag, value); !applied) return Error{applied.error()};
  }
  if (options.projector.empty()) return Error{"--mmproj FILE.gguf is needed"};
  return options;
}

}  // namespace vigil::vision
