// Who may ask: API keys, the Host and Origin checks of a server without keys, CORS. Pure. Not here: routing, the answer's bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/options.hpp"
#include "server/http/request_parser.hpp"

namespace vigil::http {

using HeaderList = std::vector<std::pair<std::string, std::string>>;

// Whether they are equal. Looks at every byte of what was presented, wherever the first wrong one stands, so that the time it takes tells
// nothing of the secret. `presented` has size() and [].
template <typename Bytes>
bool equal_in_constant_time(const Bytes& presented, std::string_view secret) {
  if (secret.empty()) return false;
  unsigned difference = presented.size() == secret.size() ? 0U : 1U;
  for (size_t i = 0; i < presented.size(); ++i)
    difference |= static_cast<unsigned>(static_cast<unsigned char>(presented[i]) ^ static_cast<unsigned char>(secret[i % secret.size()]));
  return difference == 0;
}

// The index of a configured key that the request carries as `Authorization: Bearer KEY` (scheme in any case) or `x-api-key: KEY`.
// The time taken does not depend on how much of a key was right.
std::optional<size_t> matching_key(const RequestHead& head, const std::vector<std::string>& keys);

bool is_loopback_name(std::string_view host);     // localhost, *.localhost, 127.0.0.0/8, ::1
// `host_field` is the Host field or the authority of an absolute target.
bool host_allowed(std::string_view host_field, const ServerOptions& options);
// A browser page of this origin may use a server without keys: same origin, a loopback page, or one named in cors_origins.
bool origin_allowed(std::string_view origin, std::string_view host_field, const ServerOptions& options);

// The CORS headers of every answer to this origin; empty for one that is not named in cors_origins.
HeaderList cors_headers(std::string_view origin, const ServerOptions& options);
// The further headers of a preflight's answer; `allow` is the route's methods.
HeaderList preflight_headers(const RequestHead& head, const std::string& allow);

}  // namespace vigil::http
