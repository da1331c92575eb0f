// The desk: one ending a request, cancels, leases, limits.
#include <catch2/catch.hpp>

#include "tests/server/turn/desk_support.hpp"

using namespace vigil;
using namespace vigil::turn;

TEST_CASE("a request on a ready engine gets its tokens and one ending", "[desk]") {
  Bench bench;
  bench.ready();
  auto [key, record] = bench.submit();
  REQUIRE(bench.port.started.size() == 1);
  const LeaseId lease = bench.port.started[0];
  bench.line(lease, "RESUME 2");
  bench.line(lease, "PP 4 4 1 1");
  bench.line(lease, "T 10");
  bench.line(lease, "T 11");
  bench.line(lease, "DONE 2 4 1 1 stop");
  CHECK(record->tokens == std::vector<int>{10, 11});
  REQUIRE(record->endings.size() == 1);
  CHECK(record->finish() == Finish::stop);
  CHECK(record->endings[0].usage.prompt == 4);
  CHECK(record->endings[0].usage.cached == 2);
  CHECK(record->endings[0].usage.generated == 2);
  CHECK(bench.port.cancelled.empty());  // T9: a normal end sends no cancel
  REQUIRE(bench.port.released.size() == 1);
  CHECK(bench.port.answers.size() == 1);
  CHECK(bench.desk->idle());
  bench.desk->leave(key, bench.now);    // T1: a finished key is inert
  CHECK(record->endings.size() == 1);
  CHECK(bench.desk->snapshot(bench.now).served == 1);
}

TEST_CASE("T4 leaving in mid-stream cancels once and frees the next", "[desk]") {
  Bench bench;
  bench.ready();
  auto [first, one] = bench.submit();
  Record* two = bench.submit().second;
  const LeaseId lease = bench.port.started[0];
  bench.line(lease, "T 10");
  bench.desk->leave(first, bench.now);
  bench.desk->leave(first, bench.now);
  CHECK(bench.port.cancelled == std::vector<LeaseId>{lease});
  REQUIRE(one->endings.size() == 1);
  CHECK(one->cancelled());
  CHECK(bench.port.started.size() == 1);  // the untagged engine is not free before its DONE
  bench.line(lease, "T 11");
  CHECK(bench.port.cancelled.size() == 1);
  bench.line(lease, "DONE 2 4 1 1 cancel");
  CHECK(bench.port.started.size() == 2);
  CHECK(two->endings.empty());
  bench.line(lease, "DONE 2 4 1 1 cancel");  // S20: a late line of a closed lease
  bench.line(lease, "T 99");
  CHECK(two->tokens.empty());
  CHECK(two->endings.empty());
}

TEST_CASE("T6 leaving the queue never reaches the engine", "[desk]") {
  Bench bench;
  bench.ready();
  bench.submit();
  auto [second, two] = bench.submit();
  CHECK(bench.desk->snapshot(bench.now).queued == 1);
  bench.desk->leave(second, bench.now);
  CHECK(bench.desk->snapshot(bench.now).queued == 0);
  CHECK(two->cancelled());
  bench.line(bench.port.started[0], "DONE 0 4 1 1 stop");
  CHECK(bench.port.started.size() == 1);
  CHECK(bench.port.cancelled.empty());
}

TEST_CASE("an end token ends the answer unseen; STOP only when the engine goes on", "[desk]") {
  Bench bench;
  bench.ready();
  Record* record = bench.submit().second;
  const LeaseId lease = bench.port.started[0];
  bench.line(lease, "T 10");
  bench.line(lease, "T 2");
  REQUIRE(record->endings.size() == 1);
  CHECK(record->finish() == Finish::stop);
  CHECK(record->tokens == std::vector<int>{10});
  CHECK(bench.port.cancelled.empty());
  SECTION("it stops by itself") {
    bench.line(lease, "DONE 2 4 1 1 stop");
    CHECK(bench.port.cancelled.empty());
  }
  SECTION("it goes on") {
    bench.line(lease, "T 12");
    bench.line(lease, "T 13");
    CHECK(bench.port.cancelled == std::vector<LeaseId>{lease});
    CHECK(record->tokens == std::vector<int>{10});
  }
}

TEST_CASE("tokens beyond max_new are dropped, the request ends as length, STOP is sent once", "[desk]") {
  Bench bench;
  bench.ready();
  Record* record = bench.submit(2).second;
  const LeaseId lease = bench.port.started[0];
  for (int n = 0; n < 6; ++n) bench.line(lease, "T 10");
  REQUIRE(record->endings.size() == 1);
  CHECK(record->finish() == Finish::length);
  CHECK(record->tokens.size() == 2);
  CHECK(record->endings[0].usage.generated == 2);
  CHECK(bench.port.cancelled == std::vector<LeaseId>{lease});
}

TEST_CASE("a stop string ends the answer and stops the engine", "[desk]") {
  Bench bench;
  bench.ready();
  Record* record = bench.submit().second;
  record->stop_after = 2;
  const LeaseId lease = bench.port.started[0];
  bench.line(lease, "T 10");
  bench.line(lease, "T 11");
  REQUIRE(record->endings.size() == 1);
  CHECK(record->finish() == Finish::stop);
  CHECK(bench.port.cancelled == std::vector<LeaseId>{lease});
  bench.line(lease, "DONE 2 4 1 1 cancel");
  REQUIRE(bench.port.released.size() == 1);
  CHECK(bench.port.answers.size() == 1);  // a finished answer, although the engine was stopped
}

TEST_CASE("a stray DONE for tokens that never came is ignored and logged; DONE 0 is an empty answer", "[desk]") {
  Bench bench;
  bench.ready();
  Record* record = bench.submit().second;
  const LeaseId lease = bench.port.started[0];
  bench.line(lease, "DONE 7 4 1 1 stop");
  CHECK(record->endings.empty());
  CHECK(bench.logs.size() == 1);
  bench.line(lease, "DONE 0 4 1 1 stop");
  REQUIRE(record->endings.size() == 1);
  CHECK(record->endings[0].usage.generated == 0);
}

TEST_CASE("S8 ERR ends its request when it is settled, and nothing is started meanwhile", "[desk]") {
  Bench bench;
  bench.ready(2);
  Record* one = bench.submit().second;
  const LeaseId lease = bench.port.started[0];
  bench.line(lease, "ERR out of memory");
  bench.submit();
  CHECK(bench.port.started.size() == 1);
  CHECK(one->endings.empty());
  bench.desk->error_settled(lease, "", bench.now);
  REQUIRE(one->endings.size() == 1);
  CHECK(one->code() == ErrorCode::engine_error);
  CHECK(one->error().message == "out of memory");
  CHECK(bench.port.started.size() == 2);
  CHECK(bench.port.answers.empty());
}

TEST_CASE("S9 ERR and then the process's end: both are in the reason", "[desk]") {
  Bench bench;
  bench.ready();
  Record* record = bench.submit().second;
  bench.line(bench.port.started[0], "ERR device lost");
  EngineLoss loss;
  loss.error = {ErrorCode::engine_crashed, "exited with status 7", "", 1};
  bench.desk->engine_lost(1, loss, bench.now);
  REQUIRE(record->endings.size() == 1);
  CHECK(record->code() == ErrorCode::engine_error);
  CHECK(record->error().message == "device lost (exited with status 7)");
}

TEST_CASE("S10 S12 a death ends what ran and moves what waited to the next load", "[desk]") {
  Bench bench;
  bench.ready();
  Record* one = bench.submit().second;
  Record* two = bench.submit().second;
  EngineLoss loss;
  loss.error = {ErrorCode::engine_crashed, "killed by signal 9 (SIGKILL)", "", 1};
  bench.desk->engine_lost(1, loss, bench.now);
  bench.phase(EnginePhase::stopping);
  REQUIRE(one->endings.size() == 1);
  CHECK(one->code() == ErrorCode::engine_crashed);
  CHECK(two->endings.empty());
  CHECK(bench.desk->snapshot(bench.now).loading == 1);
  CHECK(bench.port.needed == 0);
  bench.phase(EnginePhase::failed);
  CHECK(bench.port.needed == 1);
  bench.ready();
  CHECK(bench.port.started.size() == 2);
}

TEST_CASE("a failed load ends everyone who waited for it; back-off refuses at once", "[desk]") {
  Bench bench;
  Record* one = bench.submit().second;
  CHECK(bench.port.needed == 1);
  bench.phase(EnginePhase::starting);
  Record* two = bench.submit().second;
  bench.desk->load_failed({ErrorCode::engine_not_ready, "did not report READY", "", 5}, bench.now);
  CHECK(one->code() == ErrorCode::engine_not_ready);
  CHECK(two->code() == ErrorCode::engine_not_ready);
  bench.phase(EnginePhase::stopping);
  Record* three = bench.submit().second;
  CHECK(three->endings.empty());
  bench.view.retry_in_s = 7;
  bench.phase(EnginePhase::backoff);
  CHECK(three->code() == ErrorCode::engine_crash_loop);
  Record* four = bench.submit().second;
  CHECK(four->code() == ErrorCode::engine_crash_loop);
  CHECK(four->error().retry_after_s == 7);
  const auto totals = bench.desk->snapshot(bench.now);
  CHECK(totals.failed == 3);
  CHECK(totals.rejected == 1);
}

TEST_CASE("T11 queue.limit counts what is queued, and queue.wait_s runs there only", "[desk]") {
  DeskLimits limits;
  limits.queue_limit = 2;
  limits.queue_wait = 10s;
  Bench bench(limits);
  for (int n = 0; n < 4; ++n) bench.submit();  // loading: not counted, not timed
  CHECK_FALSE(bench.desk->deadline());
  CHECK(bench.desk->snapshot(bench.now).loading == 4);
  bench.now += 1h;
  bench.desk->tick(bench.now);
  bench.ready();
  CHECK(bench.desk->snapshot(bench.now).queued == 3);
  Record* record = bench.submit().second;
  CHECK(record->code() == ErrorCode::queue_full);
  CHECK(record->error().message.find("queue.limit") != std::string::npos);
  REQUIRE(bench.desk->deadline());
  CHECK(*bench.desk->deadline() == bench.now + 10s);
  bench.now += 10s;
  bench.desk->tick(bench.now);
  CHECK(bench.desk->snapshot(bench.now).queued == 0);
  CHECK(bench.records[1]->code() == ErrorCode::queue_timeout);
  CHECK(bench.records[0]->endings.empty());
}

TEST_CASE("H2 a prompt that does not fit is refused with both numbers, at once or when READY tells", "[desk]") {
  Bench bench;
  Record* before = bench.submit(16, 300).second;
  bench.ready(0, 256);
  REQUIRE(before->endings.size() == 1);
  CHECK(before->code() == ErrorCode::context_length_exceeded);
  Record* after = bench.submit(16, 256).second;
  CHECK(after->code() == ErrorCode::context_length_exceeded);
  CHECK(after->error().message.find("256 tokens") != std::string::npos);
  CHECK(bench.port.started.empty());
  bench.submit(100, 250);
  CHECK(bench.port.max_new.back() == 6);
  bench.line(bench.port.started[0], "DONE 0 4 1 1 stop");
  bench.submit(100, 255);
  CHECK(bench.port.max_new.back() == 1);
}

TEST_CASE("a request that was running at two deaths is refused for ten minutes", "[desk]") {
  Bench bench;
  EngineLoss loss;
  loss.error = {ErrorCode::engine_crashed, "killed by signal 11 (SIGSEGV)", "", 1};
  for (Generation generation = 1; generation <= 2; ++generation) {
    bench.ready();
    bench.submit(16, 4, 77);
    bench.desk->engine_lost(generation, loss, bench.now);
    bench.phase(EnginePhase::failed);
  }
  bench.ready();
  Record* refused = bench.submit(16, 4, 77).second;
  CHECK(refused->code() == ErrorCode::request_crashes_engine);
  Record* accepted = bench.submit(16, 4, 78).second;
  CHECK(accepted->endings.empty());
  bench.now += 10min;
  Record* allowed = bench.submit(16, 4, 77).second;
  CHECK(allowed->endings.empty());
}

TEST_CASE("slots: as many requests as READY offers, each with its own lease", "[desk]") {
  Bench bench;
  bench.ready(3);
  for (int n = 0; n < 5; ++n) bench.submit();
  CHECK(bench.port.started.size() == 3);
  bench.line(bench.port.started[1], "DONE 0 4 1 1 stop");
  CHECK(bench.port.started.size() == 4);
  CHECK(bench.records[1]->endings.size() == 1);
  CHECK(bench.records[0]->endings.empty());
}

TEST_CASE("a slow reader that is alone pauses the engine for write_s, then is cancelled", "[desk]") {
  DeskLimits limits;
  limits.slow_reader_wait = 2s;
  Bench bench(limits);
  bench.ready();
  auto [key, record] = bench.submit();
  bench.desk->reader_blocked(key, bench.now);
  bench.desk->reader_blocked(key, bench.now);
  CHECK(bench.port.pauses == std::vector<bool>{true});
  SECTION("it reads on") {
    bench.desk->reader_ready(key, bench.now);
    CHECK(bench.port.pauses == std::vector<bool>{true, false});
    CHECK(record->endings.empty());
  }
  SECTION("it does not") {
    bench.now += 2s;
    CHECK(*bench.desk->deadline() == bench.now);
    bench.desk->tick(bench.now);
    REQUIRE(record->cancelled());
    CHECK(bench.port.pauses == std::vector<bool>{true, false});
    CHECK(bench.port.cancelled.size() == 1);
  }
}

TEST_CASE("a slow reader beside others is ended at once and nothing is paused", "[desk]") {
  Bench bench;
  bench.ready(2);
  auto [slow, one] = bench.submit();
  Record* two = bench.submit().second;
  bench.desk->reader_blocked(slow, bench.now);
  CHECK(one->cancelled());
  CHECK(two->endings.empty());
  CHECK(bench.port.pauses.empty());
}

TEST_CASE("shutting down ends what waits, lets run what runs, and accepts nothing", "[desk]") {
  Bench bench;
  bench.ready();
  Record* one = bench.submit().second;
  Record* two = bench.submit().second;
  bench.desk->close(bench.now);
  CHECK(one->endings.empty());
  CHECK(two->code() == ErrorCode::shutting_down);
  Record* three = bench.submit().second;
  CHECK(three->code() == ErrorCode::shutting_down);
  bench.desk->end_running({ErrorCode::shutting_down, "too long", "", 5}, bench.now);
  CHECK(one->code() == ErrorCode::shutting_down);
  CHECK(bench.port.cancelled.size() == 1);
}

TEST_CASE("T15 a long request is told once in the log and never ended for it", "[desk]") {
  DeskLimits limits;
  limits.queue_warn = 600s;
  Bench bench(limits);
  bench.ready();
  Record* record = bench.submit().second;
  bench.now += 600s;
  bench.desk->tick(bench.now);
  bench.now += 600s;
  bench.desk->tick(bench.now);
  CHECK(bench.logs.size() == 1);
  CHECK(record->endings.empty());
}

TEST_CASE("T16 the status counts what it lists", "[desk]") {
  Bench bench;
  bench.ready();
  const RequestKey first = bench.submit().first;
  bench.submit();
  bench.line(bench.port.started[0], "PP 2 4 1 1");
  auto view = bench.desk->snapshot(bench.now);
  CHECK(view.running == 1);
  CHECK(view.queued == 1);
  REQUIRE(view.active.size() == 2);
  CHECK(view.active[0].phase == Phase::prefill);
  CHECK(view.active[0].prefilled == 2);
  CHECK(view.active[1].phase == Phase::queued);
  bench.desk->leave(first, bench.now);
  view = bench.desk->snapshot(bench.now);
  CHECK(view.running == 1);
  REQUIRE(view.active.size() == 2);
  CHECK(view.active[0].phase == Phase::stopping);
}

TEST_CASE("a request cannot be dropped without an ending", "[desk]") {
  Bench bench;
  Record* record = bench.submit().second;
  bench.desk.reset();
  REQUIRE(record->endings.size() == 1);
  CHECK(record->code() == ErrorCode::internal_error);
}

TEST_CASE("a cancel by the API names its request by id", "[desk]") {
  Bench bench;
  bench.ready();
  Record* record = bench.submit().second;
  CHECK_FALSE(bench.desk->cancel("nobody", bench.now));
  CHECK(bench.desk->cancel("r0", bench.now));
  CHECK(record->cancelled());
  CHECK(bench.port.cancelled.size() == 1);
  CHECK_FALSE(bench.desk->cancel("r0", bench.now));
}
