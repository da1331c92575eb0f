// Blocks are counted exactly, and a sequence reuses no more than it may.
#include <catch2/catch.hpp>

#include "engine/cache/sequence.hpp"
#include "model_support.hpp"

using namespace vigil;
using namespace vigil::cache;

namespace {

std::vector<TokenId> counted(int64_t count, TokenId first = 0) {
  std::vector<TokenId> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(first + static_cast<TokenId>(i));
  return ids;
}

}  // namespace

TEST_CASE("a block is free again when its last holder lets go") {
  BlockPool pool(2);
  const BlockId first = *pool.acquire(), second = *pool.acquire();
  CHECK(first != second);
  CHECK_FALSE(pool.acquire());
  pool.retain(first);
  pool.release(first);
  CHECK(pool.free_blocks() == 0);
  pool.release(first);
  CHECK(pool.free_blocks() == 1);
  CHECK(*pool.acquire() == first);
}

TEST_CASE("a sequence takes blocks of 64 positions and gives them back") {
  Pools pools(3);
  {
    Sequence sequence(pools);
    REQUIRE(sequence.reserve(64));
    CHECK(sequence.blocks().size() == 1);
    sequence.commit(counted(64));
    REQUIRE(sequence.reserve(1));
    CHECK(sequence.blocks().size() == 2);
    CHECK_FALSE(sequence.reserve(129));  // four blocks in all
    CHECK(sequence.blocks().size() == 2);
    CHECK(pools.blocks.free_blocks() == 1);
    sequence.truncate(63);
    CHECK(sequence.blocks().size() == 1);
    CHECK(sequence.length() == 63);
    CHECK(pools.blocks.free_blocks() == 2);
  }
  CHECK(pools.blocks.free_blocks() == 3);
}

TEST_CASE("what a prompt shares with the cache is reused, but for one token to compute") {
  Pools pools(4);
  Sequence sequence(pools);
  REQUIRE(sequence.reserve(100));
  sequence.commit(counted(100));
  CHECK(sequence.reusable(counted(100)) == 99);
  CHECK(sequence.reusable(counted(150)) == 100);
  CHECK(sequence.reusable(counted(40)) == 39);
  CHECK(sequence.reusable(counted(10, 1)) == 0);
  std::vector<TokenId> differs = counted(100);
  differs[70] = 9999;
  CHECK(sequence.reusable(differs) == 70);
  CHECK(sequence.reusable({}) == 0);
  CHECK(sequence.reusable(counted(1)) == 0);
}

TEST_CASE("recurrent state is taken whole: reused at the committed length, or not at all") {
  Pools pools(4, state_slots_per_sequence);
  {
    Sequence sequence(pools);
    CHECK(sequence.state_from() == -1);
    REQUIRE(sequence.reserve(10));
    const BlockId first = sequence.state_to();
    CHECK(first >= 0);
    REQUIRE(sequence.reserve(10));  // a step that was aborted is tried again
    CHECK(sequence.state_to() == first);
    sequence.commit(counted(10));
    CHECK(sequence.state_from() == first);
    REQUIRE(sequence.reserve(10));
    CHECK(sequence.state_to() != first);  // an aborted step may spoil it
    CHECK(sequence.state_to() >= 0);
    sequence.commit(counted(10, 10));
    CHECK(sequence.state_from() != first);

    CHECK(sequence.reusable(counted(30)) == 20);
    CHECK(sequence.reusable(counted(20)) == 0);  // its last token must be computed, from a state that is gone
    CHECK(sequence.reusable(counted(15)) == 0);
    sequence.truncate(20);
    CHECK(sequence.length() == 20);
    sequence.truncate(0);
    CHECK(sequence.state_from() == -1);
    CHECK(pools.states.free_blocks() == 2);
    REQUIRE(sequence.reserve(1));
  }
  CHECK(pools.states.free_blocks() == 2);
  Pools one(4, 1);
  Sequence holder(one), late(one);
  REQUIRE(holder.reserve(1));
  CHECK_FALSE(late.reserve(1));  // no slot: nothing changed
  CHECK(late.blocks().empty());
}

TEST_CASE("an aborted step commits nothing and leaves the answer as it was") {
  testing::TinyLlama tiny;
  testing::LoadedModel loaded = testing::load_tiny(tiny);
  schedule::Runtime& runtime = *loaded.runtime;
  const auto prompt = testing::random_ids(90, tiny.vocabulary, 1);
  std::vector<float> undisturbed(97), after(97);
  Sequence clean(runtime.pool()), hit(runtime.pool());
  REQUIRE(clean.reserve(90));
  runtime.step(clean, prompt, 1);
  runtime.read_scores(0, undisturbed);

  REQUIRE(hit.reserve(90));
  REQUIRE(runtime.step(hit, std::span(prompt).first(50), 0) == compute::RunOutcome::finished);
  runtime.backend().control().abort = true;
  CHECK(runtime.step(hit, std::span(prompt).subspan(50), 1) == compute::RunOutcome::aborted);
  CHECK(hit.length() == 50);
  runtime.backend().control().abort = false;
  REQUIRE(runtime.step(hit, std::span(prompt).subspan(50), 1) == compute::RunOutcome::finished);
  CHECK(hit.length() == 90);
  runtime.read_scores(0, after);
  CHECK(after == undisturbed);
}
