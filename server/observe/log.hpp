// The daemon's log: lines to stderr, which systemd's journal takes with their priority. Text of requests never goes here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

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

// A child's stderr: into a file of its own, or line by line into the log with name and generation, at most `lines_per_s` (the rest is
// counted and said). Bytes are cut into lines here; a line is shown printable and clipped.
class ChildLog {
 public:
  ChildLog(Log& log, std::string name, size_t lines_per_s = 50);
  ~ChildLog();
  // Appends to `path`, created with mode 0640, or writes into the log again when it is empty. An error names the path and changes nothing.
  Result<void> open_file(const std::string& path);
  void write(uint64_t generation, std::string_view bytes, TimePoint now);

 private:
  void line(uint64_t generation, std::string_view text, TimePoint now);

  Log& log_;
  std::string name_, partial_;
  size_t lines_per_s_, lines_ = 0, suppressed_ = 0;
  uint64_t generation_ = 0;
  TimePoint second_{};
  int file_ = -1;
};

}  // namespace vigil::observe
