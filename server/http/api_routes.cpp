// Which function of the api answers which route.
#include "server/api/api.hpp"
#include "server/http/routes.hpp"

namespace vigil::http {

RouteTable api_routes(api::Api& api) {
  RouteTable table([](const turn::RequestError& error) { return api::error_response(error); });
  const auto add = [&](const char* method, const char* pattern, api::Api::Handler handler, Key key, BodyUse body, const ErrorShape& error = {}) {
    Route route;
    route.error = error;
    route.method = method;
    route.pattern = pattern;
    route.key = key;
    route.body = body;
    route.handler = [&api, handler](api::HttpRequest request, std::shared_ptr<api::Channel> channel) {
      return (api.*handler)(std::move(request), std::move(channel));
    };
    table.add(std::move(route));
  };
  using api::Api;
  add("POST", "/v1/chat/completions", &Api::chat_completions, Key::needed, BodyUse::read);
  add("POST", "/v1/completions", &Api::completions, Key::needed, BodyUse::read);
  add("POST", "/v1/responses", &Api::responses, Key::needed, BodyUse::read);
  add("POST", "/v1/embeddings", &Api::embeddings, Key::needed, BodyUse::read);
  add("POST", "/v1/messages", &Api::messages, Key::needed, BodyUse::read, api::messages_error_response);
  add("POST", "/v1/messages/count_tokens", &Api::count_tokens, Key::needed, BodyUse::read, api::messages_error_response);
  add("POST", "/v1/tokenize", &Api::tokenize, Key::needed, BodyUse::read);
  add("POST", "/v1/detokenize", &Api::detokenize, Key::needed, BodyUse::read);
  add("GET", "/v1/models", &Api::models, Key::needed, BodyUse::ignored);
  add("GET", "/v1/models/{id}", &Api::model, Key::needed, BodyUse::ignored);
  add("POST", "/v1/load", &Api::load, Key::needed, BodyUse::ignored);
  add("POST", "/v1/unload", &Api::unload, Key::needed, BodyUse::ignored);
  add("DELETE", "/v1/requests/{id}", &Api::cancel_request, Key::needed, BodyUse::ignored);
  add("GET", "/health", &Api::health, Key::not_needed, BodyUse::ignored);
  add("GET", "/ready", &Api::ready, Key::not_needed, BodyUse::ignored);
  add("GET", "/status", &Api::status, Key::needed, BodyUse::ignored);
  add("GET", "/metrics", &Api::metrics, Key::needed, BodyUse::ignored);
  return table;
}

}  // namespace vigil::http
