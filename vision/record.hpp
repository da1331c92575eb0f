// SVE1 records, as the daemon and the engine take them: magic "SVE1", int32 n, nx, ny, width, then n x width float32, little-endian
// (docs/line-protocol.md). Written only; the daemon checks what it reads by code of its own.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "protocol/result.hpp"

namespace vigil::vision {

struct RecordShape {
  int64_t rows = 0, columns_of_grid = 0, rows_of_grid = 0, width = 0;
};

// A new file of mode 0600 that holds the record and nothing else; when it fails, a fault() of ours, no file stays behind.
Result<void> write_record(const std::string& path, const RecordShape& shape, std::span<const float> values);

}  // namespace vigil::vision
