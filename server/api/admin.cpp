// POST /v1/load and /v1/unload: orders about the engine that answer when they are done. A client that leaves changes nothing: a load
// belongs to the daemon.
#include <utility>

#include "server/api/json_text.hpp"
#include "server/api/state.hpp"

namespace vigil::api {

namespace {

// The order goes on without its client; the channel of a client that left takes nothing.
class Waiting final : public Exchange {
 public:
  void client_left() override {}
  void reader_blocked() override {}
  void reader_ready() override {}
};

std::string loaded_body(const EngineStatus& engine) {
  std::string out = R"({"status":"ready","generation":)";
  append_json_integer(out, static_cast<int64_t>(engine.generation));
  out += R"(,"context":)";
  append_json_integer(out, engine.context);
  out += '}';
  return out;
}

}  // namespace

std::unique_ptr<Exchange> Api::load(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(request, channel, [&]() -> std::unique_ptr<Exchange> {
    state_->surroundings.load([channel, weak = std::weak_ptr<ApiState>(state_)](const std::optional<turn::RequestError>& error) {
      const auto state = weak.lock();
      if (error) return respond_error(*channel, *error);
      if (state) respond_json(*channel, loaded_body(state->surroundings.engine()));
    });
    return std::make_unique<Waiting>();
  });
}

std::unique_ptr<Exchange> Api::unload(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(request, channel, [&]() -> std::unique_ptr<Exchange> {
    state_->surroundings.unload([channel](const std::optional<turn::RequestError>& error) {
      if (error) return respond_error(*channel, *error);
      respond_json(*channel, R"({"status":"unloaded"})");
    });
    return std::make_unique<Waiting>();
  });
}

}  // namespace vigil::api
