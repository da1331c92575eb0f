// Worlds in the test suite: enough to meet every script; vigil-sim plays more.
#include <catch2/catch.hpp>

#include "tests/sim/world.hpp"

using vigil::sim::World;

TEST_CASE("every world keeps every invariant", "[sim]") {
  uint64_t served = 0, failed = 0, cancelled = 0, rejected = 0, seen = 0, unseen = 0, vision_children = 0;
  for (uint64_t seed = 1; seed <= VIGIL_SIM_WORLDS; ++seed) {
    const auto result = World(seed, World::Trace::off).run();
    INFO(result.violation.value_or(""));
    REQUIRE_FALSE(result.violation);
    served += result.served;
    failed += result.failures;
    cancelled += result.cancelled;
    rejected += result.rejected;
    seen += result.seen;
    unseen += result.unseen;
    vision_children += result.vision_starts;
  }
  // A simulation in which nothing happens proves nothing.
  CHECK(served > VIGIL_SIM_WORLDS);
  CHECK(failed > VIGIL_SIM_WORLDS / 4);
  CHECK(cancelled > VIGIL_SIM_WORLDS / 4);
  CHECK(rejected > VIGIL_SIM_WORLDS / 40);
  CHECK(vision_children > VIGIL_SIM_WORLDS / 4);
  CHECK(seen > VIGIL_SIM_WORLDS / 8);
  CHECK(unseen > VIGIL_SIM_WORLDS / 8);
}

// 1021231: a vision child that says one OK too many, the second for a picture whose request has left. 1157230: an engine whose last line comes after
// its ERR, while the machine stood still for as long as its exit is awaited.
TEST_CASE("worlds in which a fault was found", "[sim]") {
  for (const uint64_t seed : {1'021'231u, 1'157'230u}) {
    INFO(seed);
    CHECK(World(seed, World::Trace::off).run().violation == std::nullopt);
  }
}

TEST_CASE("requests without pictures are told the same at the same times, whatever the vision child does", "[sim]") {
  uint64_t vision_children = 0, unseen = 0;
  for (uint64_t seed = 1; seed <= VIGIL_SIM_WORLDS / 4; ++seed) {
    const auto beside = World(seed, World::Trace::off, 0, World::Pictures::doomed).run();
    const auto alone = World(seed, World::Trace::off, 0, World::Pictures::none).run();
    INFO("seed " << seed << ": " << beside.violation.value_or("") << alone.violation.value_or(""));
    REQUIRE_FALSE(beside.violation);
    REQUIRE_FALSE(alone.violation);
    REQUIRE(beside.texts == alone.texts);
    vision_children += beside.vision_starts;
    unseen += beside.unseen;
  }
  CHECK(vision_children > VIGIL_SIM_WORLDS / 4);
  CHECK(unseen > VIGIL_SIM_WORLDS / 4);
}

TEST_CASE("a world is the same every time it is played", "[sim]") {
  for (uint64_t seed : {3u, 77u, 1234u}) {
    const auto once = World(seed, World::Trace::on).run();
    const auto again = World(seed, World::Trace::on).run();
    CHECK(once.trace == again.trace);
    CHECK_FALSE(once.trace.empty());
  }
}
