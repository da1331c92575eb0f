// Readers of /proc files into ProcessInfo.
#include "server/process/proc.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

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

uint64_t to_number(std::string_view word) {
  uint64_t value = 0;
  std::from_chars(word.data(), word.data() + word.size(), value);
  return value;
}

Duration from_ticks(uint64_t ticks) {
  static const auto per_second = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  return std::chrono::nanoseconds(static_cast<int64_t>(ticks * (1'000'000'000ULL / per_second)));
}

}  // namespace

std::optional<ProcessInfo> read_process(pid_t pid) {
  const std::string text = read_file(pid, "stat", 8192);
  const size_t name_end = text.rfind(')');  // the name may hold blanks and parentheses
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return std::nullopt;
  constexpr size_t needed = 20;             // fields 3 (state) to 22 (starttime)
  std::array<std::string_view, needed> field;
  std::string_view rest = std::string_view(text).substr(name_end + 2);
  for (std::string_view& word : field) {
    const size_t end = rest.find(' ');
    word = rest.substr(0, end);
    if (word.empty()) return std::nullopt;
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  const auto at = [&](size_t number) { return to_number(field[number - 3]); };  // numbered as in proc(5)
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
  const bool zombie = field[0] == "Z" || field[0] == "X";
  info.alive = !zombie || at(20) > 1;
  return info;
}

std::vector<ProcessInfo> list_processes() {
  std::vector<ProcessInfo> all;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), &::closedir);
  if (!folder) return all;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name.empty() || name.front() < '1' || name.front() > '9') continue;
    if (auto info = read_process(static_cast<pid_t>(to_number(name)))) all.push_back(*info);
  }
  return all;
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

bool carries_marker(pid_t pid, std::string_view marker, Match match) {
  const std::string text = read_file(pid, "environ", environment_bytes);
  const std::string wanted = "VIGIL_CHILD=" + std::string(marker);
  for (size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) {
    if (at != 0 && text[at - 1] != '\0') continue;
    const size_t end = at + wanted.size();
    if (match == Match::prefix || end == text.size() || text[end] == '\0') return true;
  }
  return false;
}

}  // namespace vigil::process
