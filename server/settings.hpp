// From the configuration to what the rooms take: limits, options, arguments. Values in, values out.
#pragma once

#include <string>
#include <vector>

#include "server/config/load.hpp"
#include "server/http/options.hpp"
#include "server/supervise/limits.hpp"
#include "server/turn/desk.hpp"

namespace vigil {

supervise::ChildLimits child_limits(const config::Engine& engine);
supervise::ChildLimits without_restart(supervise::ChildLimits limits);  // for a daemon that stops
turn::DeskLimits desk_limits(const config::Config& config);
http::ServerOptions server_options(const config::Loaded& loaded, int64_t connections);  // connections: for how many there is room
enum class Ownership : uint8_t { own, foreign };
// What our own engine is told; a foreign one gets `engine.args` alone.
std::vector<std::string> engine_args(const config::Config& config, const std::string& model, Ownership whose);

}  // namespace vigil
