// The desk: early cancels, unloading, other models, the engine's own account, pictures.
#include <catch2/catch.hpp>

#include "tests/server/turn/desk_support.hpp"

using namespace vigil;
using namespace vigil::turn;

TEST_CASE("T8: a cancel that overtakes its request keeps it from starting", "[desk]") {
  Bench bench;
  bench.ready();
  CHECK_FALSE(bench.desk->cancel("r0", bench.now));
  bench.now += 9s;
  auto [key, record] = bench.submit();
  REQUIRE(record->endings.size() == 1);
  CHECK(record->cancelled());
  CHECK(bench.port.started.empty());
  CHECK(bench.port.cancelled.empty());
  CHECK(bench.desk->snapshot(bench.now).cancelled == 1);

  CHECK_FALSE(bench.desk->cancel("r1", bench.now));
  bench.now += 10s;  // by now the cancel is forgotten
  bench.submit();
  CHECK(bench.port.started.size() == 1);
}

TEST_CASE("a cancel that came too late does not hit the next request of that name", "[desk]") {
  Bench bench;
  bench.ready();
  bench.submit();
  bench.line(bench.port.started[0], "DONE 0 4 1 1 stop");
  CHECK_FALSE(bench.desk->cancel("r0", bench.now));
  bench.records.clear();  // the next one is called r0 again
  auto [key, record] = bench.submit();
  CHECK(record->endings.empty());
  CHECK(bench.port.started.size() == 2);
}

TEST_CASE("an unload ends who waits, refuses who comes and lets the running one finish", "[desk]") {
  Bench bench;
  bench.ready();
  auto [running_key, running] = bench.submit();
  auto [queued_key, queued] = bench.submit();
  bench.desk->begin_unload(bench.now);
  REQUIRE(queued->endings.size() == 1);
  CHECK(queued->code() == ErrorCode::engine_unloaded);
  auto [late_key, late] = bench.submit();
  CHECK(late->code() == ErrorCode::engine_unloaded);
  CHECK(running->endings.empty());
  CHECK(bench.port.cancelled.empty());
  bench.line(bench.port.started[0], "DONE 0 4 1 1 stop");
  CHECK(running->finish() == Finish::stop);
  CHECK(bench.port.started.size() == 1);
  bench.phase(EnginePhase::stopping);
  auto [next_key, next] = bench.submit();  // waits for the next start
  CHECK(next->endings.empty());
  CHECK(bench.desk->snapshot(bench.now).loading == 1);
  bench.phase(EnginePhase::unloaded);
  CHECK(bench.port.needed == 1);
}

TEST_CASE("T14: a lease that the engine has lost is released, with the evidence in the log", "[desk]") {
  Bench bench;
  bench.ready();
  auto [key, record] = bench.submit();
  bench.desk->lease_forgotten(bench.port.started[0], "the evidence", bench.now);
  REQUIRE(record->endings.size() == 1);
  CHECK(record->code() == ErrorCode::engine_error);
  CHECK(record->error().message.find("the evidence") != std::string::npos);
  CHECK(bench.port.cancelled.empty());
  CHECK(bench.port.released.size() == 1);
  REQUIRE(bench.logs.size() == 1);
  CHECK(bench.logs[0].find("the evidence") != std::string::npos);
  CHECK(bench.desk->snapshot(bench.now).running == 0);
  bench.desk->lease_forgotten(bench.port.started[0], "again", bench.now);
  CHECK(record->endings.size() == 1);
  CHECK(bench.desk->idle());
}

TEST_CASE("requests whose ids are another model's never reach the engine", "[desk]") {
  Bench bench;
  bench.view.vocabulary = 0;
  bench.phase(EnginePhase::starting);
  auto [key, record] = bench.submit();
  bench.view.vocabulary = 1;
  bench.phase(EnginePhase::starting);
  REQUIRE(record->endings.size() == 1);
  CHECK(record->code() == ErrorCode::engine_unloaded);
  bench.phase(EnginePhase::ready);
  CHECK(bench.port.started.empty());
}

TEST_CASE("pictures are encoded before the turn, and text goes on meanwhile", "[desk]") {
  Bench bench;
  Encoder encoder;
  bench.desk->attach_encoder(&encoder);
  bench.ready();
  auto [key, record] = bench.submit_with_pictures(2);
  REQUIRE(encoder.asked == std::vector<RequestKey>{key});
  auto view = bench.desk->snapshot(bench.now);
  CHECK(view.encoding == 1);
  CHECK(view.queued + view.running + view.loading == 0);
  REQUIRE(view.active.size() == 1);
  CHECK(view.active[0].phase == Phase::encoding);
  const Record* text = bench.submit().second;
  REQUIRE(bench.port.started.size() == 1);
  bench.line(bench.port.started[0], "DONE 0 4 1 1 stop");
  CHECK(text->finish() == Finish::stop);

  int alive = 0;
  bench.desk->encoded(key, std::make_shared<const Rows>(std::vector<int64_t>{3, 1}, alive), bench.now);
  REQUIRE(bench.port.started.size() == 2);
  CHECK(bench.port.prompts[1] == std::vector<TokenId>{5, 9, 9, 9, 5, 9, 5});
  CHECK(encoder.abandoned.empty());
  CHECK(alive == 1);
  bench.line(bench.port.started[1], "T 10");
  bench.line(bench.port.started[1], "DONE 1 7 1 1 stop");
  CHECK(record->finish() == Finish::stop);
  CHECK(record->endings[0].usage.prompt == 7);
  CHECK(alive == 0);  // the file goes with the lease
}

TEST_CASE("a request that leaves while its pictures are encoded ends then, and a late result is inert", "[desk]") {
  Bench bench;
  Encoder encoder;
  bench.desk->attach_encoder(&encoder);
  bench.ready();
  auto [key, record] = bench.submit_with_pictures(1);
  bench.desk->leave(key, bench.now);
  CHECK(record->cancelled());
  CHECK(encoder.abandoned == std::vector<RequestKey>{key});
  int alive = 0;
  bench.desk->encoded(key, std::make_shared<const Rows>(std::vector<int64_t>{1}, alive), bench.now);
  bench.desk->encode_failed(key, {ErrorCode::vision_unavailable, "late", "", 1}, bench.now);
  CHECK(record->endings.size() == 1);
  CHECK(bench.port.started.empty());
  CHECK(alive == 0);
}

TEST_CASE("a picture that fails, or that makes the prompt too long, fails its request alone", "[desk]") {
  Bench bench;
  Encoder encoder;
  bench.desk->attach_encoder(&encoder);
  bench.ready(0, 64);
  auto [bad_key, bad] = bench.submit_with_pictures(1);
  bench.desk->encode_failed(bad_key, {ErrorCode::image_invalid, "no picture", "messages[0].content[0]", 1}, bench.now);
  CHECK(bad->code() == ErrorCode::image_invalid);
  auto [long_key, too_long] = bench.submit_with_pictures(1);
  int alive = 0;
  bench.desk->encoded(long_key, std::make_shared<const Rows>(std::vector<int64_t>{64}, alive), bench.now);
  CHECK(too_long->code() == ErrorCode::context_length_exceeded);
  CHECK(alive == 0);
  CHECK(bench.port.started.empty());
  CHECK(bench.desk->idle());
}

TEST_CASE("without an encoder a picture is refused, naming its part", "[desk]") {
  Bench bench;
  bench.ready();
  auto [key, record] = bench.submit_with_pictures(1);
  CHECK(record->code() == ErrorCode::image_invalid);
  CHECK(record->error().param == "messages[0].content[0]");
}

TEST_CASE("shutting down ends requests whose pictures are being encoded", "[desk]") {
  Bench bench;
  Encoder encoder;
  bench.desk->attach_encoder(&encoder);
  bench.ready();
  auto [key, record] = bench.submit_with_pictures(1);
  bench.desk->close(bench.now);
  CHECK(record->code() == ErrorCode::shutting_down);
  CHECK(encoder.abandoned.size() == 1);
}

TEST_CASE("copies of a request that die with one engine have seen one death", "[desk]") {
  Bench bench;
  bench.ready(2);
  bench.submit(16, 4, 77);
  bench.submit(16, 4, 77);
  REQUIRE(bench.port.started.size() == 2);
  bench.desk->engine_lost(bench.view.generation, {{ErrorCode::engine_crashed, "gone", "", 1}, {}}, bench.now);
  bench.phase(EnginePhase::failed);
  bench.ready();
  CHECK(bench.submit(16, 4, 77).second->endings.empty());
  bench.desk->engine_lost(bench.view.generation, {{ErrorCode::engine_crashed, "gone", "", 1}, {}}, bench.now);
  bench.phase(EnginePhase::failed);
  CHECK(bench.submit(16, 4, 77).second->code() == ErrorCode::request_crashes_engine);
}

TEST_CASE("queue.limit counts who waits for pictures with who is queued, for requests with pictures; a text is not refused for them", "[desk]") {
  DeskLimits limits;
  limits.queue_limit = 2;
  Bench bench(limits);
  Encoder encoder;
  bench.desk->attach_encoder(&encoder);
  bench.ready();
  bench.submit();
  bench.submit_with_pictures(1);
  bench.submit();
  REQUIRE(bench.desk->snapshot(bench.now).queued == 1);
  const Record& second = *bench.submit_with_pictures(1).second;
  const auto* failed = std::get_if<Failed>(&second.endings.at(0).how);
  REQUIRE(failed);
  CHECK(failed->error.code == ErrorCode::queue_full);
  CHECK_THAT(failed->error.message, Catch::Matchers::Contains("1 requests are waiting already and 1 for their pictures") && Catch::Matchers::Contains("queue.limit is 2"));
  bench.submit();
  CHECK(bench.desk->snapshot(bench.now).queued == 2);
}
