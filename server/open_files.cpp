// See open_files.hpp.
#include "server/open_files.hpp"

#include <sys/resource.h>

#include <algorithm>

namespace vigil {

uint64_t raise_open_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const uint64_t original = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  return original;
}

int64_t connections_with_room(int64_t wanted) {
  constexpr int64_t kept = 160;  // children and their pipes, files, and 64 connections that are told that there are too many
  constexpr int64_t least = 16;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > static_cast<rlim_t>(INT32_MAX)) return wanted;
  const int64_t room = std::max(static_cast<int64_t>(limit.rlim_cur) - kept, least);
  return wanted > 0 ? std::min(wanted, room) : room;
}

std::string note_on_connections(int64_t wanted) {
  const int64_t room = connections_with_room(wanted);
  if (wanted <= 0 || room >= wanted) return {};
  return "the open-file limit leaves room for " + std::to_string(room) + " connections, not for " + std::to_string(wanted) + " (http.connections; LimitNOFILE)";
}

}  // namespace vigil
