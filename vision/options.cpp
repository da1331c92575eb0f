// The flags of vigil-vision, each checked and named.
#include "vision/options.hpp"

#include "protocol/child_flags.hpp"

namespace vigil::vision {
namespace {

Result<void> apply(Options& options, std::string_view flag, std::string_view value) {
  const auto take = [&](int64_t low, int64_t high, auto&& store) -> Result<void> {
    const Result<int64_t> parsed = protocol::flag_number(flag, value, low, high);
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
  const auto take = [&](std::string_view flag, std::string_view value) { return apply(options, flag, value); };
  if (Result<void> applied = protocol::each_flag(arguments, take); !applied) return Error{applied.error()};
  if (options.projector.empty()) return Error{"--mmproj FILE.gguf is needed"};
  return options;
}

}  // namespace vigil::vision
