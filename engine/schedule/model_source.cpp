// The first part says how many there are; each is checked before any is used.
#include "engine/schedule/model_source.hpp"

#include "engine/schedule/split_files.hpp"

namespace vigil::schedule {

Result<ModelSource> ModelSource::open(const std::string& path) {
  const Result<std::unique_ptr<gguf::ByteSource>> source = gguf::open_pread(path);
  if (!source) return Error{source.error()};
  Result<gguf::File> first = gguf::File::parse(**source);
  if (!first) return Error{path + ": " + first.error()};
  const Result<std::vector<std::string>> paths = part_paths(path, *first);
  if (!paths) return Error{path + ": " + paths.error()};
  ModelSource opened;
  opened.headers_.push_back(std::move(*first));
  for (size_t i = 0; i < paths->size(); ++i) {
    if (i > 0) {
      Result<gguf::File> header = open_part((*paths)[i], i, paths->size());
      if (!header) return Error{header.error()};
      opened.headers_.push_back(std::move(*header));
    }
    Result<gguf::Mapping> mapping = gguf::Mapping::open((*paths)[i]);
    if (!mapping) return Error{mapping.error()};
    opened.mappings_.push_back(std::move(*mapping));
  }
  if (const Result<void> whole = check_parts(opened.files().parts()); !whole) return Error{path + ": " + whole.error()};
  return opened;
}

model::Files ModelSource::files() const {
  std::vector<model::FilePart> parts;
  for (size_t i = 0; i < headers_.size(); ++i) parts.push_back({&headers_[i], mappings_[i].bytes()});
  return model::Files(std::move(parts));
}

}  // namespace vigil::schedule
