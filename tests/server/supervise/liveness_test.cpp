// The liveness rules one by one, with a usage curve and a clock that the test moves.
#include <algorithm>

#include <catch2/catch.hpp>

#include "server/supervise/liveness.hpp"

using namespace vigil;
using namespace vigil::supervise;
using namespace std::chrono_literals;

namespace {

ChildLimits test_limits() {
  ChildLimits limits;
  limits.silence = 30s;
  limits.stall = 3s;
  limits.step = 5s;
  limits.cancel = 4s;
  return limits;
}

// Plays a child under the watch in steps of the watch's own deadlines.
struct Bench {
  LivenessWatch watch;
  ChildLimits limits = test_limits();
  TimePoint now = TimePoint{} + 1h;
  TimePoint begin = now;
  double cpu_share = 0;
  uint64_t faults = 0;
  bool faulting = false;
  Duration cpu{};

  explicit Bench(const std::string& ready = "READY 4096 stop") {
    watch.started(std::get<protocol::Ready>(protocol::parse_engine_line(ready)->event));
  }
  void sample() { watch.usage({cpu, faults, 0}, limits, now); }
  void open(LeaseId id = 1) {
    watch.lease_opened(id, now);
    sample();
  }
  void advance(Duration by) {
    now += by;
    cpu += std::chrono::duration_cast<Duration>(by * cpu_share);
    if (faulting) faults += 3;
  }
  void line(const std::string& text, LeaseId id = 1) { watch.line(id, protocol::parse_engine_line(text)->event, limits, now); }
  // Follows the deadlines until a verdict comes or `until` has passed since the beginning.
  std::optional<LivenessWatch::Verdict> run(Duration until) {
    while (now < begin + until) {
      const auto deadline = watch.deadline(limits);
      if (!deadline) return std::nullopt;
      if (*deadline > begin + until) {
        advance(begin + until - now);
        return std::nullopt;
      }
      advance(std::max(Duration::zero(), *deadline - now));
      sample();
      if (auto verdict = watch.judge(limits, now)) return verdict;
      REQUIRE(*watch.deadline(limits) > now);  // or the driver would spin
    }
    return std::nullopt;
  }
};

}  // namespace

TEST_CASE("S3 no output and no CPU time for stall_s is a stall, and not before", "[liveness]") {
  Bench bench;
  bench.open();
  const auto verdict = bench.run(10s);
  REQUIRE(verdict);
  CHECK(verdict->why == Trouble::stalled);
  CHECK(verdict->text == "no output and no CPU time for 3 s (engine.stall_s)");
  CHECK(bench.now == bench.begin + 3s);
}

TEST_CASE("S4 CPU time keeps a quiet child until silence_s, which looks at neither", "[liveness]") {
  Bench bench;
  bench.cpu_share = 0.8;
  bench.open();
  const auto verdict = bench.run(60s);
  REQUIRE(verdict);
  CHECK(verdict->why == Trouble::silent);
  CHECK(verdict->text == "no line for this request within 30 s (engine.silence_s)");
  CHECK(verdict->culprits == std::vector<LeaseId>{1});
  CHECK(bench.now == bench.begin + 30s);
}

TEST_CASE("one per cent of a core is the border of doing nothing", "[liveness]") {
  Bench flat, busy;
  flat.cpu_share = 0.008;
  busy.cpu_share = 0.012;
  flat.open();
  busy.open();
  CHECK(flat.run(10s));
  CHECK_FALSE(busy.run(10s));
}

TEST_CASE("a child that stops computing is ended within stall_s and one sample", "[liveness]") {
  Bench bench;
  bench.cpu_share = 1;
  bench.open();
  CHECK_FALSE(bench.run(10s));
  bench.cpu_share = 0;
  const TimePoint stopped = bench.now;
  bench.begin = bench.now;
  const auto verdict = bench.run(10s);
  REQUIRE(verdict);
  CHECK(verdict->why == Trouble::stalled);
  CHECK(bench.now - stopped >= 2900ms);
  CHECK(bench.now - stopped <= 3700ms);
}

TEST_CASE("stderr output counts against a stall but not against silence", "[liveness]") {
  Bench bench;
  bench.open();
  for (int n = 0; n < 29; ++n) {
    bench.advance(1s);
    bench.watch.output(bench.now);
    bench.sample();
    CHECK_FALSE(bench.watch.judge(bench.limits, bench.now));
  }
  bench.advance(1s);
  bench.watch.output(bench.now);
  const auto verdict = bench.watch.judge(bench.limits, bench.now);
  REQUIRE(verdict);
  CHECK(verdict->why == Trouble::silent);
}

TEST_CASE("prompt progress counts only when it grows", "[liveness]") {
  Bench bench;
  bench.cpu_share = 1;
  bench.open();
  bench.advance(20s);
  bench.line("PP 100 500 1 1");
  bench.advance(20s);
  bench.line("PP 100 500 1 1");
  bench.advance(9s);
  CHECK_FALSE(bench.watch.judge(bench.limits, bench.now));
  bench.advance(1s);
  CHECK(bench.watch.judge(bench.limits, bench.now));
}

TEST_CASE("an announced wait lengthens the silence once, by at most silence_s", "[liveness]") {
  Bench bench;
  bench.cpu_share = 1;
  bench.open();
  bench.line("SWAIT compile 1000");
  bench.advance(59s);
  CHECK_FALSE(bench.watch.judge(bench.limits, bench.now));
  bench.line("SWAIT compile 1000");  // the second one does nothing
  bench.advance(1s);
  CHECK(bench.watch.judge(bench.limits, bench.now));
}

TEST_CASE("a second request does not keep a hung child alive", "[liveness]") {
  Bench bench("READY 4096 stop ids slots=2");
  bench.open(1);
  bench.advance(2s);
  bench.watch.lease_opened(2, bench.now);
  const auto verdict = bench.run(10s);
  REQUIRE(verdict);
  CHECK(bench.now == bench.begin + 3s);
}

TEST_CASE("nothing is judged and nothing is due while no request is open", "[liveness]") {
  Bench bench("READY 4096 stop beat=100");
  CHECK_FALSE(bench.watch.deadline(bench.limits));
  bench.open();
  CHECK(bench.watch.deadline(bench.limits));
  bench.watch.lease_closed(1);
  CHECK_FALSE(bench.watch.deadline(bench.limits));
  bench.advance(1h);
  CHECK_FALSE(bench.watch.judge(bench.limits, bench.now));
  bench.begin = bench.now;
  bench.open();  // the clocks begin anew
  CHECK_FALSE(bench.watch.judge(bench.limits, bench.now));
}

TEST_CASE("a cancel that is not answered within cancel_s names its request", "[liveness]") {
  Bench bench("READY 4096 stop ids slots=2");
  bench.cpu_share = 1;
  bench.open(1);
  bench.watch.lease_opened(2, bench.now);
  bench.watch.lease_cancelled(2, bench.now);
  const auto verdict = bench.run(20s);
  REQUIRE(verdict);
  CHECK(verdict->why == Trouble::cancel_unanswered);
  CHECK(verdict->culprits == std::vector<LeaseId>{2});
  CHECK(bench.now == bench.begin + 4s);
}

TEST_CASE("beats: three missing are a stall, whatever the CPU does", "[liveness]") {
  Bench bench("READY 4096 stop beat=500");
  bench.cpu_share = 1;
  bench.open();
  for (int n = 1; n <= 4; ++n) {
    bench.advance(500ms);
    bench.line("BEAT step=" + std::to_string(n));
  }
  bench.begin = bench.now;
  const auto verdict = bench.run(10s);
  REQUIRE(verdict);
  CHECK(verdict->text.find("three beats") != std::string::npos);
  CHECK(bench.now == bench.begin + 1500ms);
}

TEST_CASE("beats: a step that stands still is a stall after step_s when nothing is read, else after stall_s", "[liveness]") {
  const auto play = [](bool faulting) {
    Bench bench("READY 4096 stop beat=500");
    bench.limits.stall = 20s;
    bench.faulting = faulting;
    bench.open();
    while (bench.now < bench.begin + 60s) {
      bench.advance(500ms);
      bench.line("BEAT step=7");
      bench.sample();
      if (bench.watch.judge(bench.limits, bench.now)) break;
    }
    return bench.now - bench.begin;
  };
  CHECK(play(false) == Duration(5500ms));  // the first beat showed the step
  CHECK(play(true) == Duration(20500ms));
}

TEST_CASE("beats: a step that moves is no stall however quiet the request is", "[liveness]") {
  Bench bench("READY 4096 stop beat=500");
  bench.limits.silence = 0s;
  bench.open();
  for (int n = 0; n < 200; ++n) {
    bench.advance(500ms);
    bench.line("BEAT step=" + std::to_string(n));
    bench.sample();
    REQUIRE_FALSE(bench.watch.judge(bench.limits, bench.now));
  }
}

TEST_CASE("a GPU engine without beats is judged by silence alone", "[liveness]") {
  Bench bench("READY 4096 stop gpu");
  bench.open();
  const auto verdict = bench.run(60s);
  REQUIRE(verdict);
  CHECK(verdict->why == Trouble::silent);
}

TEST_CASE("a late daemon moves every limit by its own lateness", "[liveness]") {
  Bench bench;
  bench.open();
  bench.advance(2s);
  bench.sample();
  bench.advance(6s);  // the loop stood still
  bench.watch.late(6s, bench.now);
  bench.sample();
  CHECK_FALSE(bench.watch.judge(bench.limits, bench.now));
  bench.advance(900ms);
  bench.sample();
  CHECK_FALSE(bench.watch.judge(bench.limits, bench.now));
  bench.advance(100ms);
  bench.sample();
  CHECK(bench.watch.judge(bench.limits, bench.now));
}

TEST_CASE("the time in which the daemon stood still does not thin out a child's CPU time", "[liveness]") {
  Bench bench;
  bench.cpu_share = 0.03;
  bench.open();
  REQUIRE_FALSE(bench.run(1s));
  const Duration before = bench.cpu;
  bench.advance(20s);  // the whole machine stood still
  bench.cpu = before;
  bench.watch.late(20s, bench.now);
  bench.sample();
  bench.begin = bench.now;
  CHECK_FALSE(bench.run(10s));  // longer than stall_s without a word, and at work
}

TEST_CASE("the daemon looks often enough to know how late it is", "[liveness]") {
  for (const char* ready : {"READY 4096 stop gpu", "READY 4096 stop", "READY 4096 stop beat=300"}) {
    Bench bench(ready);
    bench.limits.silence = 1h;
    bench.limits.stall = bench.limits.step = 10min;
    bench.open();
    CHECK(*bench.watch.deadline(bench.limits) <= bench.now + (std::string(ready).find("beat") == std::string::npos ? 1000ms : 300ms));
  }
}

TEST_CASE("while a slow reader holds the pipe no clock runs", "[liveness]") {
  Bench bench;
  bench.open();
  bench.advance(2s);
  bench.watch.paused(true, bench.now);
  bench.advance(1h);
  CHECK_FALSE(bench.watch.deadline(bench.limits));
  CHECK_FALSE(bench.watch.judge(bench.limits, bench.now));
  bench.watch.paused(false, bench.now);
  CHECK_FALSE(bench.watch.judge(bench.limits, bench.now));
  bench.begin = bench.now;
  const auto verdict = bench.run(10s);
  REQUIRE(verdict);
  CHECK(verdict->why == Trouble::stalled);
}

TEST_CASE("0 switches a limit off", "[liveness]") {
  Bench bench;
  bench.limits.stall = bench.limits.silence = bench.limits.cancel = 0s;
  bench.open();
  bench.watch.lease_cancelled(1, bench.now);
  CHECK_FALSE(bench.watch.deadline(bench.limits));
  bench.advance(24h);
  CHECK_FALSE(bench.watch.judge(bench.limits, bench.now));
}
