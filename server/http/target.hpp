// The target of a request line, taken apart (RFC 9112 section 3.2, RFC 3986). Pure. Not here: which paths exist (routes).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/result.hpp"

namespace vigil::http {

struct Target {
  std::vector<std::string> segments;      // percent-decoded, empty ones dropped: "/v1//models/" is {"v1", "models"}
  std::string path;                       // "/" and the segments joined; "*" for an asterisk
  std::string query;                      // as sent, without the '?'
  std::optional<std::string> authority;   // of an absolute target, "http://host:port/..."; it outranks the Host field
  bool asterisk = false;                  // "OPTIONS *"
};

Result<Target> parse_target(std::string_view text);
// %XX only; '+' stays. Nothing when an escape is broken.
std::optional<std::string> percent_decode(std::string_view text);

struct Authority {
  std::string host;  // lower case, no brackets, no trailing dot
  std::string port;  // digits or empty
};
std::optional<Authority> parse_authority(std::string_view text);

}  // namespace vigil::http
