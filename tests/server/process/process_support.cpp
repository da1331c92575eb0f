// The support of these tests: scratch scripts, children with what they said, awaiting under a hard limit. Declared in process_support.hpp.
#include "process_support.hpp"

#include <poll.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "server/process/proc.hpp"

namespace vigil::process::testing {

bool run_until(boost::asio::io_context& io, const std::function<bool()>& reached, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!reached()) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= end) return false;
    io.restart();
    io.run_one_for(std::min<std::chrono::steady_clock::duration>(end - now, std::chrono::milliseconds(50)));
  }
  return true;
}

bool look_until(const std::function<bool()>& reached, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!reached()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

Scripts::Scripts() {
  std::string name = std::filesystem::temp_directory_path() / "vigil_process_XXXXXX";
  folder_ = ::mkdtemp(name.data());
}
Scripts::~Scripts() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::string Scripts::add(const std::string& name, const std::string& body) {
  {
    std::ofstream file(path(name));
    file << "#!/bin/bash\n" << body << "\n";
  }
  ::chmod(path(name).c_str(), 0755);
  return path(name);
}

std::string fake(const std::string& name) { return std::string(VIGIL_SOURCE_DIR) + "/tests/fakes/" + name; }

std::string read_whole(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool is_alive(pid_t pid) {
  const auto info = read_process(pid);
  return info && info->alive;
}

size_t count_marked(const std::string& marker) {
  size_t found = 0;
  for (const ProcessInfo& process : list_processes())
    if (process.alive && carries_marker(process.pid, marker, Match::prefix)) ++found;
  return found;
}

std::string unique_marker() {
  static int number = 0;
  return "test-" + std::to_string(::getpid()) + "-" + std::to_string(++number) + ".engine.1";
}

SpawnRequest request_for(const std::string& exe, const std::string& marker, std::vector<std::string> args) {
  SpawnRequest request;
  request.exe = exe;
  request.args = std::move(args);
  request.environment = child_environment(environ, {}, marker);
  return request;
}

Recorded::~Recorded() {
  if (process) process->close();
  io.restart();
  io.poll();
}

void Recorded::start(const std::string& exe, std::vector<std::string> args, const std::function<void(SpawnRequest&)>& change) {
  SpawnRequest request = request_for(exe, marker, std::move(args));
  if (change) change(request);
  ProcessEvents events;
  events.executed = [this] { executed = true; };
  events.not_executed = [this](const std::string& reason) { not_executed = reason; };
  events.output = [this](std::string_view bytes) { output += bytes; };
  events.output_closed = [this] { output_closed = true; };
  events.error_output = [this](std::string_view bytes) {
    error_bytes += bytes.size();
    if (errors.size() < 64 * 1024) errors += bytes;
  };
  events.exited = [this](const std::string& how) {
    exited = how;
    output_before_exit = output.size();
    process->kill();  // whatever it left behind
  };
  events.tree_empty = [this] { empty = true; };
  events.log = [this](const std::string& text) { log += text + "\n"; };
  auto started = ChildProcess::start(io, std::move(request), marker, std::move(events));
  if (started) process = *started;
  else not_executed = started.error();
}

}  // namespace vigil::process::testing
