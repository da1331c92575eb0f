// Every process of one child, however it tried to leave: the direct child, its session and group, descendants by parent, and whatever
// carries its marker in the environment (a setsid'ed grandchild whose parent died). Not here: when it is looked at or killed.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "protocol/time.hpp"
#include "server/process/proc.hpp"
#include "server/supervise/liveness.hpp"

namespace vigil::process {

using TreeUsage = supervise::TreeUsage;  // totals since the spawn

class Tree {
 public:
  // `root` leads its own session and is not reaped while this object is used, so its number cannot come to mean another process.
  Tree(pid_t root, std::string marker);

  void refresh();                   // reads /proc
  // As of the last refresh: the living ones. Zombies count as dead.
  std::vector<pid_t> living() const;
  // As of the last refresh: somebody who may be one of us was in the middle of an execve, or could not be read for want of a descriptor.
  bool uncertain() const { return uncertain_; }
  // As of the last refresh: while it read, some process was made, which it may have missed.
  bool overtaken() const { return overtaken_; }
  // To the whole group at once, then to the living members outside it (as of the last refresh) through pidfds.
  void signal(int number);
  TreeUsage usage();                // refreshes, then sums

 private:
  using Key = std::pair<pid_t, uint64_t>;  // pid and start time
  struct Counted {                  // what was last seen of a member
    Duration own_cpu{}, waited_cpu{};
    uint64_t own_faults = 0, waited_faults = 0, io_bytes = 0;
  };
  pid_t root_;
  std::string marker_;
  uint64_t root_started_ = 0;       // nothing older can belong to it
  std::map<Key, ProcessInfo> members_;
  bool uncertain_ = false, overtaken_ = false;
  std::map<Key, Counted> counted_;
  TreeUsage total_;
};

// Adds to `chosen` (flags, one for each of `all`) every descendant of a chosen one.
void choose_descendants(const std::vector<ProcessInfo>& all, std::vector<bool>& chosen);
// Through a pidfd, and only if it is still the process that was seen.
bool signal_process(const ProcessInfo& process, int number);
// KILLs everything that carries a marker with this prefix, and its descendants, until nothing is found in two looks or `looks` are spent.
// True when nothing is left. Blocks (20 ms between looks): for the keeper, not for the daemon.
bool kill_marked(const std::string& prefix, int looks);

}  // namespace vigil::process
