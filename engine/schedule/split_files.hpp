// Models that come as several files, NAME-00001-of-0000N.gguf: which files belong together, and whether they do.
// Naming and keys (split.no, split.count, split.tensors.count): ggml project, llama.cpp's gguf-split.
#pragma once

#include <string>
#include <vector>

#include "engine/model/files.hpp"
#include "protocol/result.hpp"

namespace vigil::schedule {

inline constexpr int64_t max_file_parts = 1'000;

// The paths of all parts of a model, given the first and its header; only `path` where the file is whole.
Result<std::vector<std::string>> part_paths(const std::string& path, const gguf::File& header);
// The header of part `index` (from 0) of `count`. The error begins with the path.
Result<gguf::File> open_part(const std::string& path, size_t index, size_t count);
// No tensor may be in two parts, and all that the first part announces must be there.
Result<void> check_parts(const std::vector<model::FilePart>& parts);

}  // namespace vigil::schedule
