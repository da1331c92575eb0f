// A body on its way to fields: read here when it is short, by the workers when it is long, so that no body holds up the decisions that all
// others wait for. Not here: the JSON (json_read.hpp), what fields mean.
#pragma once

#include <functional>
#include <memory>

#include "server/api/request_fields.hpp"
#include "server/api/state.hpp"

namespace vigil::api {

struct BodyWork {
  // Perhaps on a worker's thread: it sees the fields and what it has captured, nothing else of the Api. Failures stick to the fields.
  std::function<void(Fields&)> read;
  // On the decision thread, after a reading without failure; not when the client has left or the request was ended meanwhile.
  std::function<void(HttpRequest)> go_on;  // the request without its body
};

// Ends the flow with the body's fault, or goes on, now or later. A channel that is read for later knows by plan_later() that its plan is open.
void with_body(const std::shared_ptr<ApiState>& state, const std::shared_ptr<Flow>& flow, HttpRequest request, BodyWork work);

}  // namespace vigil::api
