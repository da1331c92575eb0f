// See body.hpp.
#include "server/api/body.hpp"

#include <exception>
#include <optional>
#include <utility>

#include "server/api/json_read.hpp"
#include "server/json/json.hpp"

namespace vigil::api {

namespace {

struct Reading {
  HttpRequest request;
  BodyWork work;
  std::shared_ptr<Flow> flow;
  std::optional<turn::RequestError> error;

  // The tree of a long body takes as long to free as to build: it lives and dies in here.
  void read() {
    const std::string text = std::exchange(request.body, {});
    if (flow->left) return;
    try {
      auto body = read_json_object(text);
      if (auto* flaw = std::get_if<turn::RequestError>(&body)) {
        error = std::move(*flaw);
        return;
      }
      Fields fields(std::get<nlohmann::ordered_json>(body));
      work.read(fields);
      error = fields.error();
    } catch (const std::exception& failure) {
      error = internal_error(request.id, failure.what());
    } catch (...) {
      error = internal_error(request.id, "an exception of unknown type");
    }
  }

  void go_on() {
    if (flow->left || flow->ended) return;
    if (error) return flow->fail(*error);
    try {
      work.go_on(std::move(request));
    } catch (const std::exception& failure) {
      flow->fail(internal_error(flow->request_id, failure.what()));
    }
  }
};

}  // namespace

void with_body(const std::shared_ptr<ApiState>& state, const std::shared_ptr<Flow>& flow, HttpRequest request, BodyWork work) {
  if (state->closed) return flow->fail(shutting_down_error());
  auto reading = std::make_shared<Reading>();
  reading->request = std::move(request);
  reading->work = std::move(work);
  reading->flow = flow;
  const size_t bytes = reading->request.body.size();
  if (bytes <= state->surroundings.settings.inline_body_bytes) {
    reading->read();
    return reading->go_on();
  }
  flow->channel->plan_later();
  state->preparing.insert(flow);
  state->surroundings.workers.run(bytes, [reading] { reading->read(); },
                                  [reading, weak = std::weak_ptr<ApiState>(state)] {
                                    const auto alive = weak.lock();
                                    if (!alive) return;
                                    alive->preparing.erase(reading->flow);
                                    reading->go_on();
                                  });
}

}  // namespace vigil::api
