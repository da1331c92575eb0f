// Shorthands for the configuration's tests, and a folder that goes away again.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "server/config/load.hpp"

namespace vigil::config {

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/vigil-config-XXXXXX";
    path_ = ::mkdtemp(name);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::string& path() const { return path_; }
  std::string write(const std::string& name, const std::string& text) const {
    const std::string file = path_ + "/" + name;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }

 private:
  std::string path_;
};

inline Loaded from_text(const std::string& text) { return load_text(text, "/etc/vigil", Sources{}); }
inline Loaded from_environment(std::vector<std::pair<std::string, std::string>> environment) {
  return load(Sources{"", std::move(environment), {}, "/work dir"});
}
inline Loaded from_sets(std::vector<std::string> sets) { return load(Sources{"", {}, std::move(sets), "/work dir"}); }

inline std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const auto& line : lines) all += line + "\n";
  return all;
}
// True when there is exactly one mistake and it holds every one of `parts`.
inline bool one_mistake(const Loaded& loaded, const std::vector<std::string>& parts) {
  if (loaded.mistakes.size() != 1) return false;
  for (const auto& part : parts) {
    if (loaded.mistakes[0].find(part) == std::string::npos) return false;
  }
  return true;
}

}  // namespace vigil::config
