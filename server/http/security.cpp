// Keys, hosts, origins.
#include "server/http/security.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <cstring>

#include "server/http/target.hpp"

namespace vigil::http {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view scheme = "bearer";
  if (authorization.size() <= scheme.size() || lower(authorization.substr(0, scheme.size())) != scheme) return {};
  if (authorization[scheme.size()] != ' ' && authorization[scheme.size()] != '\t') return {};
  return trim(authorization.substr(scheme.size()));
}

bool is_ipv4(const std::string& host) {
  in_addr address{};
  return ::inet_pton(AF_INET, host.c_str(), &address) == 1;
}

bool is_address(const std::string& host) {
  in6_addr address{};
  return is_ipv4(host) || ::inet_pton(AF_INET6, host.c_str(), &address) == 1;
}

bool is_wildcard(const std::string& host) { return host.empty() || host == "0.0.0.0" || host == "::" || host == "[::]"; }

bool named_origin(std::string_view origin, const ServerOptions& options) {
  std::string_view wanted = origin;
  for (const std::string& entry : options.cors_origins) {
    std::string_view allowed = entry;
    if (allowed == "*") return true;
    if (allowed.size() > 1 && allowed.back() == '/') allowed.remove_suffix(1);
    if (lower(allowed) == lower(wanted)) return true;
  }
  return false;
}

// A list of field names as a browser sends it; anything else is not echoed.
bool is_name_list(std::string_view text) {
  return !text.empty() && text.size() <= 1024 && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == ',' || c == ' ';
  });
}

}  // namespace

std::optional<size_t> matching_key(const RequestHead& head, const std::vector<std::string>& keys) {
  std::optional<size_t> found;
  for (const std::string_view presented : {bearer_token(head.field("authorization")), trim(head.field("x-api-key"))}) {
    if (presented.empty()) continue;
    for (size_t i = 0; i < keys.size(); ++i)
      if (equal_in_constant_time(presented, keys[i]) && !found) found = i;
  }
  return found;
}

bool is_loopback_name(std::string_view host) {
  const std::string name = lower(host);
  if (name == "localhost" || name == "::1") return true;
  constexpr std::string_view suffix = ".localhost";
  if (name.size() > suffix.size() && std::string_view(name).substr(name.size() - suffix.size()) == suffix) return true;
  return name.rfind("127.", 0) == 0 && is_ipv4(name);
}

bool host_allowed(std::string_view host_field, const ServerOptions& options) {
  const auto authority = parse_authority(host_field);
  if (!authority) return false;
  if (is_loopback_name(authority->host)) return true;
  if (!is_wildcard(options.bound_host)) {
    const auto bound = parse_authority(options.bound_host.find(':') != std::string::npos && options.bound_host.front() != '['
                                           ? "[" + options.bound_host + "]" : options.bound_host);
    if (bound && bound->host == authority->host) return true;
  } else if (is_address(authority->host)) {
    return true;  // rebinding needs a name that the attacker's DNS answers; an address cannot be rebound
  }
  return std::any_of(options.allowed_hosts.begin(), options.allowed_hosts.end(), [&](const std::string& entry) {
    if (entry == "*") return true;
    const auto allowed = parse_authority(entry);
    return allowed && allowed->host == authority->host && (allowed->port.empty() || allowed->port == authority->port);
  });
}

bool origin_allowed(std::string_view origin, std::string_view host_field, const ServerOptions& options) {
  if (origin.empty() || named_origin(origin, options)) return true;
  const size_t scheme_end = origin.find("://");
  if (scheme_end == std::string_view::npos) return false;  // "null" and the like
  const std::string scheme = lower(origin.substr(0, scheme_end));
  if (scheme != "http" && scheme != "https") return false;
  const auto page = parse_authority(origin.substr(scheme_end + 3));
  if (!page) return false;
  if (is_loopback_name(page->host)) return true;
  const auto ours = parse_authority(host_field);
  return ours && ours->host == page->host && ours->port == page->port;
}

HeaderList cors_headers(std::string_view origin, const ServerOptions& options) {
  if (options.cors_origins.empty()) return {};
  HeaderList headers;
  // The answer depends on Origin whether it was given or not: a shared cache must know.
  headers.emplace_back("Vary", "Origin");
  if (origin.empty() || !named_origin(origin, options)) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", std::string(origin));
  headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After, x-should-retry");
  return headers;
}

HeaderList preflight_headers(const RequestHead& head, const std::string& allow) {
  HeaderList headers;
  headers.emplace_back("Access-Control-Allow-Methods", allow);
  const std::string_view asked = head.field("access-control-request-headers");
  headers.emplace_back("Access-Control-Allow-Headers",
                       is_name_list(asked) ? std::string(asked) : "authorization, content-type, x-api-key, x-request-id");
  headers.emplace_back("Access-Control-Max-Age", "600");
  if (lower(head.field("access-control-request-private-network")) == "true")
    headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  return headers;
}

}  // namespace vigil::http
