// What /proc says about processes, as values. Formats: proc(5). Not here: whose a process is.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "protocol/time.hpp"

namespace vigil::process {

struct ProcessInfo {                    // of /proc/PID/stat
  pid_t pid = 0, parent = 0, group = 0, session = 0;
  bool alive = false;                   // false: only a zombie is left
  uint64_t started_ticks = 0;           // since boot; with the pid it names one process for good
  uint64_t own_faults = 0, waited_faults = 0;  // major ones; `waited` are of children that were waited for
  Duration own_cpu{}, waited_cpu{};     // in clock ticks of 10 ms
};

std::optional<ProcessInfo> read_process(pid_t pid);
struct ProcessList : std::vector<ProcessInfo> {
  bool complete = true;                         // false: a descriptor or memory was refused, and some may be missing
};
ProcessList list_processes();                   // every process that can be seen

pid_t newest_pid();                             // of the process made last, whoever made it; 0 when the system does not say

// Nanoseconds, all threads, also those that have ended; nothing when the process is gone.
std::optional<Duration> cpu_time(pid_t pid);
// Read from and written to storage, by it and by the children it has waited for; 0 when it may not be read. Pipes do not count: a beat
// on stdout is no progress.
uint64_t storage_bytes(pid_t pid);

enum class Match : uint8_t { whole, prefix };
// Does its environment, as of its execve, carry VIGIL_CHILD=`marker`? No for zombies and for processes that may not be read. In the middle of an
// execve a process shows no environment for a moment: then nobody can tell, and whoever needs to know looks again.
enum class Marker : uint8_t { no, yes, in_execve };
Marker find_marker(pid_t pid, std::string_view marker, Match match);
bool carries_marker(pid_t pid, std::string_view marker, Match match);

}  // namespace vigil::process
