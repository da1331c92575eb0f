// See request_fields.hpp.
#include "server/api/request_fields.hpp"

#include <cmath>
#include <limits>
#include <utility>

#include "server/api/json_text.hpp"
#include "server/json/json.hpp"

namespace vigil::api {

using json = nlohmann::ordered_json;

turn::RequestError bad_field(std::string param, std::string_view message) {
  turn::RequestError error{turn::ErrorCode::invalid_request, param + " ", std::move(param), 1};
  error.message.append(message);
  error.message += '.';
  return error;
}

std::optional<int64_t> whole_number(const json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  constexpr double exact = 9007199254740992.0;  // 2^53: above it neighbouring doubles are more than 1 apart
  const double number = value.get<double>();
  if (!(std::abs(number) <= exact) || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

const json* Fields::find(std::string_view name) {
  if (error_) return nullptr;
  const auto found = object_.find(name);
  if (found == object_.end() || found->is_null()) return nullptr;
  return &*found;
}

std::string Fields::path(std::string_view name) const {
  if (where_.empty()) return std::string(name);
  if (name.empty()) return where_;
  return where_ + "." + std::string(name);
}

void Fields::fail(std::string_view name, std::string message) { fail(bad_field(path(name), message)); }

std::optional<std::string> Fields::text(std::string_view name) {
  const json* value = find(name);
  if (!value) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  fail(name, std::string("must be a string, not ") + value->type_name());
  return std::nullopt;
}

std::optional<bool> Fields::flag(std::string_view name) {
  const json* value = find(name);
  if (!value) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  fail(name, std::string("must be true or false, not ") + value->type_name());
  return std::nullopt;
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t min, int64_t max) {
  const json* value = find(name);
  if (!value) return std::nullopt;
  const std::optional<int64_t> number = whole_number(*value);
  if (number && *number >= min && *number <= max) return number;
  fail(name, "must be a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  return std::nullopt;
}

std::optional<double> Fields::number(std::string_view name, double min, double max) {
  const json* value = find(name);
  if (!value) return std::nullopt;
  if (value->is_number()) {
    const double number = value->get<double>();
    if (number >= min && number <= max) return number;
  }
  std::string message = "must be a number from ";
  append_json_number(message, min);
  message += " to ";
  append_json_number(message, max);
  fail(name, std::move(message));
  return std::nullopt;
}

const json* Fields::array(std::string_view name) {
  const json* value = find(name);
  if (!value || value->is_array()) return value;
  fail(name, std::string("must be an array, not ") + value->type_name());
  return nullptr;
}

const json* Fields::object(std::string_view name) {
  const json* value = find(name);
  if (!value || value->is_object()) return value;
  fail(name, std::string("must be an object, not ") + value->type_name());
  return nullptr;
}

}  // namespace vigil::api
