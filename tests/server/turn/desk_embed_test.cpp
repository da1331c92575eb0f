// Requests for vectors at the desk: they take their turn like any other, and end once.
#include <catch2/catch.hpp>

#include "tests/server/turn/desk_support.hpp"

using namespace vigil::turn;

namespace {

void ready_to_embed(Bench& bench, int64_t context = 4096) {
  bench.ready(0, context);
  bench.view.can_embed = true;
  bench.desk->engine_changed(bench.view, bench.now);
}

}  // namespace

TEST_CASE("a vector is given in parts and ends with DONE") {
  Bench bench;
  ready_to_embed(bench);
  const auto [key, record] = bench.submit_embed();
  const LeaseId lease = bench.port.started.at(0);
  bench.line(lease, "V 0 AACAPwAAAMA=");
  bench.line(lease, "V 2 AACAPw==");
  CHECK(record->endings.empty());
  bench.line(lease, "DONE 0 4 1 1 stop");
  CHECK(record->finish() == Finish::stop);
  CHECK(record->vector == std::vector<float>{1, -2, 1});
  CHECK(record->endings.at(0).usage.prompt == 4);
  CHECK(bench.desk->idle());
}

TEST_CASE("parts that do not fit end the request as the engine's error, once, and the lease lives until DONE") {
  Bench bench;
  ready_to_embed(bench);
  const auto [key, record] = bench.submit_embed();
  const LeaseId lease = bench.port.started.at(0);
  bench.line(lease, "V 7 AACAPw==");
  CHECK(record->code() == ErrorCode::engine_error);
  bench.line(lease, "V 0 AACAPw==");
  CHECK(record->endings.size() == 1);
  CHECK(bench.port.cancelled.size() == 1);
  CHECK_FALSE(bench.desk->idle());
  bench.line(lease, "DONE 0 4 1 1 cancel");
  CHECK(bench.desk->idle());
}

TEST_CASE("an engine without the word embeddings refuses vectors, also when that shows only at READY") {
  Bench bench;
  const auto [early, waiting] = bench.submit_embed();
  CHECK(waiting->endings.empty());
  bench.ready();
  CHECK(waiting->code() == ErrorCode::invalid_request);
  const auto [late, refused] = bench.submit_embed();
  CHECK(refused->code() == ErrorCode::invalid_request);
  CHECK(bench.port.started.empty());
}

TEST_CASE("a text to embed may fill the whole context: there is no answer that needs room") {
  Bench bench;
  ready_to_embed(bench, 8);
  bench.submit_embed(8);
  CHECK(bench.port.started.size() == 1);
  const auto [over, second] = bench.submit_embed(9);
  CHECK(second->code() == ErrorCode::context_length_exceeded);
}
