// Every part is checked before anything is bound: a part of another model would give nonsense in silence.
#include "engine/schedule/split_files.hpp"

#include <cstdio>
#include <set>

#include "engine/gguf/byte_source.hpp"

namespace vigil::schedule {
namespace {

std::string part_suffix(int64_t number, int64_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05lld-of-%05lld.gguf", static_cast<long long>(number), static_cast<long long>(count));
  return text;
}

}  // namespace

Result<std::vector<std::string>> part_paths(const std::string& path, const gguf::File& header) {
  const Result<int64_t> count = header.integer_or("split.count", 1), index = header.integer_or("split.no", 0);
  if (!count) return Error{count.error()};
  if (!index) return Error{index.error()};
  if (*count == 0 || *count == 1) return std::vector<std::string>{path};
  if (*count < 0 || *count > max_file_parts) {
    return Error{"split.count is " + std::to_string(*count) + ", not between 1 and " + std::to_string(max_file_parts)};
  }
  if (*index != 0) return Error{"this is part " + std::to_string(*index + 1) + " of " + std::to_string(*count) + "; give the first part"};
  const std::string first = part_suffix(1, *count);
  if (!path.ends_with(first)) return Error{"split.count is " + std::to_string(*count) + ", but the file's name does not end in " + first};
  const std::string stem = path.substr(0, path.size() - first.size());
  std::vector<std::string> paths;
  for (int64_t number = 1; number <= *count; ++number) paths.push_back(stem + part_suffix(number, *count));
  return paths;
}

Result<gguf::File> open_part(const std::string& path, size_t index, size_t count) {
  const Result<std::unique_ptr<gguf::ByteSource>> source = gguf::open_pread(path);
  if (!source) return Error{source.error()};
  Result<gguf::File> header = gguf::File::parse(**source);
  if (!header) return Error{path + ": " + header.error()};
  const Result<int64_t> number = header->integer("split.no"), total = header->integer("split.count");
  if (!number) return Error{path + ": " + number.error()};
  if (!total) return Error{path + ": " + total.error()};
  if (*number != static_cast<int64_t>(index) || *total != static_cast<int64_t>(count)) {
    return Error{path + ": says that it is part " + std::to_string(*number + 1) + " of " + std::to_string(*total) + ", where part " +
                 std::to_string(index + 1) + " of " + std::to_string(count) + " belongs"};
  }
  return header;
}

Result<void> check_parts(const std::vector<model::FilePart>& parts) {
  std::set<std::string_view> names;
  for (const model::FilePart& part : parts) {
    for (const gguf::Tensor& tensor : part.file->tensors()) {
      if (!names.insert(tensor.name).second) return Error{"tensor '" + tensor.name + "' is in two parts"};
    }
  }
  const Result<int64_t> announced = parts.front().file->integer_or("split.tensors.count", static_cast<int64_t>(names.size()));
  if (!announced) return Error{announced.error()};
  if (parts.size() > 1 && *announced != static_cast<int64_t>(names.size())) {
    return Error{"split.tensors.count is " + std::to_string(*announced) + ", the parts have " + std::to_string(names.size())};
  }
  return {};
}

}  // namespace vigil::schedule
