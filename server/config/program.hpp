// Which program an `exe` key means, and whether it is our own: only our own gets our flags.
#pragma once

#include <string>

#include "protocol/result.hpp"

namespace vigil::config {

struct Program {
  std::string path;  // absolute, executable
  bool own = false;
};

// `exe` with a slash is a path (load() made it absolute); without one it is looked up in daemon_dir, then in the directories of
// `path_variable` ("/usr/bin:/bin"). It is our own when it is the file own_name in daemon_dir, or when told_own. `key` is for the error.
struct ProgramQuery {
  std::string key = "engine.exe";
  std::string exe;
  bool told_own = false;
  std::string own_name = "vigil-engine";
  std::string daemon_dir;     // absolute, without links in its last part resolved by the caller
  std::string path_variable;
};
Result<Program> resolve_program(const ProgramQuery& query);

}  // namespace vigil::config
