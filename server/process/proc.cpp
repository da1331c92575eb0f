// Readers of /proc files into ProcessInfo.
#include "server/process/proc.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <memory>
#include <string>

#include "server/process/unique_fd.hpp"

namespace vigil::process {
namespace {

constexpr size_t environment_bytes = 4 * 1024 * 1024;  // more is not read; the marker stands first in a child's own

UniqueFd open_file(pid_t pid, const char* name) {
  std::array<char, 64> path{};
  snprintf(path.data(), path.size(), "/proc/%d/%s", static_cast<int>(pid), name);
  return UniqueFd(::open(path.data(), O_RDONLY | O_CLOEXEC));
}

std::string read_file(pid_t pid, const char* name, size_t limit) {
  const UniqueFd file = open_file(pid, name);
  std::string text;
  if (!file) return text;
  std::array<char, 4096> chunk;
  while (text.size() < limit) {
    const ssize_t got = ::read(file.get(), chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(chunk.data(), static_cast<size_t>(got));
  }
  return text;
}

bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM || error == EIO; }

uint64_t to_number(std::string_view word) {
  uint64_t value = 0;
  std::from_chars(word.data(), word.data() + word.size(), value);
  return value;
}

Duration from_ticks(uint64_t ticks) {
  static const auto per_second = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  return std::chrono::nanoseconds(static_cast<int64_t>(ticks * (1'000'000'000ULL / per_second)));
}

// The fields of /proc/PID/stat, numbered as in proc(5), from 3 (state) on; absent ones are 0.
class Stat {
 public:
  explicit Stat(pid_t pid) : text_(read_file(pid, "stat", 8192)) {
    const size_t name_end = text_.rfind(')');  // the name may hold blanks and parentheses
    std::string_view rest = text_;
    rest.remove_prefix(name_end == std::string::npos ? rest.size() : std::min(name_end + 2, rest.size()));
    while (!rest.empty() && count_ < field_.size()) {
      const size_t end = std::min(rest.find_first_of(" \n"), rest.size());
      field_[count_++] = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  bool has(size_t number) const { return number - 3 < count_ && !field_[number - 3].empty(); }
  std::string_view word(size_t number) const { return field_[number - 3]; }
  uint64_t operator()(size_t number) const { return to_number(field_[number - 3]); }

 private:
  std::string text_;
  std::array<std::string_view, 50> field_{};
  size_t count_ = 0;
};

// Of a process that shows no environment.
enum class Environment : uint8_t { none, not_yet, now };
Environment empty_environment(pid_t pid) {
  constexpr size_t env_start = 50, env_end = 51;
  const Stat stat(pid);
  if (stat(env_end) != 0) return stat(env_end) == stat(env_start) ? Environment::none : Environment::now;
  // An execve sets it last of all. A kernel thread, and who may not be read, have none either; but those show no program file.
  std::array<char, 64> path{};
  snprintf(path.data(), path.size(), "/proc/%d/exe", static_cast<int>(pid));
  char target = 0;
  return ::readlink(path.data(), &target, 1) == 1 ? Environment::not_yet : Environment::none;
}

}  // namespace

std::optional<ProcessInfo> read_process(pid_t pid) {
  const Stat at(pid);
  if (!at.has(22)) return std::nullopt;
  ProcessInfo info;
  info.pid = pid;
  info.parent = static_cast<pid_t>(at(4));
  info.group = static_cast<pid_t>(at(5));
  info.session = static_cast<pid_t>(at(6));
  info.own_faults = at(12);
  info.waited_faults = at(13);
  info.own_cpu = from_ticks(at(14) + at(15));
  info.waited_cpu = from_ticks(at(16) + at(17));
  info.started_ticks = at(22);
  // A first thread that ended before the others shows as a zombie while the process runs on.
  const bool zombie = at.word(3) == "Z" || at.word(3) == "X";
  info.alive = !zombie || at(20) > 1;
  return info;
}

ProcessList list_processes() {
  ProcessList all;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), &::closedir);
  if (!folder) {
    all.complete = false;
    return all;
  }
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name.empty() || name.front() < '1' || name.front() > '9') continue;
    errno = 0;
    if (auto info = read_process(static_cast<pid_t>(to_number(name)))) all.push_back(*info);
    else if (is_shortage(errno)) all.complete = false;  // else it has gone meanwhile
  }
  return all;
}

pid_t newest_pid() {
  const UniqueFd file(::open("/proc/loadavg", O_RDONLY | O_CLOEXEC));
  std::array<char, 128> text{};
  const ssize_t got = file ? ::read(file.get(), text.data(), text.size()) : 0;
  std::string_view line(text.data(), static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (!line.empty() && line.back() == '\n') line.remove_suffix(1);
  const size_t last = line.rfind(' ');
  return last == std::string_view::npos ? 0 : static_cast<pid_t>(to_number(line.substr(last + 1)));
}

std::optional<Duration> cpu_time(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return std::nullopt;
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

uint64_t storage_bytes(pid_t pid) {
  const std::string text = read_file(pid, "io", 4096);
  uint64_t sum = 0;
  for (const std::string_view key : {std::string_view("\nread_bytes: "), std::string_view("\nwrite_bytes: ")}) {
    const size_t at = text.find(key);
    if (at != std::string::npos) sum += to_number(std::string_view(text).substr(at + key.size()));
  }
  return sum;
}

Marker find_marker(pid_t pid, std::string_view marker, Match match) {
  std::string text = read_file(pid, "environ", environment_bytes);
  if (text.empty()) {
    const Environment why = empty_environment(pid);
    if (why == Environment::none) return Marker::no;
    if (why == Environment::now) text = read_file(pid, "environ", environment_bytes);  // the execve has just ended
    if (text.empty()) return Marker::in_execve;
  }
  const std::string wanted = "VIGIL_CHILD=" + std::string(marker);
  for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) {
    if (at != 0 && text[at - 1] != '\0') continue;
    const size_t end = at + wanted.size();
    if (match == Match::prefix || end == text.size() || text[end] == '\0') return Marker::yes;
  }
  return Marker::no;
}

bool carries_marker(pid_t pid, std::string_view marker, Match match) { return find_marker(pid, marker, match) == Marker::yes; }

}  // namespace vigil::process
