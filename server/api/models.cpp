// GET /v1/models, GET /v1/models/{id}, and the choice of a model by a request.
#include <algorithm>
#include <utility>

#include "server/api/json_text.hpp"
#include "server/api/model_choice.hpp"
#include "server/api/state.hpp"
#include "server/text/utf8.hpp"

namespace vigil::api {

namespace {

void append_model(std::string& out, const Model& model, const std::string& id) {
  out += R"({"id":)";
  append_json_string(out, id);
  out += R"(,"object":"model","created":)";
  append_json_integer(out, model.created);
  out += R"(,"owned_by":"vigil"})";
}

}  // namespace

bool names(const Model& model, const std::string& name) {
  return name == model.id || std::find(model.aliases.begin(), model.aliases.end(), name) != model.aliases.end();
}

turn::RequestError unknown_model(const std::string& name) {
  constexpr size_t shown_bytes = 200;
  return {turn::ErrorCode::model_not_found,
          "There is no model \"" + std::string(text::clip_utf8(text::valid_utf8(name), shown_bytes)) +
              "\" here; GET /v1/models lists the names.",
          "model", 1};
}

std::shared_ptr<const Model> choose_model(Fields& fields, const std::shared_ptr<const Model>& served) {
  const auto name = fields.text("model");
  if (fields.failed()) return nullptr;
  if (!served) {
    fields.fail(turn::RequestError{turn::ErrorCode::engine_start_failed, "No model file could be read; see the daemon's log.", "", 5});
    return nullptr;
  }
  if (!name || name->empty() || names(*served, *name)) return served;
  fields.fail(unknown_model(*name));
  return nullptr;
}

std::unique_ptr<Exchange> Api::models(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(request, channel, [&]() -> std::unique_ptr<Exchange> {
    std::string out = R"({"object":"list","data":[)";
    if (const auto model = state_->surroundings.model()) {
      append_model(out, *model, model->id);
      for (const std::string& alias : model->aliases) {
        if (alias == model->id) continue;
        out += ',';
        append_model(out, *model, alias);
      }
    }
    out += "]}";
    respond_json(*channel, std::move(out));
    return nullptr;
  });
}

std::unique_ptr<Exchange> Api::model(HttpRequest request, std::shared_ptr<Channel> channel) {
  return guarded(request, channel, [&]() -> std::unique_ptr<Exchange> {
    const auto model = state_->surroundings.model();
    if (!model || !names(*model, request.path_parameter)) {
      respond_error(*channel, unknown_model(request.path_parameter));
      return nullptr;
    }
    std::string out;
    append_model(out, *model, request.path_parameter);
    respond_json(*channel, std::move(out));
    return nullptr;
  });
}

}  // namespace vigil::api
