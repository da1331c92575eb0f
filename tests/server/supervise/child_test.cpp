// The child machine: every state by the events that mean something in it. Time is moved by hand.
#include <algorithm>

#include <catch2/catch.hpp>

#include "server/supervise/child.hpp"

using namespace vigil;
using namespace vigil::supervise;
using namespace std::chrono_literals;

namespace {

ChildLimits test_limits() {
  ChildLimits limits;
  limits.exec = 10s;
  limits.ready = 8s;
  limits.load_max = 60s;
  limits.silence = 30s;
  limits.stall = 3s;
  limits.step = 5s;
  limits.cancel = 4s;
  limits.stop = 2s;
  limits.backoff_first = 500ms;
  limits.backoff_max = 10s;
  limits.eager = false;
  return limits;
}

struct Bench {
  explicit Bench(ChildLimits limits = test_limits()) : child(limits) {}

  std::vector<Effect> give(const Event& event) {
    last = child.step(event, now);
    return last;
  }
  // Moves to the deadline and gives Due, as the driver would.
  std::vector<Effect> due() {
    REQUIRE(child.deadline());
    now = std::max(now, *child.deadline());
    if (child.state() == ChildState::ready) child.step(event::Usage{usage}, now);
    return give(event::Due{});
  }
  void line(const std::string& text, std::optional<LeaseId> lease = std::nullopt) {
    auto parsed = protocol::parse_engine_line(text);
    REQUIRE(parsed);
    give(event::Line{lease, parsed->event});
  }
  void start_ready(const std::string& ready = "READY 4096 stop") {
    give(event::Start{});
    give(event::Spawned{100});
    line(ready);
    REQUIRE(child.state() == ChildState::ready);
  }
  void fail_once() {
    give(event::Start{});
    give(event::Spawned{100});
    give(event::Exited{"exited with status 1"});
    give(event::TreeEmpty{});
  }
  template <typename Kind>
  const Kind* effect() const {
    for (const auto& one : last) {
      if (const auto* found = std::get_if<Kind>(&one)) return found;
    }
    return nullptr;
  }

  Child child;
  TimePoint now = TimePoint{} + 1h;
  TreeUsage usage;
  std::vector<Effect> last;
};

}  // namespace

TEST_CASE("S1 a child that never reports READY is ended at engine.ready_s with the limit in the reason", "[child]") {
  Bench bench;
  bench.give(event::Start{});
  CHECK(bench.effect<effect::Spawn>());
  bench.give(event::Spawned{100});
  CHECK(*bench.child.deadline() == bench.now + 8s);
  bench.due();
  const auto* failed = bench.effect<effect::LoadFailed>();
  REQUIRE(failed);
  CHECK(failed->why == Trouble::not_ready);
  CHECK(failed->text == "did not report READY within 8 s (engine.ready_s)");
  CHECK(bench.effect<effect::Terminate>());
  CHECK(bench.child.state() == ChildState::stopping);
  bench.give(event::TreeEmpty{});
  CHECK(bench.child.state() == ChildState::failed);
}

TEST_CASE("a load limit moves only for progress above any before, and load_max_s for nothing", "[child]") {
  Bench bench;
  const TimePoint begin = bench.now;
  bench.give(event::Start{});
  bench.give(event::Spawned{100});
  bench.now += 5s;
  bench.line("INFO load=0.2");
  CHECK(*bench.child.deadline() == bench.now + 8s);
  const TimePoint armed = *bench.child.deadline();
  bench.now += 2s;
  bench.line("INFO load=0.2");
  bench.line("INFO load=0.1");
  bench.line("INFO context=4096");
  bench.give(event::StderrOutput{});
  CHECK(*bench.child.deadline() == armed);
  for (int step = 3; step < 60; ++step) {
    bench.now = begin + step * 1s;
    bench.line("INFO load=0." + std::to_string(200 + step));
  }
  CHECK(*bench.child.deadline() == begin + 60s);
  bench.due();
  REQUIRE(bench.effect<effect::LoadFailed>());
  CHECK(bench.effect<effect::LoadFailed>()->text == "did not report READY within 60 s (engine.load_max_s)");
}

TEST_CASE("an exec that does not come through is ended at engine.exec_s", "[child]") {
  ChildLimits limits = test_limits();
  limits.exec = 1s;
  Bench bench(limits);
  bench.give(event::Start{});
  bench.due();
  REQUIRE(bench.effect<effect::LoadFailed>());
  CHECK(bench.effect<effect::LoadFailed>()->text == "was not executed within 1 s (engine.exec_s)");
}

TEST_CASE("what cannot be executed fails the load with the system's words and leaves nothing to wait for", "[child]") {
  Bench bench;
  bench.give(event::Start{});
  bench.give(event::SpawnFailed{"No such file or directory"});
  REQUIRE(bench.effect<effect::LoadFailed>());
  CHECK(bench.effect<effect::LoadFailed>()->why == Trouble::start_failed);
  CHECK(bench.effect<effect::LoadFailed>()->text.find("No such file") != std::string::npos);
  CHECK(bench.effect<effect::Kill>());
  bench.give(event::TreeEmpty{});
  CHECK(bench.child.state() == ChildState::failed);
}

TEST_CASE("S14 a child that ignores TERM gets KILL after stop_s, again and again, and is shown as stopping", "[child]") {
  Bench bench;
  bench.start_ready();
  bench.give(event::Stop{Trouble::unloaded, false});
  CHECK(bench.effect<effect::Terminate>());
  CHECK(*bench.child.deadline() == bench.now + 2s);
  bench.due();
  CHECK(bench.effect<effect::Kill>());
  CHECK(bench.effect<effect::Killed>());
  CHECK(bench.child.state() == ChildState::stopping);
  bench.due();
  CHECK(bench.effect<effect::Kill>());
  CHECK_FALSE(bench.effect<effect::Killed>());
  CHECK(bench.effect<effect::Log>());
  REQUIRE(bench.effect<effect::LoadFailed>());
  CHECK(bench.child.state() == ChildState::stopping);
  bench.give(event::TreeEmpty{});
  CHECK(bench.child.state() == ChildState::unloaded);
}

TEST_CASE("S11 from the second failure in a row there is a doubling, capped back-off; READY does not reset it, an answer does", "[child]") {
  Bench bench;
  bench.fail_once();
  CHECK(bench.child.state() == ChildState::failed);
  std::vector<Duration> delays;
  for (int n = 0; n < 8; ++n) {
    bench.fail_once();
    REQUIRE(bench.child.state() == ChildState::backoff);
    delays.push_back(bench.child.retry_in(bench.now));
    bench.give(event::Start{});  // a request may not shorten it
    CHECK(bench.child.state() == ChildState::backoff);
    bench.due();
    CHECK(bench.child.state() == ChildState::failed);
  }
  CHECK(delays[0] >= 500ms);
  CHECK(delays[0] <= 560ms);
  for (size_t n = 1; n < delays.size(); ++n) CHECK(delays[n] >= delays[n - 1]);
  CHECK(delays.back() == Duration(10s));

  bench.start_ready();
  bench.give(event::Exited{"exited with status 1"});
  bench.give(event::TreeEmpty{});
  CHECK(bench.child.state() == ChildState::backoff);  // READY proved nothing
  bench.due();
  bench.start_ready();
  bench.give(event::LeaseOpened{1});
  bench.give(event::LeaseAnswered{});
  bench.give(event::LeaseClosed{1});
  bench.give(event::Exited{"exited with status 1"});
  bench.give(event::TreeEmpty{});
  CHECK(bench.child.state() == ChildState::failed);
}

TEST_CASE("a load by hand ends the back-off and forgets the failures", "[child]") {
  Bench bench;
  bench.fail_once();
  bench.fail_once();
  REQUIRE(bench.child.state() == ChildState::backoff);
  bench.give(event::Start{true});
  CHECK(bench.child.state() == ChildState::starting);
  CHECK(bench.child.failures() == 0);
}

TEST_CASE("an eager child starts again by itself as soon as it may; a lazy one waits for a request", "[child]") {
  ChildLimits limits = test_limits();
  limits.eager = true;
  Bench eager(limits);
  eager.fail_once();
  CHECK(eager.child.state() == ChildState::starting);
  CHECK(eager.child.generation() == 2);
  eager.give(event::Exited{"exited with status 1"});
  eager.give(event::TreeEmpty{});
  CHECK(eager.child.state() == ChildState::backoff);
  eager.due();
  CHECK(eager.child.state() == ChildState::starting);
  Bench lazy;
  lazy.fail_once();
  CHECK(lazy.child.state() == ChildState::failed);
  CHECK_FALSE(lazy.child.deadline());
}

TEST_CASE("S21 two starts are one; a stop during a start stops the new child too", "[child]") {
  Bench bench;
  bench.give(event::Start{});
  bench.give(event::Start{});
  CHECK_FALSE(bench.effect<effect::Spawn>());
  CHECK(bench.child.generation() == 1);
  bench.give(event::Stop{Trouble::unloaded, false});
  REQUIRE(bench.effect<effect::LoadFailed>());
  CHECK(bench.effect<effect::LoadFailed>()->why == Trouble::unloaded);
  CHECK(bench.effect<effect::Terminate>());
  bench.give(event::Spawned{100});  // late: it changes nothing
  CHECK(bench.child.state() == ChildState::stopping);
  bench.give(event::TreeEmpty{});
  CHECK(bench.child.state() == ChildState::unloaded);
}

TEST_CASE("a start that is asked for while the child stops comes after the stop", "[child]") {
  Bench bench;
  bench.start_ready();
  bench.give(event::Stop{Trouble::unloaded, false});
  bench.give(event::Start{});
  CHECK(bench.child.state() == ChildState::stopping);
  bench.give(event::TreeEmpty{});
  CHECK(bench.child.state() == ChildState::starting);
  CHECK(bench.child.generation() == 2);
}

TEST_CASE("events of a tree that is not being stopped change nothing", "[child]") {
  Bench bench;
  bench.give(event::TreeEmpty{});
  CHECK(bench.child.state() == ChildState::unloaded);
  bench.start_ready();
  bench.give(event::TreeEmpty{});
  CHECK(bench.child.state() == ChildState::ready);
  bench.give(event::SpawnFailed{"late"});
  CHECK(bench.child.state() == ChildState::ready);
}

TEST_CASE("S19 end of output is a death within 200 ms, unless the exit tells more before", "[child]") {
  Bench bench;
  bench.start_ready();
  bench.give(event::LeaseOpened{1});
  bench.give(event::StdoutClosed{});
  CHECK(bench.child.state() == ChildState::ready);
  SECTION("it lives on") {
    CHECK(*bench.child.deadline() <= bench.now + 200ms);
    while (bench.child.state() == ChildState::ready) bench.due();
    REQUIRE(bench.effect<effect::Lost>());
    CHECK(bench.effect<effect::Lost>()->why == Trouble::crashed);
    CHECK(bench.effect<effect::Lost>()->text == "closed its output and lived on");
    CHECK(bench.effect<effect::Terminate>());
  }
  SECTION("its exit comes") {
    bench.give(event::Exited{"killed by signal 11 (SIGSEGV)"});
    REQUIRE(bench.effect<effect::Lost>());
    CHECK(bench.effect<effect::Lost>()->text == "killed by signal 11 (SIGSEGV)");
    CHECK(bench.effect<effect::Kill>());  // the rest of its tree has nobody to stop for
  }
}

TEST_CASE("a death that nobody asked for is a failure; one that was asked for is not", "[child]") {
  Bench bench;
  bench.start_ready();
  bench.give(event::Exited{"exited with status 0"});
  CHECK(bench.child.failures() == 1);
  bench.give(event::TreeEmpty{});
  bench.start_ready();
  bench.give(event::Stop{Trouble::unloaded, false});
  bench.give(event::Exited{"exited with status 0"});
  CHECK(bench.child.failures() == 1);
  bench.give(event::TreeEmpty{});
  CHECK(bench.child.state() == ChildState::unloaded);
}

TEST_CASE("ERR and FATAL instead of READY fail the load with their text", "[child]") {
  for (const std::string text : {"ERR cannot read the model", "FATAL cannot read the model"}) {
    Bench bench;
    bench.give(event::Start{});
    bench.give(event::Spawned{100});
    bench.line(text);
    REQUIRE(bench.effect<effect::LoadFailed>());
    CHECK(bench.effect<effect::LoadFailed>()->text.find("cannot read the model") != std::string::npos);
  }
}

TEST_CASE("stop at once means KILL without grace", "[child]") {
  Bench bench;
  bench.give(event::Start{});
  bench.give(event::Spawned{100});
  bench.give(event::Stop{Trouble::shutting_down, true});
  CHECK(bench.effect<effect::Kill>());
  CHECK_FALSE(bench.effect<effect::Terminate>());
}

TEST_CASE("idle_unload_s stops a child without requests, on purpose", "[child]") {
  ChildLimits limits = test_limits();
  limits.idle_unload = 20s;
  limits.eager = true;  // it stays unloaded all the same
  Bench bench(limits);
  bench.start_ready();
  bench.give(event::LeaseOpened{1});
  bench.now += 25s;
  bench.give(event::StderrOutput{});
  bench.give(event::Due{});
  CHECK(bench.child.state() == ChildState::ready);  // a request is open
  bench.give(event::LeaseClosed{1});
  CHECK(bench.child.deadline() == bench.now + 20s);
  bench.now += 19s;
  bench.give(event::Due{});
  CHECK(bench.child.state() == ChildState::ready);
  bench.now += 1s;
  bench.give(event::Due{});
  CHECK(bench.child.state() == ChildState::stopping);
  bench.give(event::TreeEmpty{});
  CHECK(bench.child.state() == ChildState::unloaded);
  CHECK(bench.child.failures() == 0);
  CHECK_FALSE(bench.child.deadline());
}

TEST_CASE("an answer resets the count of failures even when its DONE never comes", "[child]") {
  Bench bench;
  bench.fail_once();
  bench.start_ready();
  bench.give(event::LeaseOpened{1});
  CHECK(bench.child.failures() == 1);
  bench.give(event::LeaseAnswered{});
  bench.give(event::Exited{"exited with status 1"});
  CHECK(bench.child.failures() == 1);  // this death alone
}

TEST_CASE("T14: three accounts without a lease and five quiet seconds release it", "[child]") {
  Bench bench;
  const auto released = [&] {
    return std::count_if(bench.last.begin(), bench.last.end(), [](const Effect& effect) { return std::holds_alternative<effect::LeaseForgotten>(effect); });
  };
  bench.start_ready("READY 4096 stop ids slots=2 beat=1000");
  bench.give(event::LeaseOpened{17});
  bench.give(event::LeaseOpened{18});

  SECTION("never on one sample, and never before five quiet seconds") {
    for (int n = 0; n < 4; ++n) {
      bench.now += 1s;
      bench.line("BEAT step=" + std::to_string(n) + " active=18");
      CHECK(released() == 0);
    }
    bench.now += 1s;
    bench.line("BEAT step=9 active=18");
    REQUIRE(released() == 1);
    const auto& forgotten = std::get<effect::LeaseForgotten>(bench.last.at(0));
    CHECK(forgotten.lease == 17);
    CHECK(forgotten.evidence.find("5 accounts") != std::string::npos);
    bench.line("BEAT step=10 active=18");
    CHECK(released() == 0);  // said once
  }
  SECTION("a line for it, or an account that names it, begins anew") {
    for (int n = 0; n < 4; ++n) {
      bench.now += 1s;
      bench.line("BEAT step=" + std::to_string(n) + " active=18");
    }
    bench.line("@17 T 5", 17);
    bench.now += 1s;
    bench.line("BEAT step=9 active=18");
    CHECK(released() == 0);
    bench.line("BEAT step=10 active=17,18");
    bench.now += 5s;
    bench.line("BEAT step=11 active=");
    bench.line("BEAT step=12 active=");
    CHECK(released() == 0);
    bench.line("BEAT step=13 active=");
    CHECK(released() == 1);
  }
  SECTION("a beat without an account says nothing") {
    for (int n = 0; n < 9; ++n) {
      bench.now += 1s;
      bench.line("BEAT step=" + std::to_string(n));
      CHECK(released() == 0);
    }
  }
  SECTION("a new process forgets old leases") {
    for (int n = 0; n < 4; ++n) {
      bench.now += 1s;
      bench.line("BEAT step=" + std::to_string(n) + " active=18");
    }
    bench.give(event::Exited{"exited with status 1"});
    bench.give(event::TreeEmpty{});
    bench.start_ready("READY 4096 stop ids slots=2 beat=1000");
    bench.give(event::LeaseOpened{17});
    bench.now += 6s;
    bench.line("BEAT step=1 active=18");
    CHECK(released() == 0);
  }
}
