// What must hold between values, and rules that a range cannot say. Pure. Private to the room.
#pragma once

#include <string>
#include <vector>

#include "server/config/config.hpp"

namespace vigil::config {

// `api_keys` are all keys, those of the file too. Mistakes make the configuration unusable; notes are worth a warning.
void check_relations(const Config& config, const std::vector<std::string>& api_keys, std::vector<std::string>& mistakes,
                     std::vector<std::string>& notes);
bool is_loopback_host(const std::string& host);  // localhost, 127.0.0.0/8, ::1

}  // namespace vigil::config
