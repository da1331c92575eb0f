// The decision that is made from a request's head alone, before any body is read: refuse it, answer a preflight, or let it in. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/http/options.hpp"
#include "server/http/request_parser.hpp"
#include "server/http/routes.hpp"
#include "server/http/security.hpp"

namespace vigil::http {

struct Verdict {
  std::optional<api::Response> answer;   // a refusal or a preflight's answer; empty = read the body and call the route
  const Route* route = nullptr;          // also set on refusals once known, for the dialect's error shape
  Target target;
  std::string parameter;
  std::optional<size_t> key;             // index of the key that the request carries
  size_t body_bytes = 0;                 // cap for the body, 0 = none
  bool framing_lost = false;             // the connection cannot be used further
};

// A body that nobody reads may be this long; http.body_bytes when that is smaller.
inline constexpr size_t kIgnoredBodyBytes = 64 * 1024;

Verdict judge(const RequestHead& head, const ServerOptions& options, const RouteTable& routes);

// 1 to 128 visible ASCII characters.
bool acceptable_request_id(std::string_view text);

}  // namespace vigil::http
