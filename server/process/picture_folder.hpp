// The daemon's private folder for pictures and their embeddings: made at the start with mode 0700, removed at the end; what daemons that
// were killed left behind is swept away. A lock on the folder itself says that its daemon lives, whatever namespace its pid is in.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "protocol/result.hpp"
#include "server/process/unique_fd.hpp"

namespace vigil::process {

// Where it is made, the first that can be written: RUNTIME_DIRECTORY (the service's own), XDG_RUNTIME_DIR, TMPDIR, /tmp. Values that are not
// absolute paths count as absent; of a list the first counts.
std::vector<std::string> picture_folder_places(const char* runtime_directory, const char* xdg_runtime_dir, const char* tmpdir);

class PictureFolder {
 public:
  // Makes <place>/vigil-pictures-XXXXXX. Sweeps others of ours there whose daemon is dead. An error names the path.
  static Result<PictureFolder> make(const std::string& place);
  static Result<PictureFolder> make_in_one_of(const std::vector<std::string>& places);
  PictureFolder(PictureFolder&&) noexcept = default;
  PictureFolder& operator=(PictureFolder&&) = delete;
  ~PictureFolder();                       // removes it with everything in it

  const std::string& path() const { return path_; }
  std::vector<std::string> swept() const { return swept_; }

 private:
  PictureFolder(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  std::string path_;
  UniqueFd lock_;                         // of the folder itself, with an exclusive flock
  std::vector<std::string> swept_;
};

}  // namespace vigil::process
