// A model's files, opened: headers read and checked, tensor data mapped. Not here: what is in them.
#pragma once

#include <string>
#include <vector>

#include "engine/gguf/byte_source.hpp"
#include "engine/model/files.hpp"
#include "protocol/result.hpp"

namespace vigil::schedule {

class ModelSource {
 public:
  // `path` names a whole model or the first part of a split one. Errors begin with the path of the part.
  static Result<ModelSource> open(const std::string& path);

  // As long as this object lives, and is not moved.
  model::Files files() const;
  // For who needs the data longer than the headers.
  std::vector<gguf::Mapping> take_mappings() { return std::move(mappings_); }

 private:
  ModelSource() = default;
  std::vector<gguf::File> headers_;
  std::vector<gguf::Mapping> mappings_;
};

}  // namespace vigil::schedule
