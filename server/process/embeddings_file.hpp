// SVE1 records, the files in which picture embeddings travel: magic "SVE1", int32 n, nx, ny, width, then n x width float32, all little-endian
// (docs/line-protocol.md). Checked before an engine sees them, and joined into the one file of a request. Not here: whose files they are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/result.hpp"

namespace vigil::process {

// Of one picture; the child promises it with READY and OK, the record has to keep it.
struct RecordShape {
  int64_t rows = 0;            // n: embedding rows, each for one image token
  int64_t nx = 0, ny = 0;      // the grid they came from
  int64_t width = 0;           // floats of a row
  bool operator==(const RecordShape&) const = default;
};

inline constexpr int64_t record_header_bytes = 20;
inline constexpr int64_t max_record_rows = 1 << 16;                 // of one picture
inline constexpr int64_t max_record_bytes = int64_t{1} << 30;

// What the promise alone is worth: caps, no file is looked at.
Result<void> check_shape(const RecordShape& promised);
// The file must be a regular one that holds exactly this record, every number of it finite. Returns its size in bytes.
Result<int64_t> check_record(const std::string& path, const RecordShape& promised);
// The records, in order, one behind the other in a new file of mode 0600.
Result<void> join_records(const std::vector<std::string>& records, const std::string& path);

// The record as bytes; for tools and tests, and the definition of the format in code.
std::string encode_record(const RecordShape& shape, const std::vector<float>& values);

}  // namespace vigil::process
