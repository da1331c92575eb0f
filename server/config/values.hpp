// One value of one key: from JSON or from the text of a flag or environment variable into Config, checked against the table. Private to the room.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "protocol/result.hpp"
#include "server/config/keys.hpp"

namespace vigil::config {

// The error says what the value is and what is wanted, without the key's name; the value of a secret is never repeated.
Result<void> set_from_json(Config& config, const Key& key, const nlohmann::json& value);
// Lists and maps are JSON; texts are taken as they stand.
Result<void> set_from_text(Config& config, const Key& key, std::string_view text);

// Parses JSON with // comments; refuses duplicate keys, and says line and column of a mistake without quoting what stands there.
Result<nlohmann::json> parse_json(std::string_view text);

// Shortest text of a number: "30", "0.5".
std::string number_text(double value);

}  // namespace vigil::config
