// The file of one picture, in memory. Untrusted: its size is held against the limit before anything is allocated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/result.hpp"

namespace vigil::vision {

// A regular file of at most `most_bytes`. Over the limit is the picture's fault, all else a fault() of ours.
Result<std::vector<uint8_t>> read_picture_file(const std::string& path, int64_t most_bytes);

}  // namespace vigil::vision
