// A daemon that is killed takes its whole tree along; one that ends cleanly leaves no keeper.
#include "server/process/keeper.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "process_support.hpp"
#include "server/process/keeper_watch.hpp"
#include "server/process/proc.hpp"

using namespace vigil;
using namespace vigil::process;
using namespace vigil::process::testing;

TEST_CASE("a killed daemon's tree is gone, whatever it did to get away") {
  const std::string script = GENERATE(as<std::string>{}, "never_ready.sh", "backgrounding_wrapper.sh", "setsid_grandchild.sh");
  Scripts scripts;
  const std::string ready = scripts.path("ready");
  boost::asio::io_context other_io;
  Recorded bystander(other_io);  // another daemon's child: must live
  bystander.start("/bin/sleep", {"60"});
  REQUIRE(bystander.until([&] { return bystander.executed; }));

  const pid_t daemon = ::fork();
  if (daemon == 0) {
    const std::string instance = make_instance();
    auto keeper = start_keeper(instance);
    if (!keeper) ::_exit(1);
    auto child = spawn(request_for(fake(script), instance + ".engine.1"));
    if (!child) ::_exit(2);
    std::ofstream(ready + ".new") << instance << " " << keeper->pid();
    ::rename((ready + ".new").c_str(), ready.c_str());
    while (true) ::pause();
  }
  std::string instance;
  pid_t keeper = 0;
  REQUIRE(look_until([&] { return static_cast<bool>(std::ifstream(ready) >> instance >> keeper); }));
  REQUIRE(look_until([&] { return count_marked(instance + ".engine.1") >= 2; }));
  CHECK(is_alive(keeper));
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) ::kill(keeper, number);  // a service manager's; it stays until its daemon is gone

  ::kill(daemon, SIGKILL);
  ::waitpid(daemon, nullptr, 0);
  CHECK(look_until([&] { return count_marked(instance + ".") == 0; }));
  CHECK(look_until([&] { return !is_alive(keeper); }));
  CHECK(is_alive(bystander.process->pid()));
}

TEST_CASE("a direct child dies with its daemon even without a keeper") {
  const std::string marker = unique_marker();
  const pid_t daemon = ::fork();
  if (daemon == 0) {
    auto child = spawn(request_for("/bin/sleep", marker, {"60"}));
    if (!child) ::_exit(1);
    while (true) ::pause();
  }
  REQUIRE(look_until([&] { return count_marked(marker) == 1; }));
  ::kill(daemon, SIGKILL);
  ::waitpid(daemon, nullptr, 0);
  CHECK(look_until([&] { return count_marked(marker) == 0; }));
}

TEST_CASE("a keeper holds nothing of its daemon's and ends with it") {
  const std::string instance = make_instance();
  auto keeper = start_keeper(instance);
  REQUIRE(keeper);
  const pid_t pid = keeper->pid();
  REQUIRE(look_until([&] { return read_whole("/proc/" + std::to_string(pid) + "/comm") == "vigil-keeper\n"; }));
  const auto descriptors = [&] {
    std::string found;
    for (int fd = 0; fd < 64; ++fd)
      if (::access(("/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd)).c_str(), F_OK) == 0) found += std::to_string(fd) + " ";
    return found;
  };
  CHECK(look_until([&] { return descriptors() == "2 3 " || descriptors() == "3 "; }));  // stderr may be closed or gone
  keeper->stop();
  CHECK(::kill(pid, 0) != 0);
}

TEST_CASE("a keeper that was killed is reaped, told of and replaced") {
  boost::asio::io_context io;
  const std::string instance = make_instance();
  auto keeper = start_keeper(instance);
  REQUIRE(keeper);
  std::string log;
  {
    KeeperWatch watch(io, *keeper, instance, [&](const std::string& line) { log += line + "\n"; });
    const pid_t first = keeper->pid();
    ::kill(first, SIGKILL);
    REQUIRE(run_until(io, [&] { return !log.empty(); }));
    CHECK(::kill(first, 0) != 0);
    CHECK(keeper->pid() != first);
    CHECK(is_alive(keeper->pid()));
    CHECK(log == "the keeper (pid " + std::to_string(first) + ") was killed; started another, pid " + std::to_string(keeper->pid()) + "\n");
  }
  keeper->stop();
}

TEST_CASE("instances differ") { CHECK(make_instance() != make_instance()); }
