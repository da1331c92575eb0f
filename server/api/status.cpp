// The daemon about itself: /health, /ready, /status, /metrics, and DELETE /v1/requests/{id}. No text of any request, ever.
#include <algorithm>
#include <cmath>
#include <utility>

#include "server/api/errors.hpp"
#include "server/api/json_text.hpp"
#include "server/api/state.hpp"
#include "server/text/utf8.hpp"

namespace vigil::api {

namespace {

double rounded(double seconds) { return std::round(seconds * 1000) / 1000; }

std::string_view phase_name(turn::Phase phase) {
  switch (phase) {
    case turn::Phase::queued: return "queued";
    case turn::Phase::loading: return "loading";
    case turn::Phase::encoding: return "encoding";
    case turn::Phase::prefill: return "prefill";
    case turn::Phase::decoding: return "decoding";
    case turn::Phase::stopping: return "stopping";
  }
  return "";
}

void append_text(std::string& out, std::string_view key, std::string_view value) {
  out += key;
  append_json_string(out, value);
}
void append_count(std::string& out, std::string_view key, int64_t value) {
  out += key;
  append_json_integer(out, value);
}
void append_seconds(std::string& out, std::string_view key, double value) {
  out += key;
  append_json_number(out, rounded(value));
}

void append_engine(std::string& out, const EngineStatus& engine) {
  append_text(out, R"("engine":{"state":)", engine.state);
  append_count(out, R"(,"generation":)", static_cast<int64_t>(engine.generation));
  append_count(out, R"(,"pid":)", engine.pid);
  append_seconds(out, R"(,"in_state_s":)", engine.in_state_s);
  append_seconds(out, R"(,"load":)", engine.load);
  append_count(out, R"(,"context":)", engine.context);
  append_count(out, R"(,"slots":)", engine.slots);
  append_text(out, R"(,"reason":)", engine.reason);
  append_seconds(out, R"(,"retry_in_s":)", engine.retry_in_s);
  out += '}';
}

void append_vision(std::string& out, const VisionStatus& vision) {
  append_text(out, R"("vision":{"state":)", vision.state);
  append_count(out, R"(,"generation":)", static_cast<int64_t>(vision.generation));
  append_count(out, R"(,"pid":)", vision.pid);
  append_text(out, R"(,"reason":)", vision.reason);
  out += '}';
}

void append_active(std::string& out, const turn::ActiveRequest& active) {
  append_text(out, R"({"id":)", active.id);
  append_text(out, R"(,"phase":)", phase_name(active.phase));
  append_seconds(out, R"(,"held_s":)", active.held_s);
  out += active.stream ? R"(,"stream":true)" : R"(,"stream":false)";
  append_count(out, R"(,"prompt_tokens":)", active.prompt_tokens);
  append_count(out, R"(,"prefilled":)", active.prefilled);
  append_count(out, R"(,"generated":)", active.generated);
  out += '}';
}

std::string status_body(const Surroundings& around) {
  const turn::Snapshot snapshot = around.desk.snapshot(around.now());
  std::string out;
  append_text(out, R"({"version":)", around.settings.version);
  append_seconds(out, R"(,"uptime_s":)", around.uptime_s());
  out += ',';
  append_engine(out, around.engine());
  out += ',';
  append_vision(out, around.vision ? around.vision() : VisionStatus{});
  append_count(out, R"(,"requests":{"running":)", snapshot.running);
  append_count(out, R"(,"queued":)", snapshot.queued);
  append_count(out, R"(,"loading":)", snapshot.loading);
  append_count(out, R"(,"encoding":)", snapshot.encoding);
  append_count(out, R"(,"limit":)", snapshot.limit);
  out += R"(},"active":[)";
  for (size_t i = 0; i < snapshot.active.size(); ++i) {
    if (i > 0) out += ',';
    append_active(out, snapshot.active[i]);
  }
  append_count(out, R"(],"totals":{"served":)", static_cast<int64_t>(snapshot.served));
  append_count(out, R"(,"failed":)", static_cast<int64_t>(snapshot.failed));
  append_count(out, R"(,"cancelled":)", static_cast<int64_t>(snapshot.cancelled));
  append_count(out, R"(,"rejected":)", static_cast<int64_t>(snapshot.rejected));
  out += "}}";
  return out;
}

bool would_serve(const EngineStatus& engine) {
  if (engine.state == "ready") return true;
  return engine.lazy && (engine.state == "unloaded" || engine.state == "failed");
}

// A request of that id that the desk has not seen yet never reaches it.
bool cancel_preparing(ApiState& state, const std::string& id) {
  const auto found = std::find_if(state.preparing.begin(), state.preparing.end(),
                                  [&](const std::shared_ptr<Flow>& flow) { return flow->request_id == id && !flow->left && !flow->ended; });
  if (found == state.preparing.end()) return false;
  (*found)->fail(error_facts(turn::CancelledBy::api));
  return true;
}

}  // namespace

std::unique_ptr<Exchange> Api::health(HttpRequest, std::shared_ptr<Channel> channel) {
  respond_json(*channel, R"({"status":"ok"})");
  return nullptr;
}

std::unique_ptr<Exchange> Api::ready(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(request, channel, [&]() -> std::unique_ptr<Exchange> {
    const EngineStatus engine = state_->surroundings.engine();
    Response response;
    const bool served = would_serve(engine);
    append_text(response.body, R"({"status":)", served ? "ready" : "not ready");
    append_text(response.body, R"(,"engine":)", engine.state);
    append_text(response.body, R"(,"reason":)", engine.reason);
    append_seconds(response.body, R"(,"load":)", engine.load);
    response.body += '}';
    if (!served) {
      response.status = 503;
      response.headers.emplace_back("Retry-After", std::to_string(static_cast<int64_t>(std::clamp(std::ceil(engine.retry_in_s), 1.0, 86400.0))));
    }
    channel->respond(std::move(response));
    return nullptr;
  });
}

std::unique_ptr<Exchange> Api::status(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(request, channel, [&]() -> std::unique_ptr<Exchange> {
    respond_json(*channel, status_body(state_->surroundings));
    return nullptr;
  });
}

std::unique_ptr<Exchange> Api::metrics(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(request, channel, [&]() -> std::unique_ptr<Exchange> {
    Response response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = state_->surroundings.metrics_text();
    channel->respond(std::move(response));
    return nullptr;
  });
}

std::unique_ptr<Exchange> Api::cancel_request(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(request, channel, [&]() -> std::unique_ptr<Exchange> {
    const std::string& id = request.path_parameter;
    const Surroundings& around = state_->surroundings;
    if (cancel_preparing(*state_, id) || around.desk.cancel(id, around.now())) {
      std::string out;
      append_text(out, R"({"id":)", id);
      out += R"(,"cancelled":true})";
      respond_json(*channel, std::move(out));
      return nullptr;
    }
    constexpr size_t shown_bytes = 200;
    respond_error(*channel, {turn::ErrorCode::not_found,
                             "No request \"" + std::string(text::clip_utf8(text::valid_utf8(id), shown_bytes)) +
                                 "\" is running or waiting (GET /status lists those that are); if it comes within 10 s it will not be started.",
                             "id", 1});
    return nullptr;
  });
}

}  // namespace vigil::api
