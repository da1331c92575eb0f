// The order of the checks is the order of the contract: what exists, how, who, how much.
#include "server/http/gate.hpp"

#include <algorithm>

namespace vigil::http {
namespace {

using turn::ErrorCode;

// Text of the client inside our messages: visible ASCII, cut.
std::string quoted(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 100)) out.push_back(c >= 0x20 && c < 0x7f ? c : '?');
  return text.size() > 100 ? out + "..." : out;
}

void refuse(Verdict& verdict, const RouteTable& routes, ErrorCode code, std::string message) {
  verdict.answer = routes.error(verdict.route, turn::RequestError{code, std::move(message), "", 1});
}

// Host and Origin; true when the request may go on.
bool check_host(Verdict& verdict, const RequestHead& head, const ServerOptions& options, const RouteTable& routes) {
  if (head.count("host") > 1 || (head.count("host") == 0 && head.version == Version::http_1_1)) {
    verdict.framing_lost = true;  // RFC 9112 section 3.2 demands 400; whoever sends this is not to be trusted with the connection
    refuse(verdict, routes, ErrorCode::invalid_request, "an HTTP/1.1 request carries exactly one Host header");
    return false;
  }
  if (options.host_check == HostCheck::off || !options.api_keys.empty()) return true;
  const std::string_view host = verdict.target.authority ? std::string_view(*verdict.target.authority) : head.field("host");
  if (!(host.empty() && head.version == Version::http_1_0) && !host_allowed(host, options)) {
    refuse(verdict, routes, ErrorCode::host_not_allowed,
           "the Host \"" + quoted(host) + "\" is not allowed; name it in allowed_hosts, or set an API key (api_keys)");
    return false;
  }
  if (!origin_allowed(head.field("origin"), host, options)) {
    refuse(verdict, routes, ErrorCode::host_not_allowed,
           "the Origin \"" + quoted(head.field("origin")) + "\" is not allowed; name it in cors_origins, or set an API key (api_keys)");
    return false;
  }
  return true;
}

void answer_options(Verdict& verdict, const RequestHead& head, const ServerOptions& options, const std::string& allow) {
  api::Response response;
  response.status = 204;
  response.content_type.clear();
  response.headers.emplace_back("Allow", allow);
  const bool preflight = head.count("access-control-request-method") > 0;
  const HeaderList cors = cors_headers(head.field("origin"), options);
  if (preflight && cors.size() > 1)  // more than Vary: the origin is one of ours
    for (auto& header : preflight_headers(head, allow)) response.headers.push_back(std::move(header));
  verdict.answer = std::move(response);
}

bool check_key(Verdict& verdict, const RequestHead& head, const ServerOptions& options, const RouteTable& routes) {
  if (options.api_keys.empty()) return true;
  verdict.key = matching_key(head, options.api_keys);
  if (verdict.key || verdict.route->key == Key::not_needed) return true;
  const bool given = head.count("authorization") + head.count("x-api-key") > 0;
  refuse(verdict, routes, ErrorCode::invalid_api_key,
         given ? "the API key is not valid" : "an API key is needed: send Authorization: Bearer KEY, or x-api-key: KEY");
  verdict.answer->headers.emplace_back("WWW-Authenticate", "Bearer");
  return false;
}

void check_size(Verdict& verdict, const RequestHead& head, const ServerOptions& options, const RouteTable& routes) {
  verdict.body_bytes = static_cast<size_t>(std::max<int64_t>(options.limits.body_bytes, 0));
  if (verdict.route->body == BodyUse::ignored)
    verdict.body_bytes = verdict.body_bytes == 0 ? kIgnoredBodyBytes : std::min(verdict.body_bytes, kIgnoredBodyBytes);
  if (verdict.body_bytes == 0 || head.content_length.value_or(0) <= verdict.body_bytes) return;
  refuse(verdict, routes, ErrorCode::request_too_large,
         "the request's body of " + std::to_string(*head.content_length) + " bytes is larger than " +
             std::to_string(verdict.body_bytes) +
             (verdict.route->body == BodyUse::ignored ? " bytes, and this path takes none" : " bytes (http.body_bytes)"));
}

}  // namespace

Verdict judge(const RequestHead& head, const ServerOptions& options, const RouteTable& routes) {
  Verdict verdict;
  auto target = parse_target(head.target);
  if (!target) {
    refuse(verdict, routes, ErrorCode::invalid_request, target.error());
    return verdict;
  }
  verdict.target = std::move(target.value());
  if (!check_host(verdict, head, options, routes)) return verdict;
  RouteMatch match = routes.match(head.method, verdict.target);
  if (head.method == "OPTIONS" && (verdict.target.asterisk || !match.allow.empty())) {
    answer_options(verdict, head, options, verdict.target.asterisk ? "GET, HEAD, POST, DELETE, OPTIONS" : match.allow);
    return verdict;
  }
  verdict.route = match.route;
  verdict.parameter = std::move(match.parameter);
  if (match.allow.empty()) {
    refuse(verdict, routes, ErrorCode::not_found, "there is nothing at " + quoted(verdict.target.path));
    return verdict;
  }
  if (verdict.route == nullptr) {
    refuse(verdict, routes, ErrorCode::method_not_allowed,
           quoted(verdict.target.path) + " does not take " + quoted(head.method) + "; it takes " + match.allow);
    verdict.answer->headers.emplace_back("Allow", match.allow);
    return verdict;
  }
  if (check_key(verdict, head, options, routes)) check_size(verdict, head, options, routes);
  return verdict;
}

bool acceptable_request_id(std::string_view text) {
  return !text.empty() && text.size() <= 128 && std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace vigil::http
