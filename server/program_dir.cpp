// By /proc/self/exe.
#include "server/program_dir.hpp"

#include <climits>
#include <unistd.h>

namespace vigil {

std::string own_program_dir() {
  char path[PATH_MAX];
  const ssize_t length = ::readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) return ".";
  const std::string whole(path, static_cast<size_t>(length));
  return whole.substr(0, whole.rfind('/'));
}

}  // namespace vigil
