// Which model a request names. Not here: how models are loaded.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "server/api/api.hpp"
#include "server/api/request_fields.hpp"

namespace vigil::api {

bool names(const Model& model, const std::string& name);  // its id or an alias
turn::RequestError unknown_model(const std::string& name);
// The body's `model` field: missing, null or empty means `served`, which may be null (no model). On failure null, and `fields` has the error.
std::shared_ptr<const Model> choose_model(Fields& fields, const std::shared_ptr<const Model>& served);

}  // namespace vigil::api
