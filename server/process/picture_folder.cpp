// See picture_folder.hpp.
#include "server/process/picture_folder.hpp"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>

namespace vigil::process {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "vigil-pictures-";
constexpr int tries = 10;

// The folder, open and locked by us; nothing when somebody else has it, or when it is none of ours.
UniqueFd lock_folder(const std::string& path) {
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info {};
  if (!folder || ::fstat(folder.get(), &info) != 0 || info.st_uid != ::geteuid()) return {};
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) return {};
  return folder;
}

// Between mkdtemp and the lock a sweeper may have taken the folder for a dead daemon's.
bool still_there(const std::string& path, const UniqueFd& folder) {
  struct stat named {}, open {};
  return ::lstat(path.c_str(), &named) == 0 && ::fstat(folder.get(), &open) == 0 && named.st_ino == open.st_ino && named.st_dev == open.st_dev;
}

void remove_folder(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

std::vector<std::string> sweep(const std::string& place) {
  std::vector<std::string> swept;
  std::error_code problem;
  for (auto entry = fs::directory_iterator(place, problem); !problem && entry != fs::directory_iterator(); entry.increment(problem)) {
    const std::string path = entry->path();
    if (!entry->path().filename().string().starts_with(prefix)) continue;
    const UniqueFd folder = lock_folder(path);
    if (!folder) continue;
    remove_folder(path);
    swept.push_back(path);
  }
  return swept;
}

}  // namespace

std::vector<std::string> picture_folder_places(const char* runtime_directory, const char* xdg_runtime_dir, const char* tmpdir) {
  std::vector<std::string> places;
  const std::string_view own = runtime_directory ? std::string_view(runtime_directory) : std::string_view();
  for (const std::string_view place : {own.substr(0, own.find(':')), std::string_view(xdg_runtime_dir ? xdg_runtime_dir : ""),
                                       std::string_view(tmpdir ? tmpdir : ""), std::string_view("/tmp")}) {
    if (place.starts_with('/')) places.emplace_back(place);
  }
  return places;
}

Result<PictureFolder> PictureFolder::make_in_one_of(const std::vector<std::string>& places) {
  std::string tried;
  for (const std::string& place : places) {
    auto folder = make(place);
    if (folder) return folder;
    tried += (tried.empty() ? "" : "; ") + folder.error();
  }
  return Error{tried + "; set TMPDIR to a place that can be written"};
}

Result<PictureFolder> PictureFolder::make(const std::string& place) {
  std::vector<std::string> swept = sweep(place);
  for (int i = 0; i < tries; ++i) {
    std::string path = place + "/" + std::string(prefix) + "XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) return Error{"cannot make a folder for pictures in " + place + ": " + std::strerror(errno)};
    UniqueFd lock = lock_folder(path);
    if (!lock || !still_there(path, lock)) continue;
    PictureFolder folder(std::move(path), std::move(lock));
    folder.swept_ = std::move(swept);
    return folder;
  }
  return Error{"cannot keep a folder for pictures in " + place + ": others remove it"};
}

PictureFolder::~PictureFolder() {
  if (lock_) remove_folder(path_);
}

}  // namespace vigil::process
