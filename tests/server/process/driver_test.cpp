// The real driver, child machine and desk with real children: what a request gets for whatever the child does.
#include "server/process/driver.hpp"

#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "process_support.hpp"

using namespace vigil;
using namespace vigil::process;
using namespace vigil::process::testing;
using Catch::Matchers::Contains;
using supervise::ChildState;
using std::chrono::milliseconds;

namespace {

struct Answer {
  bool started = false;
  std::vector<protocol::TokenId> tokens;
  std::optional<turn::Ending> ending;
  int endings = 0;
  const turn::RequestError& error() const { return std::get<turn::Failed>(ending->how).error; }
  bool failed() const { return ending && std::holds_alternative<turn::Failed>(ending->how); }
  bool finished() const { return ending && std::holds_alternative<turn::Finished>(ending->how); }
};

class Sink final : public turn::ReplySink {
 public:
  explicit Sink(std::shared_ptr<Answer> answer) : answer_(std::move(answer)) {}
  void on_started(const std::vector<turn::TokenId>&) override { answer_->started = true; }
  turn::Verdict on_token(const protocol::Token& token) override {
    answer_->tokens.push_back(token.id);
    return turn::Verdict::more;
  }
  void on_end(const turn::Ending& ending) override {
    answer_->ending = ending;
    ++answer_->endings;
  }

 private:
  std::shared_ptr<Answer> answer_;
};

supervise::ChildLimits limits() {
  supervise::ChildLimits all;
  all.exec = all.ready = all.load_max = all.silence = all.stall = all.step = all.cancel = std::chrono::seconds(30);
  all.stop = std::chrono::seconds(20);
  all.backoff_first = std::chrono::seconds(30);
  all.backoff_max = std::chrono::seconds(60);
  all.eager = false;
  return all;
}

struct House {
  boost::asio::io_context io;
  std::string instance = unique_marker();
  std::string log, errors;
  int starts = 0, loads = 0;
  std::function<void()> output_taken;
  std::vector<supervise::Trouble> kills;
  std::unique_ptr<EngineDriver> driver;
  std::unique_ptr<turn::Desk> desk;
  turn::RequestKey last_key = 0;

  explicit House(const std::string& exe, const supervise::ChildLimits& bounds = limits()) {
    DriverOptions options;
    options.instance = instance;
    options.exe = exe;
    DriverObserver observer;
    observer.log = [this](const std::string& line) { log += line + "\n"; };
    observer.stderr_output = [this](supervise::Generation, std::string_view bytes) { errors += bytes.substr(0, 1024); };
    observer.output_taken = [this] {
      if (output_taken) output_taken();
    };
    observer.started = [this] { ++starts; };
    observer.loaded = [this](double) { ++loads; };
    observer.killed = [this](supervise::Trouble why) { kills.push_back(why); };
    driver = std::make_unique<EngineDriver>(io, options, bounds, observer);
    desk = std::make_unique<turn::Desk>(turn::DeskLimits{}, *driver);
    driver->attach(*desk);
  }
  ~House() {
    desk.reset();
    driver.reset();
    io.restart();
    io.poll();
    CHECK(run_until(io, [this] { return count_marked(instance) == 0; }));  // nobody outlives a daemon, whatever was tested
  }
  std::shared_ptr<Answer> ask(int64_t max_new = 10, std::vector<protocol::TokenId> prompt = {7, 8, 9}) {
    auto answer = std::make_shared<Answer>();
    turn::Request request;
    request.id = "request";
    request.client = "client";
    request.prompt = std::move(prompt);
    request.max_new = max_new;
    last_key = desk->submit(std::move(request), std::make_unique<Sink>(answer), std::chrono::steady_clock::now());
    return answer;
  }
  bool until(const std::function<bool()>& reached) { return run_until(io, reached); }
  bool ended(const std::shared_ptr<Answer>& answer) {
    return until([&] { return answer->ending.has_value(); });
  }
  size_t processes() const { return count_marked(instance); }
};

// Reads commands; `on_gen` runs at every GEN, with the command's words in $line.
std::string engine(const std::string& on_gen, const std::string& ready = "READY 100000 stop") {
  return "echo '" + ready + "'\nwhile IFS= read -r line; do case $line in GEN*)\n" + on_gen + "\n;; esac; done";
}

}  // namespace

TEST_CASE("an answer, whole and in order") {
  Scripts scripts;
  House house(scripts.add("engine", engine("echo RESUME 2; echo PP 3 3 1 1; seq 1000 20999 | sed 's/^/T /'; echo DONE 20000 3 1 1 stop")));
  const auto answer = house.ask(30000);
  REQUIRE(house.ended(answer));
  CHECK(answer->finished());
  CHECK(answer->ending->usage.cached == 2);
  REQUIRE(answer->tokens.size() == 20000);
  bool in_order = true;
  for (size_t i = 0; i < answer->tokens.size(); ++i) in_order = in_order && answer->tokens[i] == static_cast<protocol::TokenId>(1000 + i);
  CHECK(in_order);
  CHECK(house.starts == 1);
  CHECK(house.loads == 1);
  const auto second = house.ask();
  REQUIRE(house.ended(second));
  CHECK(second->tokens.size() == 10);  // max_new, whatever the engine says
  CHECK(house.starts == 1);
}

TEST_CASE("what was read at once is reported once, when every line of it has been given on") {
  Scripts scripts;
  House house(scripts.add("engine", engine("env printf 'T 1\\nT 2\\nT 3\\nDONE 3 3 1 1 length\\n'")));  // one write, unlike the builtin's
  std::vector<size_t> seen;
  std::shared_ptr<Answer> answer;
  house.output_taken = [&] {
    if (answer) seen.push_back(answer->tokens.size());
  };
  answer = house.ask();
  REQUIRE(house.ended(answer));
  REQUIRE(house.until([&] { return !seen.empty() && seen.back() > 0; }));
  seen.erase(std::remove(seen.begin(), seen.end(), 0u), seen.end());  // of READY
  CHECK(seen == std::vector<size_t>{3});
}

TEST_CASE("what is sent is what was asked") {
  Scripts scripts;
  const std::string seen = scripts.path("seen");
  House house(scripts.add("engine", engine("echo \"$line\" > " + seen + "; echo T 1; echo DONE 1 3 1 1 stop")));
  REQUIRE(house.ended(house.ask(42, {5, 6})));
  CHECK(read_whole(seen) == "GEN 42 5,6\n");
}

TEST_CASE("never READY: the request gets the limit's name, the tree is gone, the next request starts another") {
  auto bounds = limits();
  bounds.ready = milliseconds(400);
  House house(fake("never_ready.sh"), bounds);
  const auto answer = house.ask();
  REQUIRE(house.until([&] { return house.processes() == 2; }));  // the shell and its sleep
  REQUIRE(house.ended(answer));
  REQUIRE(answer->failed());
  CHECK(answer->error().code == turn::ErrorCode::engine_not_ready);
  CHECK_THAT(answer->error().message, Contains("READY") && Contains("engine.ready_s"));
  CHECK(house.kills == std::vector{supervise::Trouble::not_ready});
  REQUIRE(house.until([&] { return house.processes() == 0; }));
  REQUIRE(house.until([&] { return house.driver->child().state() == ChildState::failed; }));
  const auto second = house.ask();
  REQUIRE(house.until([&] { return house.driver->child().generation() == 2; }));
  REQUIRE(house.ended(second));
  CHECK(house.starts == 2);
}

TEST_CASE("ready, then mute: the stall limit") {
  auto bounds = limits();
  bounds.stall = milliseconds(600);
  House house(fake("mute.sh"), bounds);
  const auto answer = house.ask();
  REQUIRE(house.ended(answer));
  REQUIRE(answer->failed());
  CHECK(answer->error().code == turn::ErrorCode::engine_stalled);
  CHECK_THAT(answer->error().message, Contains("engine.stall_s"));
  CHECK(house.until([&] { return house.processes() == 0; }));
}

TEST_CASE("busy, but saying nothing: the silence limit, not the stall limit") {
  auto bounds = limits();
  bounds.stall = milliseconds(500);
  bounds.silence = milliseconds(1500);
  Scripts scripts;
  // The work is done by children of a child; the engine's own process is flat.
  House house(scripts.add("engine", engine("bash -c 'while :; do (for ((i = 0; i < 20000; i++)); do :; done) & wait; done'")), bounds);
  const auto answer = house.ask();
  REQUIRE(house.ended(answer));
  REQUIRE(answer->failed());
  CHECK(answer->error().code == turn::ErrorCode::engine_silent);
  CHECK_THAT(answer->error().message, Contains("engine.silence_s"));
}

TEST_CASE("a death in the middle names the signal and the last words") {
  Scripts scripts;
  House house(scripts.add("engine", engine("echo T 1; echo T 2; echo 'CUDA error: no more memory' >&2; printf 'T 3'; kill -SEGV $$")));
  const auto answer = house.ask();
  REQUIRE(house.ended(answer));
  REQUIRE(answer->failed());
  CHECK(answer->error().code == turn::ErrorCode::engine_crashed);
  CHECK_THAT(answer->error().message, Contains("killed by signal 11 (SIGSEGV)") && Contains("CUDA error: no more memory"));
  CHECK(answer->tokens == std::vector<protocol::TokenId>{1, 2});  // half a line is no token
  CHECK(house.errors == "CUDA error: no more memory\n");
}

TEST_CASE("ERR ends a request; an exit that follows joins the reason") {
  Scripts scripts;
  SECTION("and it exits") {
    House house(scripts.add("engine", engine("echo T 1; echo ERR out of blocks; exit 3")));
    const auto answer = house.ask();
    REQUIRE(house.ended(answer));
    REQUIRE(answer->failed());
    CHECK(answer->error().code == turn::ErrorCode::engine_error);
    CHECK_THAT(answer->error().message, Contains("out of blocks") && Contains("exited with status 3"));
  }
  SECTION("FATAL, and it exits") {
    House house(scripts.add("engine", engine("echo FATAL the card fell off; exit 4")));
    const auto answer = house.ask();
    REQUIRE(house.ended(answer));
    REQUIRE(answer->failed());
    CHECK_THAT(answer->error().message, Contains("the card fell off") && Contains("exited with status 4"));
  }
  SECTION("and it lives on, for the next request") {
    House house(scripts.add("engine", engine("n=$((n + 1)); if [ $n = 1 ]; then echo ERR out of blocks; else echo T 5; echo DONE 1 3 1 1 stop; fi")));
    const auto answer = house.ask(), next = house.ask();
    REQUIRE(house.ended(answer));
    REQUIRE(answer->failed());
    CHECK(answer->error().message == "out of blocks");
    REQUIRE(house.ended(next));
    CHECK(next->finished());
    CHECK(house.starts == 1);
  }
}

TEST_CASE("a line that never ends costs no memory and is no crash") {
  Scripts scripts;
  House house(scripts.add("engine", engine("head -c 67108864 /dev/zero | tr '\\0' x; echo\n"
                                           "printf 'T 1\\r\\nnonsense\\n\\0\\377\\nT 2\\n'; echo DONE 2 3 1 1 stop")));
  std::ofstream("/proc/self/clear_refs") << "5";  // forget the peak
  const auto peak_kib = [] {
    const std::string status = read_whole("/proc/self/status");
    return std::atol(status.c_str() + status.find("VmHWM:") + 6);
  };
  const long before = peak_kib();
  const auto answer = house.ask();
  REQUIRE(house.ended(answer));
  CHECK(answer->finished());
  CHECK(answer->tokens == std::vector<protocol::TokenId>{1, 2});
  CHECK(peak_kib() - before < 16 * 1024);
  CHECK_THAT(house.log, Contains("over 65536 bytes"));
}

TEST_CASE("output closed by an engine that lives on ends the request and the engine") {
  Scripts scripts;
  House house(scripts.add("engine", engine("exec >&-; while :; do sleep 30; done")));
  const auto answer = house.ask();
  REQUIRE(house.ended(answer));
  REQUIRE(answer->failed());
  CHECK(answer->error().code == turn::ErrorCode::engine_crashed);
  CHECK_THAT(answer->error().message, Contains("closed its output"));
  CHECK(house.until([&] { return house.processes() == 0; }));
}

TEST_CASE("an engine that cannot be executed: the reason at once, then back-off") {
  House house("/no/such/engine");
  const auto first = house.ask();
  REQUIRE(house.ended(first));
  REQUIRE(first->failed());
  CHECK(first->error().code == turn::ErrorCode::engine_start_failed);
  CHECK(first->error().message == "the engine could not be executed: '/no/such/engine': No such file or directory (engine.exe)");
  REQUIRE(house.until([&] { return house.driver->child().state() == ChildState::failed; }));
  const auto second = house.ask();
  REQUIRE(house.ended(second));
  CHECK(second->error().code == turn::ErrorCode::engine_start_failed);
  REQUIRE(house.until([&] { return house.driver->child().state() == ChildState::backoff; }));
  const auto third = house.ask();
  REQUIRE(house.ended(third));
  CHECK(third->error().code == turn::ErrorCode::engine_crash_loop);
  CHECK(third->error().retry_after_s > 1);
  CHECK(house.starts == 2);
}

TEST_CASE("an exit before READY tells its status and its last words") {
  Scripts scripts;
  House house(scripts.add("engine", "echo 'model.gguf: no such file' >&2; exit 1"));
  const auto answer = house.ask();
  REQUIRE(house.ended(answer));
  REQUIRE(answer->failed());
  CHECK(answer->error().code == turn::ErrorCode::engine_start_failed);
  CHECK_THAT(answer->error().message, Contains("exited with status 1") && Contains("model.gguf: no such file"));
}

TEST_CASE("a client that leaves costs one STOP, a normal end none") {
  Scripts scripts;
  const std::string seen = scripts.path("seen");
  House house(scripts.add("engine", "echo READY 1000 stop; while IFS= read -r line; do echo \"${line%% *}\" >> " + seen +
                                        "; case $line in GEN*) echo T 1;; STOP) echo DONE 1 3 1 1 cancel;; esac; done"));
  const auto left = house.ask();
  REQUIRE(house.until([&] { return !left->tokens.empty(); }));
  house.desk->leave(house.last_key, std::chrono::steady_clock::now());
  CHECK(left->endings == 1);
  const auto next = house.ask(1);  // one token is all it wants: no STOP
  REQUIRE(house.ended(next));
  CHECK(next->finished());
  REQUIRE(house.until([&] { return read_whole(seen) == "GEN\nSTOP\nGEN\n"; }));
}

TEST_CASE("two requests at once on an engine that tags its lines") {
  Scripts scripts;
  House house(scripts.add("engine", engine("[[ $line =~ req=([0-9]+) ]]; tags+=(${BASH_REMATCH[1]}); if [ ${#tags[@]} = 2 ]; then\n"
                                           "echo T 99; echo @77 T 98; for t in ${tags[@]}; do echo @$t T 1$t; done\n"
                                           "for t in ${tags[@]}; do echo @$t DONE 1 3 1 1 stop; done; fi",
                                           "READY 1000 stop ids slots=2")));
  const auto first = house.ask(), second = house.ask();
  REQUIRE(house.ended(first));
  REQUIRE(house.ended(second));
  CHECK(first->tokens == std::vector<protocol::TokenId>{11});  // leases 1 and 2; the untagged line and the one for 77 were nobody's
  CHECK(second->tokens == std::vector<protocol::TokenId>{12});
  CHECK_THAT(house.log, Contains("T 99"));
}

TEST_CASE("stopping takes the whole tree along") {
  House house(fake("setsid_grandchild.sh"));
  house.driver->load();
  REQUIRE(house.until([&] { return house.driver->child().state() == ChildState::ready && house.processes() >= 3; }));
  bool done = false;
  SECTION("with grace for those that ignore TERM") {
    // The grandchild ignores TERM, so this one needs the KILL that follows engine.stop_s.
    auto bounds = limits();
    bounds.stop = milliseconds(300);
    house.driver->set_limits(bounds);
    house.driver->stop(supervise::Trouble::unloaded, false, [&] { done = true; });
  }
  SECTION("at once") { house.driver->stop(supervise::Trouble::unloaded, true, [&] { done = true; }); }
  REQUIRE(house.until([&] { return done; }));
  CHECK(house.processes() == 0);
  CHECK(house.driver->child().state() == ChildState::unloaded);
  bool again = false;
  house.driver->stop(supervise::Trouble::unloaded, false, [&] { again = true; });  // nothing runs: at once
  CHECK(house.until([&] { return again; }));
}

TEST_CASE("a stop in a load ends its waiters and the load") {
  House house(fake("never_ready.sh"));
  const auto answer = house.ask();
  REQUIRE(house.until([&] { return house.processes() == 2; }));
  bool done = false;
  house.driver->stop(supervise::Trouble::shutting_down, true, [&] { done = true; });
  REQUIRE(house.until([&] { return done; }));
  REQUIRE(answer->failed());
  CHECK(answer->error().code == turn::ErrorCode::shutting_down);
  CHECK(house.processes() == 0);
}

TEST_CASE("a stop during the spawn stops the new child too") {
  House house(fake("never_ready.sh"));
  house.driver->load();
  bool done = false;
  house.driver->stop(supervise::Trouble::unloaded, true, [&] { done = true; });  // before its execve was told
  REQUIRE(house.until([&] { return done; }));
  CHECK(house.processes() == 0);
}

TEST_CASE("a daemon that was starved reads before it judges") {
  auto bounds = limits();
  bounds.ready = milliseconds(500);
  Scripts scripts;
  const std::string said = scripts.path("said");
  House house(scripts.add("engine", "for ((i = 0; i < 3000; i++)); do echo INFO note=$i; done; echo READY 1000 stop; touch " +
                                        said + "; while read -r _; do :; done"), bounds);
  house.driver->load();
  const auto late = std::chrono::steady_clock::now() + milliseconds(600);
  // The loop does not turn while READY comes, behind more than one turn reads, and the limit passes.
  REQUIRE(look_until([&] { return ::access(said.c_str(), F_OK) == 0 && std::chrono::steady_clock::now() > late; }));
  REQUIRE(house.until([&] { return house.driver->child().state() != ChildState::starting; }));
  CHECK(house.driver->child().state() == ChildState::ready);
  CHECK(house.kills.empty());
}

TEST_CASE("an idle engine costs no wake-ups") {
  House house(fake("mute.sh"));
  house.driver->load();
  REQUIRE(house.until([&] { return house.driver->child().state() == ChildState::ready; }));
  house.io.restart();
  while (house.io.poll() > 0) house.io.restart();
  CHECK(!house.driver->child().deadline());
  house.io.restart();
  CHECK(house.io.run_for(milliseconds(300)) == 0);  // not one handler ran
}

TEST_CASE("a driver that goes away leaves nobody behind") {
  House house(fake("setsid_grandchild.sh"));
  const auto answer = house.ask();
  REQUIRE(house.until([&] { return answer->started && house.processes() >= 3; }));
  // The house's own end checks it.
}
