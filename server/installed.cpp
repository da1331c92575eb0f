// See installed.hpp.
#include "server/installed.hpp"

#include <cstdlib>
#include <sys/stat.h>
#include <utility>

#include "server/model_file.hpp"
#include "server/program_dir.hpp"
#include "server/vision.hpp"

namespace vigil {

Result<Installed> find_installed(const config::Config& config) {
  Installed found;
  const std::string program_dir = own_program_dir();
  found.model_path = config.model;
  if (found.model_path.empty()) {
    auto bundled = find_bundled_model(program_dir);
    if (!bundled) return Error{bundled.error()};
    found.model_path = *bundled;
  }
  const char* path = std::getenv("PATH");
  const auto engine = config::resolve_program({"engine.exe", config.engine.exe, config.engine.own, "vigil-engine", program_dir, path ? path : ""});
  if (!engine) return Error{engine.error()};
  found.engine = *engine;
  found.projector_path = config.vision.mmproj;
  // Its rows fit the bundled model alone, and a foreign engine serves what it likes.
  if (config.model.empty() && found.engine.own && !vision_wanted(config.vision)) found.projector_path = bundled_projector(found.model_path);
  auto vision = find_vision(config.vision, found.projector_path, program_dir);
  if (!vision) return Error{vision.error()};
  found.vision = std::move(*vision);
  return found;
}

FileIdentity file_identity(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return {};
  return {info.st_dev, info.st_ino, static_cast<uint64_t>(info.st_size), info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec};
}

}  // namespace vigil
