// The route table: method, path, what answers, whether a key and a body are wanted. Not here: what a route does (api), sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/api/channel.hpp"
#include "server/http/target.hpp"
#include "server/turn/error.hpp"

namespace vigil::api {
class Api;
}

namespace vigil::http {

enum class Key : uint8_t { needed, not_needed };
enum class BodyUse : uint8_t { read, ignored };  // an ignored one is read to its end under a small cap, so that the connection stays in step

// Answers on the channel now or later; null when it was answered before returning. A stream's plan is made before returning, or
// plan_later() is called: until then the session takes the end of the client's input as leaving.
using Handler = std::function<std::unique_ptr<api::Exchange>(api::HttpRequest, std::shared_ptr<api::Channel>)>;
using ErrorShape = std::function<api::Response(const turn::RequestError&)>;

struct Route {
  std::string method;    // GET also answers HEAD
  std::string pattern;   // "/v1/models/{id}"; {id} is last and takes all that follows, slashes too
  Handler handler;
  Key key = Key::needed;
  BodyUse body = BodyUse::read;
  ErrorShape error;      // this dialect's error object; empty = the table's
};

struct RouteMatch {
  const Route* route = nullptr;  // null: see allow
  std::string parameter;
  std::string allow;             // "GET, HEAD, OPTIONS"; empty when no route has this path
};

class RouteTable {
 public:
  explicit RouteTable(ErrorShape default_error) : error_(std::move(default_error)) {}
  void add(Route route);
  RouteMatch match(const std::string& method, const Target& target) const;
  api::Response error(const Route* route, const turn::RequestError& error) const;

 private:
  std::vector<Route> routes_;
  std::vector<std::vector<std::string>> patterns_;  // of routes_, split
  ErrorShape error_;
};

// The routes of the daemon. The api must outlive the table.
RouteTable api_routes(api::Api& api);

}  // namespace vigil::http
