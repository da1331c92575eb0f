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
