// See open_files.hpp.
#include "server/open_files.hpp"

#include <sys/resource.h>

namespace vigil {

uint64_t raise_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const uint64_t original = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return original;
}

}  // namespace vigil
