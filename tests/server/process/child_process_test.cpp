// Pipes and ends of real children.
#include "server/process/child_process.hpp"

#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "process_support.hpp"
#include "server/process/proc.hpp"
#include "server/process/stderr_tail.hpp"

using namespace vigil;
using namespace vigil::process;
using namespace vigil::process::testing;

TEST_CASE("how a child ended is told in words") {
  boost::asio::io_context io;
  Recorded child(io);
  SECTION("by a status") {
    child.start("/bin/bash", {"-c", "printf 'T 1\\nhalf a li'; echo words >&2; exit 3"});
    REQUIRE(child.finish());
    CHECK(child.exited == "exited with status 3");
    CHECK(child.output == "T 1\nhalf a li");  // all of it was there before the exit was told
    CHECK(child.errors == "words\n");
  }
  SECTION("by a signal") {
    child.start("/bin/bash", {"-c", "kill -SEGV $$"});
    REQUIRE(child.finish());
    CHECK(child.exited == "killed by signal 11 (SIGSEGV)");
  }
}

TEST_CASE("an exit is told after everything that was said, however much lies in the pipe") {
  boost::asio::io_context io;
  Recorded child(io);
  child.start("/bin/bash", {"-c", "exec head -c 60000 /dev/zero"});
  REQUIRE(look_until([&] { return !is_alive(child.process->pid()); }));  // the loop finds both at once
  REQUIRE(child.finish());
  CHECK(child.output_before_exit == 60000);
}

TEST_CASE("an exit is told although a grandchild holds the pipes open") {
  boost::asio::io_context io;
  Recorded child(io);
  child.start("/bin/bash", {"-c", "trap '' TERM; setsid sleep 60 & echo READY; exit 4"});
  REQUIRE(child.until([&] { return !child.exited.empty(); }));
  CHECK(child.exited == "exited with status 4");
  CHECK(child.output == "READY\n");
  REQUIRE(child.finish());
  CHECK(count_marked(child.marker) == 0);
}

// A process in the middle of its execve shows no environment, and one that is forked while /proc is read is not seen at all; with its parent gone and
// a session of its own each is like a stranger's for a moment.
TEST_CASE("a grandchild that forks and executes while it is looked for is not left behind") {
  for (int round = 0; round < 40; ++round) {
    boost::asio::io_context io;
    Recorded child(io);
    child.start("/bin/bash", {"-c", "trap '' TERM; setsid setsid setsid sleep 60 & exit 0"});
    REQUIRE(child.finish());
    REQUIRE(count_marked(child.marker) == 0);
  }
}

TEST_CASE("TERM first; KILL for those that ignore it; the tree is empty only then") {
  boost::asio::io_context io;
  Recorded child(io);
  child.start("/bin/bash", {"-c", "trap 'echo term' TERM; echo up; while :; do sleep 60; done"});
  REQUIRE(child.until([&] { return child.output == "up\n"; }));
  child.process->terminate();
  REQUIRE(child.until([&] { return child.output == "up\nterm\n"; }));
  CHECK(!child.empty);
  CHECK(is_alive(child.process->pid()));
  const pid_t pid = child.process->pid();
  child.process->kill();
  REQUIRE(child.finish());
  CHECK(child.exited == "killed by signal 9 (SIGKILL)");
  CHECK(::kill(pid, 0) != 0);  // reaped
}

TEST_CASE("a stopped child gets its TERM") {
  boost::asio::io_context io;
  Recorded child(io);
  child.start("/bin/sleep", {"60"});
  REQUIRE(child.until([&] { return child.executed; }));
  ::kill(child.process->pid(), SIGSTOP);
  const std::string stat = "/proc/" + std::to_string(child.process->pid()) + "/stat";
  REQUIRE(look_until([&] { return read_whole(stat).find(") T ") != std::string::npos; }));
  child.process->terminate();
  REQUIRE(child.finish());
  CHECK(child.exited == "killed by signal 15 (SIGTERM)");
}

TEST_CASE("stderr is drained however much there is") {
  boost::asio::io_context io;
  Recorded child(io);
  StderrTail tail(1024);
  child.start("/bin/bash", {"-c", "head -c 8388608 /dev/zero | tr '\\0' x >&2; echo done"});
  REQUIRE(child.finish());
  CHECK(child.error_bytes == 8388608);
  CHECK(child.output == "done\n");
}

TEST_CASE("stdout closed by a child that lives on is told at once") {
  boost::asio::io_context io;
  Recorded child(io);
  child.start("/bin/bash", {"-c", "exec >&-; sleep 60"});
  REQUIRE(child.until([&] { return child.output_closed; }));
  CHECK(child.exited == "");
}

TEST_CASE("writing never blocks, and a child that reads gets everything in order") {
  boost::asio::io_context io;
  Recorded child(io);
  SECTION("to one that does not read") {
    child.start("/bin/sleep", {"60"});
    child.process->write(std::string(8 << 20, 'x'));
    REQUIRE(child.until([&] { return child.executed; }));
    CHECK(child.process->unwritten_bytes() > (7u << 20));
  }
  SECTION("to one that reads") {
    child.start("/bin/bash", {"-c", "head -c 8388609 | tail -c 1; read -r line; echo \" $line\""});
    child.process->write(std::string(8 << 20, 'x'));
    child.process->write("y");
    child.process->write("STOP\n");
    REQUIRE(child.finish());
    CHECK(child.output == "y STOP\n");
  }
  SECTION("to one that has closed its stdin") {
    child.start("/bin/bash", {"-c", "exec <&-; echo closed; sleep 60"});
    REQUIRE(child.until([&] { return child.output == "closed\n"; }));
    child.process->write("GEN 1 2\n");
    child.process->write("GEN 1 2\n");
    REQUIRE(child.until([&] { return !child.log.empty(); }));
    CHECK(child.process->unwritten_bytes() == 0);
    CHECK(child.exited == "");  // no verdict of its own
  }
}

TEST_CASE("drain reads what lies in the pipes and sees an exit, without the loop") {
  boost::asio::io_context io;
  Recorded child(io);
  child.start("/bin/bash", {"-c", "echo out; echo err >&2; exit 5"});
  REQUIRE(look_until([&] { return !is_alive(child.process->pid()); }));
  child.process->drain();
  CHECK(child.executed);
  CHECK(child.output == "out\n");
  CHECK(child.errors == "err\n");
  CHECK(child.exited == "exited with status 5");
}

TEST_CASE("a flood on stdout comes in small turns, so that a full reader can stop it") {
  boost::asio::io_context io;
  Recorded child(io);
  child.start("/bin/bash", {"-c", "exec head -c 8388608 /dev/zero"});
  REQUIRE(child.until([&] { return child.executed; }));
  size_t most = 0;
  while (child.output.size() < 1024 * 1024) {
    const size_t before = child.output.size();
    io.restart();
    if (io.run_one_for(std::chrono::seconds(10)) == 0) break;
    most = std::max(most, child.output.size() - before);
  }
  CHECK(child.output.size() >= 1024 * 1024);
  CHECK(most <= 16 * 1024);
  child.process->pause_output(true);
  const size_t held = child.output.size();
  io.restart();
  io.poll();
  child.process->drain();
  CHECK(child.output.size() == held);
}

TEST_CASE("a pause holds stdout back and nothing else") {
  boost::asio::io_context io;
  Recorded child(io);
  child.start("/bin/bash", {"-c", "read -r _; echo out; echo err >&2; sleep 60"});
  REQUIRE(child.until([&] { return child.executed; }));
  child.process->pause_output(true);
  child.process->write("go\n");
  REQUIRE(child.until([&] { return child.errors == "err\n"; }));
  child.process->drain();
  CHECK(child.output == "");
  child.process->pause_output(false);
  CHECK(child.until([&] { return child.output == "out\n"; }));
}

TEST_CASE("a closed process is cleared away without a word") {
  boost::asio::io_context io;
  Recorded child(io);
  child.start(fake("setsid_grandchild.sh"));
  REQUIRE(child.until([&] { return count_marked(child.marker) >= 2 && !child.output.empty(); }));
  const pid_t pid = child.process->pid();
  child.process->close();
  child.process.reset();
  CHECK(run_until(io, [&] { return ::kill(pid, 0) != 0; }));
  CHECK(count_marked(child.marker) == 0);
  CHECK(!child.empty);
  CHECK(child.exited == "");
}

TEST_CASE("the tail keeps the last line that says something") {
  StderrTail tail(64);
  CHECK(tail.last_line() == "");
  tail.feed("first\nsecond line\n \r\n\n");
  CHECK(tail.last_line() == "second line");
  tail.feed("th");
  tail.feed("ird\x1b");
  CHECK(tail.last_line() == "third\\x1B");
  for (int i = 0; i < 1000; ++i) tail.feed("0123456789 and more\n");
  CHECK(tail.size() <= 128);
  CHECK(tail.last_line() == "0123456789 and more");
  tail.feed(std::string(100000, 'z'));
  CHECK(tail.last_line(10).size() <= 16);
  CHECK(tail.size() <= 128);
}
