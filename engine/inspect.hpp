// What a model file is, without loading it: vigil-engine --inspect FILE, and `vigil inspect`. Reads headers only.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/result.hpp"

namespace vigil::engine {

// A text of some dozen lines: architecture, size, vocabulary, weight types, memory by context and what of it fits into `available_bytes` (0 =
// unknown). A model that this version cannot run is described too, with the reason. An error: the file cannot be read or is no model.
Result<std::string> inspect(const std::string& path, uint64_t available_bytes);

}  // namespace vigil::engine
