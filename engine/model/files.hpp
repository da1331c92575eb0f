// A model's file as the loader sees it: one, or the parts of a split one, of which the first holds the metadata. Owns nothing.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/gguf/file.hpp"

namespace vigil::model {

struct FilePart {
  const gguf::File* file;
  std::span<const std::byte> bytes;  // the whole file
};

class Files {
 public:
  Files(const gguf::File& file, std::span<const std::byte> bytes) : parts_{{&file, bytes}} {}
  explicit Files(std::vector<FilePart> parts) : parts_(std::move(parts)) {}  // at least one

  const gguf::File& metadata() const { return *parts_.front().file; }
  const std::vector<FilePart>& parts() const { return parts_; }
  bool has(std::string_view tensor) const { return find(tensor) != nullptr; }
  const gguf::Tensor* find(std::string_view tensor) const {
    for (const FilePart& part : parts_) {
      if (const gguf::Tensor* found = part.file->tensor(tensor)) return found;
    }
    return nullptr;
  }

 private:
  std::vector<FilePart> parts_;
};

}  // namespace vigil::model
