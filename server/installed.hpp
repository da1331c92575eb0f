// What a configuration names on disk: the model file and the children's programs, found. Not here: reading the model (model_file.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "protocol/result.hpp"
#include "server/config/config.hpp"
#include "server/config/program.hpp"

namespace vigil {

struct Installed {
  std::string model_path;    // the configured one, else the bundled model
  config::Program engine;
  std::optional<config::Program> vision;  // nothing: no pictures
  std::string projector_path;  // the configured one, else the bundled model's where that is served by our own engine, else empty
};

// An error says which key names what is not there.
Result<Installed> find_installed(const config::Config& config);

// Which file stands at a path now: a file that was replaced or written again is another. All zero when there is none.
struct FileIdentity {
  uint64_t device = 0, inode = 0, size = 0;
  int64_t changed_ns = 0;
  bool operator==(const FileIdentity&) const = default;
};
FileIdentity file_identity(const std::string& path);

}  // namespace vigil
