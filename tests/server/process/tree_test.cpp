// Who belongs to a tree, and that its totals only grow.
#include "server/process/tree.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "process_support.hpp"
#include "server/process/reaper.hpp"

using namespace vigil;
using namespace vigil::process;
using namespace vigil::process::testing;

namespace {

pid_t number_in(const std::string& path) { return static_cast<pid_t>(std::atoi(read_whole(path).c_str())); }
bool holds(const std::vector<pid_t>& all, pid_t pid) { return std::find(all.begin(), all.end(), pid) != all.end(); }

}  // namespace

TEST_CASE("a grandchild cannot leave the tree") {
  boost::asio::io_context io;
  Scripts scripts;
  const std::string pid_file = scripts.path("pid");
  const std::string inner = "'echo $$ > " + pid_file + ".new; mv " + pid_file + ".new " + pid_file + "; trap \"\" TERM; while :; do sleep 30; done'";
  std::string body;
  SECTION("with a session of its own and no parent") { body = "(setsid bash -c " + inner + " &)"; }
  SECTION("with a session of its own and an empty environment") { body = "setsid env -i /bin/bash -c " + inner + " &"; }
  SECTION("without a parent and with an empty environment") { body = "(env -i /bin/bash -c " + inner + " &)"; }
  Recorded child(io);
  child.start(scripts.add("engine", body + "\nsleep 30"));
  pid_t grandchild = 0;
  REQUIRE(child.until([&] { return (grandchild = number_in(pid_file)) > 0 && is_alive(grandchild); }));
  Tree tree(child.process->pid(), child.marker);
  tree.refresh();
  CHECK(holds(tree.living(), child.process->pid()));
  CHECK(holds(tree.living(), grandchild));
  CHECK(!holds(tree.living(), ::getpid()));

  child.process->kill();
  CHECK(child.finish());
  CHECK(!is_alive(grandchild));
}

TEST_CASE("once a member, always one") {
  boost::asio::io_context io;
  Scripts scripts;
  const std::string pid_file = scripts.path("pid"), go = scripts.path("go");
  // Clears its environment in a session of its own; then its parent, the only link, dies.
  Recorded child(io);
  child.start(scripts.add("engine", "bash -c 'setsid env -i /bin/bash -c \"echo \\$\\$ > " + pid_file +
                                        "; while :; do sleep 30; done\" & while [ ! -e " + go + " ]; do sleep 0.02; done' &\nwait; sleep 30"));
  pid_t grandchild = 0;
  REQUIRE(child.until([&] { return (grandchild = number_in(pid_file)) > 0; }));
  REQUIRE(child.until([&] { return !carries_marker(grandchild, "test-", Match::prefix); }));
  Tree tree(child.process->pid(), child.marker);
  tree.refresh();
  REQUIRE(holds(tree.living(), grandchild));
  const auto parent = read_process(grandchild)->parent;
  scripts.add("go", "");
  REQUIRE(child.until([&] { return !is_alive(parent); }));
  tree.refresh();
  CHECK(holds(tree.living(), grandchild));
  tree.signal(SIGKILL);
  CHECK(child.until([&] { return !is_alive(grandchild); }));
}

// Not under a sanitizer: UBSan looks at objects through a pipe, and without descriptors it takes every one for a wrong one.
#ifndef __SANITIZE_ADDRESS__
TEST_CASE("a look for which there is no descriptor forgets nobody") {
  boost::asio::io_context io;
  Recorded child(io);
  child.start("/bin/bash", {"-c", "setsid sleep 60 & echo $!; exec sleep 60"});
  REQUIRE(child.until([&] { return !child.output.empty() && child.output.back() == '\n'; }));
  const pid_t grandchild = std::atoi(child.output.c_str());
  Tree tree(child.process->pid(), child.marker);
  tree.refresh();
  REQUIRE(holds(tree.living(), grandchild));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{0, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  tree.refresh();
  const bool listed = list_processes().complete;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(!listed);
  CHECK(holds(tree.living(), grandchild));
  CHECK(holds(tree.living(), child.process->pid()));
  CHECK(tree.uncertain());
  child.process->kill();
  REQUIRE(child.finish());
  CHECK(!is_alive(grandchild));
}
#endif

TEST_CASE("a zombie is dead, and its process group is still ours") {
  boost::asio::io_context io;
  Recorded child(io);
  child.start("/bin/sleep", {"30"});
  REQUIRE(child.until([&] { return child.executed; }));
  Tree tree(child.process->pid(), child.marker);
  ::kill(child.process->pid(), SIGKILL);
  REQUIRE(look_until([&] {
    const auto info = read_process(child.process->pid());
    return info && !info->alive;
  }));
  tree.refresh();
  CHECK(tree.living().empty());
}

TEST_CASE("a signal reaches only the process that was seen") {
  boost::asio::io_context io;
  Recorded child(io);
  child.start("/bin/sleep", {"30"});
  REQUIRE(child.until([&] { return child.executed; }));
  ProcessInfo other = *read_process(child.process->pid());
  ++other.started_ticks;  // the same number, another process
  CHECK(!signal_process(other, SIGKILL));
  CHECK(is_alive(child.process->pid()));
}

TEST_CASE("usage counts the work of members that come and go, and never decreases") {
  boost::asio::io_context io;
  Scripts scripts;
  Recorded child(io);
  // Every worker lives shorter than any two looks and is waited for by the shell, which itself does next to nothing.
  child.start(scripts.add("engine", "while :; do (for ((i = 0; i < 20000; i++)); do :; done) & wait; done"));
  REQUIRE(child.until([&] { return child.executed; }));
  Tree tree(child.process->pid(), child.marker);
  TreeUsage last = tree.usage();
  bool grew = true;
  const bool reached = look_until([&] {
    const TreeUsage now = tree.usage();
    grew = grew && now.cpu >= last.cpu && now.major_faults >= last.major_faults && now.io_bytes >= last.io_bytes;
    last = now;
    return now.cpu >= std::chrono::milliseconds(500);
  });
  CHECK(reached);
  CHECK(grew);
  // Nothing is counted twice: the shell's own clock and what it waited for bound it (20 ms of clock ticks apart).
  const auto shell = read_process(child.process->pid());
  CHECK(last.cpu <= shell->own_cpu + shell->waited_cpu + std::chrono::milliseconds(300));
}

TEST_CASE("a sleeping tree uses nothing") {
  boost::asio::io_context io;
  Recorded child(io);
  child.start(fake("mute.sh"));
  REQUIRE(child.until([&] { return child.output == "READY 32768 stop\n"; }));
  Tree tree(child.process->pid(), child.marker);
  const TreeUsage before = tree.usage();
  for (int i = 0; i < 20; ++i) tree.usage();
  CHECK(tree.usage().cpu - before.cpu < std::chrono::milliseconds(20));
}

TEST_CASE("adopted orphans are reaped, children of ours are not") {
  // In a process of its own: being a subreaper lasts.
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (!become_subreaper()) ::_exit(1);
    const pid_t ours = ::fork();
    if (ours == 0) ::_exit(7);
    register_child(ours);
    const pid_t parent = ::fork();
    if (parent == 0) {
      if (::fork() == 0) ::_exit(0);  // an orphan as soon as its parent has ended
      ::_exit(0);
    }
    register_child(parent);
    ::waitpid(parent, nullptr, 0);
    forget_child(parent);
    int reaped = 0;
    const bool found = look_until([&] { return (reaped += reap_adopted()) > 0; });
    int status = 0;
    const bool kept = ::waitpid(ours, &status, 0) == ours && WIFEXITED(status) && WEXITSTATUS(status) == 7;
    ::_exit(!found ? 2 : reaped != 1 ? 3 : !kept ? 4 : 0);
  }
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
}
