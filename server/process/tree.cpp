// Finding, signalling and counting the members of a tree.
#include "server/process/tree.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <unordered_map>

#include "server/process/unique_fd.hpp"

namespace vigil::process {

void choose_descendants(const std::vector<ProcessInfo>& all, std::vector<bool>& chosen) {
  std::unordered_map<pid_t, std::vector<size_t>> children;
  for (size_t i = 0; i < all.size(); ++i) children[all[i].parent].push_back(i);
  std::vector<size_t> unvisited;
  for (size_t i = 0; i < all.size(); ++i)
    if (chosen[i]) unvisited.push_back(i);
  while (!unvisited.empty()) {
    const pid_t parent = all[unvisited.back()].pid;
    unvisited.pop_back();
    const auto found = children.find(parent);
    if (found == children.end()) continue;
    for (const size_t i : found->second) {
      if (chosen[i]) continue;
      chosen[i] = true;
      unvisited.push_back(i);
    }
  }
}

bool signal_process(const ProcessInfo& process, int number) {
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
  if (!pidfd) return false;
  const auto now = read_process(process.pid);  // after the open: from here on the pidfd cannot come to mean another one
  if (!now || now->started_ticks != process.started_ticks) return false;
  return ::syscall(SYS_pidfd_send_signal, pidfd.get(), number, nullptr, 0) == 0;
}

constexpr int execve_looks = 50;  // a stranger without arguments and environment may stay so for ever

bool kill_marked(const std::string& prefix, int looks) {
  int clean = 0;
  const pid_t self = ::getpid();
  for (int look = 0; look < looks; ++look) {
    const ProcessList all = list_processes();
    std::vector<bool> chosen(all.size());
    bool found = !all.complete;
    for (size_t i = 0; i < all.size(); ++i) {
      if (!all[i].alive || all[i].pid == self) continue;
      const Marker marker = find_marker(all[i].pid, prefix, Match::prefix);
      chosen[i] = marker == Marker::yes;
      if (marker == Marker::in_execve && look < execve_looks) found = true;
    }
    choose_descendants(all, chosen);
    for (size_t i = 0; i < all.size(); ++i) {
      if (!chosen[i] || !all[i].alive || all[i].pid == self) continue;
      found = true;
      signal_process(all[i], SIGKILL);
    }
    clean = found ? 0 : clean + 1;  // twice: one look can miss a process that was just being forked
    if (clean == 2) return true;
    const timespec pause{0, 20'000'000};
    ::nanosleep(&pause, nullptr);
  }
  return false;
}

Tree::Tree(pid_t root, std::string marker) : root_(root), marker_(std::move(marker)) {
  if (const auto info = read_process(root)) root_started_ = info->started_ticks;
}

void Tree::refresh() {
  const pid_t newest = newest_pid();
  const ProcessList all = list_processes();
  const pid_t self = ::getpid();
  std::vector<bool> chosen(all.size());
  std::vector<size_t> in_execve;
  for (size_t i = 0; i < all.size(); ++i) {
    const ProcessInfo& process = all[i];
    if (process.pid == self || process.started_ticks < root_started_) continue;
    chosen[i] = process.pid == root_ || process.session == root_ || process.group == root_ ||
                members_.contains({process.pid, process.started_ticks});  // once a member, always one: it may clear its environment
    if (chosen[i] || !process.alive) continue;
    const Marker marker = find_marker(process.pid, marker_, Match::whole);
    chosen[i] = marker == Marker::yes;
    if (marker == Marker::in_execve) in_execve.push_back(i);
  }
  choose_descendants(all, chosen);
  overtaken_ = newest == 0 || newest_pid() != newest;
  uncertain_ = !all.complete || std::any_of(in_execve.begin(), in_execve.end(), [&](size_t i) { return !chosen[i]; });
  if (all.complete) members_.clear();  // else whoever was not listed may still be there
  for (size_t i = 0; i < all.size(); ++i)
    if (chosen[i] && all[i].pid != self) members_.insert_or_assign(Key{all[i].pid, all[i].started_ticks}, all[i]);
}

std::vector<pid_t> Tree::living() const {
  std::vector<pid_t> out;
  for (const auto& [key, process] : members_)
    if (process.alive) out.push_back(process.pid);
  return out;
}

void Tree::signal(int number) {
  ::kill(-root_, number);
  for (const auto& [key, process] : members_)
    if (process.alive && process.group != root_) signal_process(process, number);
}

// Own counters only grow. What a member waited for may be what we counted already while that process lived, so of the growth there
// only that part is new which the members that vanished since the last look do not explain.
TreeUsage Tree::usage() {
  refresh();
  Duration own_cpu{}, waited_cpu{}, vanished_cpu{};
  uint64_t own_faults = 0, waited_faults = 0, vanished_faults = 0, io = 0, vanished_io = 0;
  std::map<Key, Counted> now;
  for (const auto& [key, process] : members_) {
    const Counted before = counted_.contains(key) ? counted_[key] : Counted{};
    Counted& seen = now[key];
    seen.own_cpu = std::max(before.own_cpu, cpu_time(process.pid).value_or(process.own_cpu));
    seen.waited_cpu = std::max(before.waited_cpu, process.waited_cpu);
    seen.own_faults = std::max(before.own_faults, process.own_faults);
    seen.waited_faults = std::max(before.waited_faults, process.waited_faults);
    seen.io_bytes = std::max(before.io_bytes, storage_bytes(process.pid));
    own_cpu += seen.own_cpu - before.own_cpu;
    waited_cpu += seen.waited_cpu - before.waited_cpu;
    own_faults += seen.own_faults - before.own_faults;
    waited_faults += seen.waited_faults - before.waited_faults;
    io += seen.io_bytes - before.io_bytes;
  }
  for (const auto& [key, before] : counted_) {
    if (now.contains(key)) continue;
    vanished_cpu += before.own_cpu + before.waited_cpu;
    vanished_faults += before.own_faults + before.waited_faults;
    vanished_io += before.io_bytes;
  }
  total_.cpu += own_cpu + std::max(Duration{}, waited_cpu - vanished_cpu);
  total_.major_faults += own_faults + (waited_faults > vanished_faults ? waited_faults - vanished_faults : 0);
  total_.io_bytes += io > vanished_io ? io - vanished_io : 0;
  counted_ = std::move(now);
  return total_;
}

}  // namespace vigil::process
