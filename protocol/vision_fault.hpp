// The one word in the texts of the vision child's ERR that has a meaning (docs/line-protocol.md). Not here: its lines (lines.hpp).
#pragma once

#include <string_view>

namespace vigil::protocol {

// An ERR whose text begins so is no word about the picture: the child's files, its memory or its projector failed.
inline constexpr std::string_view vision_fault = "unavailable: ";

}  // namespace vigil::protocol
