// Shares of a model's layers between several GPUs, as the daemon's configuration and the engine's flag have them.
#pragma once

#include <string_view>
#include <vector>

#include "protocol/result.hpp"

namespace vigil::protocol {

inline constexpr size_t max_layer_shares = 64;

// "3,1": one number for each GPU, 0 for one that is to have no layer. Empty text = no shares.
Result<std::vector<double>> parse_layer_split(std::string_view text);

}  // namespace vigil::protocol
