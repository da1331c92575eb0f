// Matching paths against the table.
#include "server/http/routes.hpp"

#include <algorithm>
#include <utility>

namespace vigil::http {
namespace {

bool path_matches(const std::vector<std::string>& pattern, const std::vector<std::string>& segments, std::string& parameter) {
  const bool open = !pattern.empty() && pattern.back().front() == '{';
  const size_t fixed = open ? pattern.size() - 1 : pattern.size();
  if (open ? segments.size() <= fixed : segments.size() != fixed) return false;
  if (!std::equal(pattern.begin(), pattern.begin() + static_cast<std::ptrdiff_t>(fixed), segments.begin())) return false;
  parameter.clear();
  for (size_t i = fixed; i < segments.size(); ++i) parameter += (i == fixed ? "" : "/") + segments[i];
  return true;
}

void add_method(std::string& allow, const std::string& method) { allow += (allow.empty() ? "" : ", ") + method; }

}  // namespace

void RouteTable::add(Route route) {
  const auto target = parse_target(route.pattern);
  patterns_.push_back(target.ok() ? target.value().segments : std::vector<std::string>{});
  routes_.push_back(std::move(route));
}

RouteMatch RouteTable::match(const std::string& method, const Target& target) const {
  RouteMatch match;
  const std::string& wanted = method == "HEAD" ? std::string("GET") : method;
  for (size_t i = 0; i < routes_.size(); ++i) {
    std::string parameter;
    if (!path_matches(patterns_[i], target.segments, parameter)) continue;
    add_method(match.allow, routes_[i].method);
    if (routes_[i].method == "GET") add_method(match.allow, "HEAD");
    if (routes_[i].method != wanted || match.route != nullptr) continue;
    match.route = &routes_[i];
    match.parameter = std::move(parameter);
  }
  if (!match.allow.empty()) add_method(match.allow, "OPTIONS");
  return match;
}

api::Response RouteTable::error(const Route* route, const turn::RequestError& error) const {
  return route != nullptr && route->error ? route->error(error) : error_(error);
}

}  // namespace vigil::http
