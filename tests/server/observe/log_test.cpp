// The log's lines on stderr, a child's stderr cut into lines, and a stderr that nobody reads.
#include <catch2/catch.hpp>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "server/observe/log.hpp"

using namespace vigil;
using namespace vigil::observe;

namespace {

// stderr goes into a pipe while this lives.
class Stderr {
 public:
  Stderr() {
    REQUIRE(::pipe2(ends_, O_CLOEXEC) == 0);
    saved_ = ::dup(STDERR_FILENO);
    ::dup2(ends_[1], STDERR_FILENO);
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }
  ~Stderr() {
    ::dup2(saved_, STDERR_FILENO);
    for (const int fd : {saved_, ends_[0], ends_[1]}) ::close(fd);
  }
  Stderr(const Stderr&) = delete;
  Stderr& operator=(const Stderr&) = delete;
  std::string take() {
    std::string all;
    char buffer[65536];
    for (ssize_t got = ::read(ends_[0], buffer, sizeof buffer); got > 0; got = ::read(ends_[0], buffer, sizeof buffer)) {
      all.append(buffer, static_cast<size_t>(got));
    }
    return all;
  }

 private:
  int ends_[2] = {-1, -1};
  int saved_ = -1;
};

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

const TimePoint start{std::chrono::hours(1)};

}  // namespace

TEST_CASE("a line has a time and a level on a terminal, a priority in the journal") {
  ::unsetenv("JOURNAL_STREAM");
  {
    Stderr captured;
    Log log;
    log.warning("the {} disk is full");
    const std::string text = captured.take();
    INFO(text);
    CHECK(text.find("T") == 10);
    CHECK(text.find(" warning the {} disk is full\n") != std::string::npos);
  }
  {
    Stderr captured;
    ::setenv("JOURNAL_STREAM", "8:1", 1);  // a service's, whose child has its stderr elsewhere
    Log log;
    log.info("plain");
    CHECK(captured.take().find(" info plain\n") != std::string::npos);
  }
  {
    Stderr captured;
    struct stat status {};
    REQUIRE(::fstat(STDERR_FILENO, &status) == 0);
    ::setenv("JOURNAL_STREAM", (std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino)).c_str(), 1);
    Log log;
    log.error("lost");
    log.info("found");
    CHECK(captured.take() == "<3>lost\n<6>found\n");
  }
  ::unsetenv("JOURNAL_STREAM");
}

TEST_CASE("a stderr that nobody reads loses lines and never blocks, and says how many were lost") {
  Stderr captured;
  Log log;
  const std::string line(1000, 'x');
  for (int i = 0; i < 1000; ++i) log.info(line);  // a pipe holds 64 KiB; a blocking write would stop here for ever
  const std::string kept = captured.take();
  const size_t lines = count(kept, "\n");
  CHECK(lines > 10);
  CHECK(lines < 200);
  CHECK(kept.back() == '\n');
  log.info("read again");
  const std::string later = captured.take();
  INFO(later);
  CHECK(later.find(std::to_string(1000 - lines) + " log lines were lost") != std::string::npos);
  CHECK(later.find("read again\n") != std::string::npos);
}

TEST_CASE("a line that is too long is clipped to what a pipe takes at once") {
  Stderr captured;
  Log log;
  log.info(std::string(100000, 'y'));
  const std::string text = captured.take();
  CHECK(text.size() == 4096);
  CHECK(text.substr(4092) == "...\n");
}

TEST_CASE("a child's stderr becomes lines with name and generation, however it is cut") {
  Stderr captured;
  Log log;
  ChildLog child(log, "engine");
  child.write(3, "load", start);
  child.write(3, "ing\nhalf \x1b[31m", start);
  CHECK(count(captured.take(), "engine[3] loading\n") == 1);
  child.write(3, "done\n\n", start);
  const std::string text = captured.take();
  INFO(text);
  CHECK(count(text, "engine[3] half \\x1B[31mdone\n") == 1);
  CHECK(count(text, "engine[3] \n") == 1);
  child.write(3, "last words", start);
  child.write(4, "hello\n", start);
  const std::string both = captured.take();
  INFO(both);
  CHECK(count(both, "engine[3] last words\n") == 1);
  CHECK(count(both, "engine[4] hello\n") == 1);
}

TEST_CASE("a child that floods its stderr is shown in part, and the rest is counted") {
  Stderr captured;
  Log log;
  ChildLog child(log, "engine", 5);
  std::string flood;
  for (int i = 0; i < 1000; ++i) flood += "noise\n";
  child.write(1, flood, start);
  CHECK(count(captured.take(), "engine[1] noise\n") == 5);
  child.write(1, "quiet\n", start + std::chrono::seconds(1));
  const std::string text = captured.take();
  INFO(text);
  CHECK(count(text, "wrote 995 more lines, not shown") == 1);
  CHECK(count(text, "engine[1] quiet\n") == 1);
  child.write(1, std::string(10'000'000, 'z') + "\n", start + std::chrono::seconds(2));  // without a line end for long
  CHECK(captured.take().size() < 4097);
}

TEST_CASE("engine.log takes the bytes as they are") {
  char folder[] = "/tmp/vigil-log-XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  const std::string path = std::string(folder) + "/engine.log";
  {
    Stderr captured;
    Log log;
    ChildLog child(log, "engine", 1);
    REQUIRE(child.open_file(path).ok());
    const std::string bytes("one\ntwo\0three\r\nhalf", 19);
    child.write(1, bytes, start);
    child.write(2, "more\n", start);
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    CHECK(text.str() == bytes + "more\n");
    CHECK(captured.take().empty());
    const auto refused = child.open_file(std::string(folder) + "/none/engine.log");
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().find("/none/engine.log") != std::string::npos);
  }
  std::filesystem::remove_all(folder);
}
