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
// The body's `model` field: missing, null or empty means the default. On failure null, and `fields` has the error.
std::shared_ptr<const Model> choose_model(Fields& fields, const Surroundings& around);

}  // namespace vigil::api
