// A request's body as a JSON value, or the 400 that says where it is wrong. Not here: what the fields mean (request_fields.hpp).
#pragma once

#include <cstddef>
#include <string_view>
#include <variant>

#include <nlohmann/json_fwd.hpp>

#include "server/turn/error.hpp"

namespace vigil::api {

inline constexpr size_t max_json_depth = 128;  // arrays and objects inside each other; deeper bodies are refused where the limit is passed

inline constexpr size_t max_json_values = 2'100'000;  // a prompt of 2,000,000 ids and the rest; each value takes up to 100 bytes of memory

// Strict RFC 8259, without recursion. Of duplicate keys the last one counts. Wrong UTF-8, lone surrogates, numbers that no double holds and
// values nested too deep are `invalid_json` with the position of the byte (from 1); too many values are `request_too_large`, a body that is
// no object is `invalid_request`.
// On success the value is an object.
std::variant<nlohmann::ordered_json, turn::RequestError> read_json_object(std::string_view body);

}  // namespace vigil::api
