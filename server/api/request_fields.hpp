// Reads the fields of a JSON object one by one. null counts as absent; the first wrong field sticks as the error, which names it in `param`;
// fields that nobody asks for are ignored. Not here: which fields a dialect has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "server/turn/error.hpp"

namespace vigil::api {

class Fields {
 public:
  // `object` must outlive this. `where` is the object's own name: "" for the body, "messages[2]" inside it.
  explicit Fields(const nlohmann::ordered_json& object, std::string where = "") : object_(object), where_(std::move(where)) {}

  // Null when absent, null or after a failure.
  const nlohmann::ordered_json* find(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  std::optional<bool> flag(std::string_view name);
  // Whole numbers, also when written as 16.0.
  std::optional<int64_t> integer(std::string_view name, int64_t min, int64_t max);
  std::optional<double> number(std::string_view name, double min, double max);
  const nlohmann::ordered_json* array(std::string_view name);
  const nlohmann::ordered_json* object(std::string_view name);

  // "messages[2].content"; the name of a field as the client sees it.
  std::string path(std::string_view name) const;
  void fail(std::string_view name, std::string message);                        // "<path> <message>."
  void fail(turn::RequestError error) { if (!error_) error_ = std::move(error); }
  bool failed() const { return error_.has_value(); }
  const std::optional<turn::RequestError>& error() const { return error_; }

 private:
  const nlohmann::ordered_json& object_;
  std::string where_;
  std::optional<turn::RequestError> error_;
};

// A JSON value as a whole number, also when written as 16.0; nothing when it is none or does not fit.
std::optional<int64_t> whole_number(const nlohmann::ordered_json& value);
turn::RequestError bad_field(std::string param, std::string_view message);

}  // namespace vigil::api
