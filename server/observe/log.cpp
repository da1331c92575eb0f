// spdlog to stderr; under systemd without time stamps (the journal has its own) and with "<3>" priorities. A stderr that nobody reads loses
// lines; it never holds the daemon.
#include "server/observe/log.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <poll.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

#include "protocol/lines.hpp"

namespace vigil::observe {

namespace {

constexpr size_t child_line_bytes = 2048;  // what one line of a child may show in our log
constexpr size_t log_line_bytes = 4096;    // PIPE_BUF: what poll promises to take without blocking

std::string_view priority(Level level) {
  switch (level) {
    case Level::debug: return "<7>";
    case Level::info: return "<6>";
    case Level::warning: return "<4>";
    case Level::error: return "<3>";
  }
  return "";
}

spdlog::level::level_enum spdlog_level(Level level) {
  switch (level) {
    case Level::debug: return spdlog::level::debug;
    case Level::info: return spdlog::level::info;
    case Level::warning: return spdlog::level::warn;
    case Level::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

// Up to PIPE_BUF bytes go into a pipe at once or not at all, and poll says beforehand whether they would. O_NONBLOCK would be simpler, but
// the open file is shared with whoever started us.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t formatted;
    base_sink::formatter_->format(message, formatted);
    std::string line(formatted.data(), std::min(formatted.size(), log_line_bytes));
    if (line.size() < formatted.size()) line.replace(line.size() - 4, 4, "...\n");
    if (lost_ > 0 && writable()) {
      const std::string note = std::to_string(lost_) + " log lines were lost: stderr was full\n";
      if (put(note)) lost_ = 0;
    }
    if (!writable() || !put(line)) ++lost_;
  }
  void flush_() override {}

 private:
  static bool writable() {
    pollfd waiting{STDERR_FILENO, POLLOUT, 0};
    return ::poll(&waiting, 1, 0) == 1 && (waiting.revents & POLLOUT) != 0;
  }
  static bool put(const std::string& line) { return ::write(STDERR_FILENO, line.data(), line.size()) == static_cast<ssize_t>(line.size()); }

  size_t lost_ = 0;
};

// JOURNAL_STREAM is inherited by whatever a service starts, also when stderr leads elsewhere by then: it counts only when it names our stderr.
bool stderr_is_the_journal() {
  const char* stream = std::getenv("JOURNAL_STREAM");
  struct stat status {};
  if (stream == nullptr || ::fstat(STDERR_FILENO, &status) != 0) return false;
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) == stream;
}

}  // namespace

struct Log::Impl {
  spdlog::logger logger{"vigil", std::make_shared<StderrSink>()};
  bool journal = stderr_is_the_journal();
};

Log::Log() : impl_(std::make_unique<Impl>()) {
  impl_->logger.set_pattern(impl_->journal ? "%v" : "%Y-%m-%dT%H:%M:%S.%e %l %v");
  impl_->logger.flush_on(spdlog::level::trace);
}
Log::~Log() = default;

void Log::write(Level level, std::string_view line) {
  if (impl_->journal) {
    impl_->logger.log(spdlog_level(level), "{}{}", priority(level), line);
  } else {
    impl_->logger.log(spdlog_level(level), "{}", line);
  }
}

ChildLog::ChildLog(Log& log, std::string name, size_t lines_per_s) : log_(log), name_(std::move(name)), lines_per_s_(lines_per_s) {}

Result<LogFile> LogFile::open(const std::string& path) {
  LogFile file;
  if (path.empty()) return Result<LogFile>(std::move(file));
  file.fd_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (file.fd_ < 0) return Error{"cannot open the log file " + path + ": " + std::strerror(errno)};
  return Result<LogFile>(std::move(file));
}

LogFile::~LogFile() {
  if (fd_ >= 0) ::close(fd_);
}

Result<void> ChildLog::open_file(const std::string& path) {
  Result<LogFile> file = LogFile::open(path);
  if (!file) return Error{file.error()};
  use(std::move(*file));
  return {};
}

void ChildLog::write(uint64_t generation, std::string_view bytes, TimePoint now) {
  if (file_.fd() >= 0) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_.fd(), bytes.data(), bytes.size());
      if (written <= 0) return;  // a full disk must not hold the daemon; the tail is kept for error texts anyway
      bytes.remove_prefix(static_cast<size_t>(written));
    }
    return;
  }
  if (generation != generation_ && !partial_.empty()) {  // the last words of the one before, which ended in mid-line
    line(generation_, partial_, now);
    partial_.clear();
  }
  generation_ = generation;
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (partial_.size() < child_line_bytes) partial_.append(part.substr(0, child_line_bytes - partial_.size()));
    if (end == std::string_view::npos) return;
    line(generation, partial_, now);
    partial_.clear();
    bytes.remove_prefix(end + 1);
  }
}

void ChildLog::line(uint64_t generation, std::string_view text, TimePoint now) {
  if (now - second_ >= std::chrono::seconds(1)) {
    if (suppressed_ > 0) log_.warning(name_ + "[" + std::to_string(generation) + "] wrote " + std::to_string(suppressed_) + " more lines, not shown");
    second_ = now;
    lines_ = suppressed_ = 0;
  }
  if (++lines_ > lines_per_s_) {
    ++suppressed_;
    return;
  }
  log_.info(name_ + "[" + std::to_string(generation) + "] " + protocol::printable(text, child_line_bytes));
}

}  // namespace vigil::observe
