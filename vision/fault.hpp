// Whose fault an error is: most are the picture's, and its client is told so; those that are made here are the child's own, its files' or its memory's.
// No path stands in either: clients read them. Not here: the line that carries them (protocol/vision_fault.hpp).
#pragma once

#include <string>
#include <string_view>

#include "protocol/result.hpp"
#include "protocol/vision_fault.hpp"

namespace vigil::vision {

inline Error fault(std::string_view why) { return Error{std::string(protocol::vision_fault) + std::string(why)}; }
inline bool is_fault(std::string_view error) { return error.starts_with(protocol::vision_fault); }

}  // namespace vigil::vision
