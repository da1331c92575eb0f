// Starts one child process: own session, parent-death signal, three pipes, a clean environment; its failure to execute comes back on a pipe.
// Blocks for the fork only, never for the execve. Not here: who is started when, and what becomes of it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "protocol/result.hpp"
#include "server/process/unique_fd.hpp"

namespace vigil::process {

enum class ForkPath : uint8_t {
  best,       // clone3 with a pidfd in one step; fork and pidfd_open where a sandbox refuses it
  fork_only
};

struct SpawnRequest {
  std::string name = "engine";           // prefix of the configuration keys in error texts
  std::string exe;                       // a path; it is not looked up in PATH
  std::vector<std::string> args;         // argv[1..]
  std::vector<std::string> environment;  // all of it, "NAME=value"
  std::string cwd;                       // empty = ours
  uint64_t open_files = 0;               // soft RLIMIT_NOFILE; 0 = ours
  ForkPath path = ForkPath::best;
};

// All descriptors are close-on-exec; in, out and err are our ends and do not block.
struct SpawnedProcess {
  pid_t pid = -1;                        // also its process group and session
  UniqueFd pidfd, in, out, err;
  UniqueFd exec_status;                  // see read_exec_status
};

// Must be called on the main thread: the parent-death signal of a child follows the thread that forked it.
Result<SpawnedProcess> spawn(const SpawnRequest& request);

enum class ExecState : uint8_t { pending, succeeded, failed };
struct ExecStatus {
  ExecState state = ExecState::pending;
  std::string reason;                    // when failed: what, the system's words, and the key to look at
};
// Does not block. To be called when exec_status is readable; it ends with `succeeded` or `failed`.
ExecStatus read_exec_status(int exec_status, const SpawnRequest& request);

// Our environment without NOTIFY_SOCKET, LISTEN_*, WATCHDOG_* and VIGIL_*, then `extra`, then VIGIL_CHILD=`marker`, which nothing overrides.
std::vector<std::string> child_environment(const char* const* own, const std::map<std::string, std::string>& extra, const std::string& marker);

}  // namespace vigil::process
