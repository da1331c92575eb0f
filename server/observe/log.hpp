// The daemon's log: lines to stderr, which systemd's journal takes with their priority. Text of requests never goes here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/result.hpp"
#include "protocol/time.hpp"

namespace vigil::observe {

enum class Level : uint8_t { debug, info, warning, error };

class Log {
 public:
  Log();
  ~Log();
  void write(Level level, std::string_view line);
  void info(std::string_view line) { write(Level::info, line); }
  void warning(std::string_view line) { write(Level::warning, line); }
  void error(std::string_view line) { write(Level::error, line); }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A file that log lines are appended to, or none.
class LogFile {
 public:
  LogFile() = default;
  // `path` is created with mode 0640; empty: none. An error names it.
  static Result<LogFile> open(const std::string& path);
  LogFile(LogFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  LogFile& operator=(LogFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~LogFile();
  int fd() const { return fd_; }  // -1: none

 private:
  int fd_ = -1;
};

// A child's stderr: into a file of its own, or line by line into the log with name and generation, at most `lines_per_s` (the rest is
// counted and said). Bytes are cut into lines here; a line is shown printable and clipped.
class ChildLog {
 public:
  ChildLog(Log& log, std::string name, size_t lines_per_s = 50);
  // Appends to the file, or with none writes into the log again.
  void use(LogFile file) { file_ = std::move(file); }
  Result<void> open_file(const std::string& path);  // and uses it; an error changes nothing
  void write(uint64_t generation, std::string_view bytes, TimePoint now);

 private:
  void line(uint64_t generation, std::string_view text, TimePoint now);

  Log& log_;
  std::string name_, partial_;
  size_t lines_per_s_, lines_ = 0, suppressed_ = 0;
  uint64_t generation_ = 0;
  TimePoint second_{};
  LogFile file_;
};

}  // namespace vigil::observe
