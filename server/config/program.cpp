// Looking up a child's program and saying whether it is our own. Asks the file system; starts nothing.
#include "server/config/program.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "protocol/lines.hpp"

namespace vigil::config {
namespace {

namespace fs = std::filesystem;

enum class Find { missing, not_a_file, not_executable, usable };

Find look_at(const fs::path& path) {
  std::error_code problem;
  const auto status = fs::status(path, problem);
  if (problem || !fs::exists(status)) return Find::missing;
  if (!fs::is_regular_file(status)) return Find::not_a_file;
  return ::access(path.c_str(), X_OK) == 0 ? Find::usable : Find::not_executable;
}

std::string why(Find found) {
  switch (found) {
    case Find::missing: return "does not exist";
    case Find::not_a_file: return "is not a file";
    case Find::not_executable: return "is not executable (chmod +x)";
    case Find::usable: return "is usable";
  }
  return {};
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code problem;
  return fs::equivalent(a, b, problem) && !problem;
}

std::optional<fs::path> search(const ProgramQuery& query) {
  if (const fs::path beside = fs::path(query.daemon_dir) / query.exe; look_at(beside) == Find::usable) return beside;
  std::string_view rest = query.path_variable;
  while (!rest.empty()) {
    const size_t colon = std::min(rest.find(':'), rest.size());
    const std::string_view dir = rest.substr(0, colon);
    rest.remove_prefix(std::min(colon + 1, rest.size()));
    // An empty or relative entry would mean "whatever the working directory is".
    if (dir.empty() || dir.front() != '/') continue;
    if (const fs::path candidate = fs::path(dir) / query.exe; look_at(candidate) == Find::usable) return candidate;
  }
  return std::nullopt;
}

}  // namespace

Result<Program> resolve_program(const ProgramQuery& query) {
  const std::string shown = protocol::printable(query.exe, 200);
  fs::path path;
  if (query.exe.find('/') != std::string::npos) {
    path = query.exe;
    if (const Find found = look_at(path); found != Find::usable) return Error{query.key + ": " + shown + " " + why(found)};
  } else {
    const auto found = search(query);
    if (!found) {
      return Error{query.key + ": there is no program '" + shown + "' in " + protocol::printable(query.daemon_dir, 200) + " nor in PATH"};
    }
    path = *found;
  }
  std::error_code problem;
  if (!path.is_absolute()) path = fs::absolute(path, problem);
  const bool own = query.told_own || same_file(path, fs::path(query.daemon_dir) / query.own_name);
  return Program{path.string(), own};
}

}  // namespace vigil::config
