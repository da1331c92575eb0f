// Blocks are counted exactly, a sequence reuses no more than it may, and what is kept gives way to what runs.
#include <catch2/catch.hpp>

#include "engine/cache/conversations.hpp"
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

namespace {

// The copy of a block is noted, as a backend would make it.
struct Kept {
  explicit Kept(int64_t blocks, int64_t states = 0, int64_t parked = -1)
      : pools(blocks, states), conversations(pools, [this](BlockId from, BlockId to) {
          copies.emplace_back(from, to);
          return can_copy;
        }, parked < 0 ? blocks : parked) {}
  // A conversation of these tokens, computed in steps of at most 64 and parked.
  void talk(const std::vector<TokenId>& tokens, Keep last = Keep::while_newest) { conversations.park(begun(tokens, last)); }
  std::unique_ptr<Sequence> begun(const std::vector<TokenId>& tokens, Keep last = Keep::while_newest) {
    std::unique_ptr<Sequence> sequence = conversations.begin(tokens);
    found = sequence->length();
    while (sequence->length() < static_cast<int64_t>(tokens.size())) {
      const size_t at = static_cast<size_t>(sequence->length()), count = std::min<size_t>(64, tokens.size() - at);
      REQUIRE(conversations.reserve(*sequence, static_cast<int64_t>(count)));
      sequence->commit(std::span(tokens).subspan(at, count), at + count == tokens.size() ? last : Keep::while_newest);
    }
    return sequence;
  }

  Pools pools;
  std::vector<std::pair<BlockId, BlockId>> copies;
  bool can_copy = true;
  int64_t found = 0;
  Conversations conversations;
};

}  // namespace

TEST_CASE("a parked conversation is taken up where it ended, and shared where another one begins alike") {
  Kept kept(20);
  kept.talk(counted(100));
  CHECK(kept.pools.blocks.free_blocks() == 18);
  kept.talk(counted(150));  // goes on
  CHECK(kept.found == 100);
  CHECK(kept.copies.empty());
  CHECK(kept.conversations.parked() == 1);
  CHECK(kept.pools.blocks.free_blocks() == 17);

  std::vector<TokenId> other = counted(140);
  other[130] = 7;
  kept.talk(other);  // two whole blocks shared, two tokens of the third copied
  CHECK(kept.found == 130);
  REQUIRE(kept.copies.size() == 1);
  CHECK(kept.copies[0].first != kept.copies[0].second);
  CHECK(kept.conversations.parked() == 2);
  CHECK(kept.pools.blocks.free_blocks() == 16);
  CHECK(kept.conversations.parked_blocks() == 4);

  kept.talk(counted(150));  // the same again: one token to compute, and no second entry for it
  CHECK(kept.found == 149);
  CHECK(kept.conversations.parked() == 2);
  CHECK(kept.pools.blocks.free_blocks() == 16);
  kept.talk(counted(80));
  CHECK(kept.found == 79);
  CHECK(kept.conversations.parked() == 2);  // it is the beginning of one that is kept
}

TEST_CASE("a backend that cannot copy a block shares whole ones") {
  Kept kept(20);
  kept.can_copy = false;
  kept.talk(counted(150));
  std::vector<TokenId> other = counted(140);
  other[130] = 7;
  kept.talk(other);
  CHECK(kept.found == 128);
  CHECK(kept.pools.blocks.free_blocks() == 16);
}

TEST_CASE("a running conversation is shared from as well, and neither writes into the other's blocks") {
  Kept kept(20);
  std::unique_ptr<Sequence> first = kept.begun(counted(100));
  std::vector<TokenId> alike = counted(100);
  alike.push_back(5);
  std::unique_ptr<Sequence> second = kept.begun(alike);
  CHECK(kept.found == 100);
  CHECK(first->blocks()[0] == second->blocks()[0]);
  CHECK(first->blocks()[1] != second->blocks()[1]);
  CHECK(kept.pools.blocks.holders(first->blocks()[0]) == 2);
  kept.conversations.drop(std::move(first));
  CHECK(kept.pools.blocks.holders(second->blocks()[0]) == 1);
  kept.conversations.drop(std::move(second));
  CHECK(kept.pools.blocks.free_blocks() == 20);
}

TEST_CASE("parked conversations give way to running ones, the one not used longest first, and keep within their share") {
  Kept kept(6);
  kept.talk(counted(64, 1000));
  kept.talk(counted(64, 2000));
  kept.talk(counted(64, 3000));
  kept.talk(counted(70, 1000));  // used again
  CHECK(kept.found == 64);
  CHECK(kept.pools.blocks.free_blocks() == 2);
  std::unique_ptr<Sequence> running = kept.begun(counted(192, 4000));
  CHECK(kept.conversations.parked() == 2);
  CHECK(kept.conversations.reusable(counted(100, 2000)) == 0);
  CHECK(kept.conversations.reusable(counted(100, 1000)) == 70);
  CHECK(kept.conversations.reserve(*running, 192));
  CHECK(kept.conversations.parked() == 0);
  CHECK_FALSE(kept.conversations.reserve(*running, 193));
  kept.conversations.park(std::move(running));
  CHECK(kept.pools.blocks.free_blocks() == 3);  // what was only reserved is back

  Kept narrow(10, 0, 2);
  narrow.talk(counted(64, 1000));
  narrow.talk(counted(64, 2000));
  narrow.talk(counted(64, 3000));
  CHECK(narrow.conversations.parked_blocks() == 2);
  CHECK(narrow.conversations.reusable(counted(65, 1000)) == 0);
  CHECK(narrow.conversations.reusable(counted(65, 2000)) == 64);
  Kept none(10, 0, 0);
  none.talk(counted(64));
  none.talk(counted(100));
  CHECK(none.found == 0);
  CHECK(none.pools.blocks.free_blocks() == 10);
}

TEST_CASE("recurrent states are kept at multiples of 256 and at a prompt's end, and a prompt goes on from the longest") {
  Kept kept(60, 8);
  kept.talk(counted(600), Keep::as_checkpoint);
  CHECK(kept.pools.states.free_blocks() == 5);  // 256, 512, 600
  std::vector<TokenId> other = counted(700);
  other[550] = 3;
  kept.talk(other, Keep::as_checkpoint);
  CHECK(kept.found == 512);
  other = counted(700);
  other[400] = 3;
  CHECK(kept.conversations.reusable(other) == 256);
  CHECK(kept.conversations.reusable(counted(700)) == 600);
  CHECK(kept.conversations.reusable(counted(600)) == 512);  // the last token must be computed
  CHECK(kept.conversations.reusable(counted(100)) == 0);
}

TEST_CASE("the state not used longest goes first, never the one that a running sequence stands on") {
  Kept kept(60, 5);
  kept.talk(counted(300, 1000));  // 256, and 300 where it ended
  kept.talk(counted(300, 5000));
  kept.talk(counted(310, 1000));  // used again; the state at 300 is overtaken by the one at 310
  CHECK(kept.found == 300);
  std::unique_ptr<Sequence> running = kept.begun(counted(600, 9000));
  CHECK(kept.conversations.reusable(counted(400, 5000)) == 0);
  CHECK(kept.conversations.parked() == 1);
  std::unique_ptr<Sequence> second = kept.begun(counted(20, 20000));
  CHECK(kept.conversations.reserve(*running, 64));
  CHECK(kept.conversations.parked() == 0);
  CHECK(running->state_from() >= 0);
  CHECK(second->state_from() >= 0);
  CHECK(running->state_from() != second->state_from());
  running->commit(counted(64, 7));
  CHECK(kept.conversations.reserve(*second, 1));
  CHECK(kept.conversations.reserve(*running, 1));
  kept.conversations.drop(std::move(running));
  kept.conversations.drop(std::move(second));
  CHECK(kept.pools.states.free_blocks() == 5);
  CHECK(kept.pools.blocks.free_blocks() == 60);
}
