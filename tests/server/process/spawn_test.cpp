// What a child gets and does not get, and what is said when it cannot be executed.
#include "server/process/spawn.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "process_support.hpp"

using namespace vigil;
using namespace vigil::process;
using namespace vigil::process::testing;
using Catch::Matchers::Contains;

namespace {

std::string output_of(boost::asio::io_context& io, const std::string& exe, std::vector<std::string> args, ForkPath path,
                      const std::function<void(SpawnRequest&)>& change = {}) {
  Recorded child(io);
  child.start(exe, std::move(args), [&](SpawnRequest& request) {
    request.path = path;
    if (change) change(request);
  });
  REQUIRE(child.finish());
  REQUIRE(child.not_executed == "");
  CHECK(child.executed);
  CHECK(child.exited == "exited with status 0");
  return child.output;
}

}  // namespace

TEST_CASE("a child that cannot be executed says what and why") {
  boost::asio::io_context io;
  Scripts scripts;
  const ForkPath path = GENERATE(ForkPath::best, ForkPath::fork_only);
  const auto reason_for = [&](const std::string& exe, const std::string& cwd = "") {
    Recorded child(io);
    child.start(exe, {}, [&](SpawnRequest& request) {
      request.path = path;
      request.cwd = cwd;
    });
    REQUIRE(child.finish());
    CHECK(!child.executed);
    CHECK(child.exited == "");
    const pid_t pid = child.process->pid();
    CHECK(run_until(io, [&] { return ::kill(pid, 0) != 0; }));  // reaped, not left as a zombie
    return child.not_executed;
  };

  CHECK_THAT(reason_for("/no/such/engine"), Contains("'/no/such/engine': No such file or directory") && Contains("engine.exe"));

  const std::string plain = scripts.add("plain", "true");
  ::chmod(plain.c_str(), 0644);
  CHECK_THAT(reason_for(plain), Contains("Permission denied") && Contains("executable bit"));

  { std::ofstream(scripts.path("no_shebang")) << "echo READY 1\n"; }
  ::chmod(scripts.path("no_shebang").c_str(), 0755);
  CHECK_THAT(reason_for(scripts.path("no_shebang")), Contains("Exec format error") && Contains("#!"));

  { std::ofstream(scripts.path("lost")) << "#!/no/such/interpreter\n"; }
  ::chmod(scripts.path("lost").c_str(), 0755);
  CHECK_THAT(reason_for(scripts.path("lost")), Contains("the file is there, the interpreter"));

  CHECK_THAT(reason_for("/bin/true", "/no/such/folder"), Contains("'/no/such/folder'") && Contains("engine.cwd"));
}

TEST_CASE("a child starts clean") {
  boost::asio::io_context io;
  const ForkPath path = GENERATE(ForkPath::best, ForkPath::fork_only);

  SECTION("descriptors: three, whatever we have open") {
    const UniqueFd leaky(::fcntl(::open("/dev/null", O_RDONLY), F_DUPFD, 90));  // not close-on-exec
    REQUIRE(leaky.get() >= 90);
    CHECK(output_of(io, "/bin/ls", {"/proc/self/fd"}, path) == "0\n1\n2\n3\n");  // 3 is ls reading the folder
  }
  SECTION("environment: without ours, with its own and the marker") {
    const char* const own[] = {"PATH=/bin:/usr/bin", "KEPT=1", "CHANGED=old", "NOTIFY_SOCKET=/x", "LISTEN_FDS=1", "LISTEN_PID=1",
                               "WATCHDOG_USEC=1", "VIGIL_API_KEY=secret", "VIGIL_CHILD=other.engine.9", nullptr};
    const auto words = child_environment(own, {{"CHANGED", "new"}, {"VIGIL_CHILD", "forged"}, {"VIGIL_GIVEN", "x"}}, "i.engine.4");
    const std::string out = output_of(io, "/usr/bin/env", {}, path, [&](SpawnRequest& request) { request.environment = words; });
    CHECK(out == "VIGIL_CHILD=i.engine.4\nPATH=/bin:/usr/bin\nKEPT=1\nCHANGED=new\nVIGIL_GIVEN=x\n");
  }
  SECTION("signals: nothing ignored, nothing blocked") {
    struct sigaction before {};
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, &before);
    sigset_t blocked, old;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    ::sigprocmask(SIG_BLOCK, &blocked, &old);
    const std::string out = output_of(io, "/bin/grep", {"-E", "SigBlk|SigIgn", "/proc/self/status"}, path);
    ::sigprocmask(SIG_SETMASK, &old, nullptr);
    ::sigaction(SIGPIPE, &before, nullptr);
    CHECK(out == "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
  }
  SECTION("the system takes it before the daemon when memory ends") {
    CHECK(output_of(io, "/bin/cat", {"/proc/self/oom_score_adj"}, path) == "500\n");
  }
  SECTION("its own limit of open files") {
    CHECK(output_of(io, "/bin/bash", {"-c", "ulimit -Sn"}, path, [](SpawnRequest& request) { request.open_files = 77; }) == "77\n");
  }
  SECTION("its own folder, arguments as they are") {
    CHECK(output_of(io, "/bin/bash", {"-c", "pwd; printf '<%s>' \"$@\"", "x", "a b", "", "ü"}, path,
                    [](SpawnRequest& request) { request.cwd = "/usr"; }) == "/usr\n<a b><><ü>");
  }
  SECTION("its own session and group") {
    const std::string body = "read -r pid _ _ _ group session _ < /proc/self/stat; [ $pid = $group ] && [ $pid = $session ] && echo own";
    CHECK(output_of(io, "/bin/bash", {"-c", body}, path) == "own\n");
  }
}
