// Blocks are counted exactly, a sequence reuses no more than it may, and what is kept gives way to what runs.
#include <catch2/catch.hpp>
#include <array>

#include "engine/cache/conversations.hpp"
#include "engine/sample/random.hpp"
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
  explicit Kept(int64_t blocks, int64_t states = 0, int64_t parked = -1, const Window& window = {})
      : pools(blocks, states, window), conversations(pools, [this](compute::BlockTable kind, BlockId from, BlockId to) {
          (kind == compute::BlockTable::whole ? copies : window_copies).emplace_back(from, to);
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
  std::vector<std::pair<BlockId, BlockId>> copies, window_copies;
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

namespace {

std::vector<TokenId> differing_at(size_t place, int64_t count = 2000) {
  std::vector<TokenId> ids = counted(count);
  ids[place] = -5;
  return ids;
}

// In steps of `step` tokens, up to `length` of counted().
void grow(Sequence& sequence, int64_t length, int64_t step, Keep last = Keep::while_newest) {
  while (sequence.length() < length) {
    const int64_t count = std::min(step, length - sequence.length());
    REQUIRE(sequence.reserve(count));
    sequence.commit(counted(count, static_cast<TokenId>(sequence.length())), sequence.length() + count == length ? last : Keep::while_newest);
  }
}

// The indices of window blocks that are held, as runs: "3-4 14-19".
std::string held(const Sequence& sequence) {
  std::string text;
  const auto blocks = sequence.window_blocks();
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (blocks[i] < 0) continue;
    const size_t first = i;
    while (i + 1 < blocks.size() && blocks[i + 1] >= 0) ++i;
    text += (text.empty() ? "" : " ") + std::to_string(first) + "-" + std::to_string(i);
  }
  return text;
}

}  // namespace

TEST_CASE("with windows a sequence holds what its next token sees and 256 tokens further, and can be cut back by as much") {
  Pools pools(40, 0, {100, 40, 0});
  {
    Sequence sequence(pools);
    grow(sequence, 345, 37);
    CHECK(held(sequence) == "0-5");  // 418 tokens are 100 and 256 beyond the first block
    grow(sequence, 419, 37);
    CHECK(held(sequence) == "1-6");
    grow(sequence, 1280, 64);
    CHECK(held(sequence) == "14-19");  // the token at 1024 sees those from 925 on
    CHECK(sequence.blocks().size() == 20);
    CHECK(pools.window_blocks.free_blocks() == 34);
    CHECK(sequence.reusable(counted(2000)) == 1280);
    CHECK(sequence.reusable(counted(1280)) == 1279);
    CHECK(sequence.reusable(differing_at(1100)) == 1100);
    CHECK(sequence.reusable(differing_at(1100), 64) == 1088);
    CHECK(sequence.reusable(differing_at(995)) == 995);  // the token there sees those from 896 on
    CHECK(sequence.reusable(differing_at(994)) == 0);
    CHECK(sequence.reusable(differing_at(1000), 64) == 0);  // 960 is too far back

    REQUIRE(sequence.reserve(500));
    CHECK(held(sequence) == "14-27");  // a long step needs all of it at once
    CHECK_FALSE(sequence.reserve(3000));
    sequence.settle();
    CHECK(held(sequence) == "14-19");
    sequence.truncate(1025);
    CHECK(held(sequence) == "14-16");
    CHECK(pools.window_blocks.free_blocks() == 37);
    CHECK(sequence.reusable(differing_at(1000)) == 1000);
    CHECK(sequence.reusable(differing_at(994)) == 0);
    grow(sequence, 1100, 1);
    CHECK(held(sequence) == "14-17");
    sequence.truncate(0);
    CHECK(pools.window_blocks.free_blocks() == 40);
    grow(sequence, 70, 70);
    CHECK(held(sequence) == "0-1");
  }
  CHECK(pools.window_blocks.free_blocks() == 40);
  CHECK(pools.blocks.free_blocks() == 40);
}

TEST_CASE("a window that sees all of a text lets nothing go, and the text can be cut anywhere") {
  Pools pools(40, 0, {5000, 40, 0});
  Sequence sequence(pools);
  grow(sequence, 2000, 300);
  CHECK(held(sequence) == "0-31");
  CHECK(sequence.reusable(differing_at(3)) == 3);
}

TEST_CASE("one sequence never needs more window blocks at once than are planned for it") {
  for (const int64_t window : {1, 63, 64, 65, 128, 200}) {
    for (const int64_t rows : {1, 64, 100, 512}) {
      const int64_t most = window_blocks_per_sequence(window, rows);
      Pools pools(200, 0, {window, most, 0});
      Sequence sequence(pools);
      grow(sequence, 6000, rows);  // which finds room at every step
      CHECK(window_blocks_per_sequence(window, rows) * 64 < window + window_tail + rows + 4 * 64);
    }
  }
}

TEST_CASE("with windows a checkpoint keeps what the token behind it sees, at prompts' ends, multiples and wishes") {
  Pools pools(80, 0, {100, 80, 512});
  {
    Sequence sequence(pools);
    grow(sequence, 300, 90, Keep::as_checkpoint);
    sequence.keep_at(700);
    grow(sequence, 1500, 90);
    CHECK(held(sequence) == "3-4 6-7 9-10 14-15 17-23");  // 300, 512, 700, 1024
    CHECK(sequence.checkpoints() == 4);
    CHECK(sequence.reusable(differing_at(1187)) == 1187);
    CHECK(sequence.reusable(differing_at(1186)) == 1024);
    CHECK(sequence.reusable(differing_at(1023)) == 700);
    CHECK(sequence.reusable(differing_at(699)) == 512);
    CHECK(sequence.reusable(differing_at(699), 64) == 512);
    CHECK(sequence.reusable(differing_at(400)) == 300);
    CHECK(sequence.reusable(differing_at(400), 64) == 0);
    CHECK(sequence.reusable(differing_at(299)) == 0);
    sequence.drop_checkpoint(*sequence.oldest_checkpoint(Sequence::Is::running));  // that at 300
    CHECK(held(sequence) == "6-7 9-10 14-15 17-23");
    CHECK(sequence.reusable(differing_at(400)) == 0);
    sequence.truncate(700);
    CHECK(held(sequence) == "6-7 9-10");
    CHECK(sequence.reusable(differing_at(675)) == 675);
    CHECK(sequence.reusable(differing_at(674)) == 512);
    sequence.truncate(512);
    CHECK(held(sequence) == "6-7");
    CHECK(pools.window_blocks.free_blocks() == 78);
    grow(sequence, 900, 90);
    CHECK(held(sequence) == "6-14");
  }
  CHECK(pools.window_blocks.free_blocks() == 80);
}

TEST_CASE("with windows a fork shares whole blocks, and gets copies of those of both kinds that are cut") {
  Kept kept(60, 0, -1, {100, 60, 0});
  std::unique_ptr<Sequence> first = kept.begun(counted(1000));
  CHECK(held(*first) == "10-15");  // 64 tokens at a time: the token at 744 sees those from 645 on
  std::unique_ptr<Sequence> second = kept.conversations.begin(differing_at(790));
  CHECK(second->length() == 790);
  CHECK(held(*second) == "10-12");
  REQUIRE(kept.copies.size() == 1);
  REQUIRE(kept.window_copies.size() == 1);
  CHECK(kept.copies[0] == std::pair(first->blocks()[12], second->blocks()[12]));
  CHECK(kept.window_copies[0] == std::pair(first->window_blocks()[12], second->window_blocks()[12]));
  CHECK(first->window_blocks()[11] == second->window_blocks()[11]);
  CHECK(kept.pools.window_blocks.holders(second->window_blocks()[11]) == 2);
  CHECK(kept.pools.window_blocks.free_blocks() == 60 - 6 - 1);
  std::unique_ptr<Sequence> third = kept.conversations.begin(differing_at(768));  // no block is cut
  CHECK(third->length() == 768);
  CHECK(kept.window_copies.size() == 1);
  CHECK(held(*third) == "10-11");
  kept.can_copy = false;
  std::unique_ptr<Sequence> fourth = kept.conversations.begin(differing_at(790));
  CHECK(fourth->length() == 768);
  for (std::unique_ptr<Sequence>* sequence : {&first, &second, &third, &fourth}) kept.conversations.drop(std::move(*sequence));
  CHECK(kept.pools.window_blocks.free_blocks() == 60);
  CHECK(kept.pools.blocks.free_blocks() == 60);
}

TEST_CASE("with windows a conversation goes on from its end, from a prompt's end and from where two parted") {
  Kept kept(200, 0, -1, {100, 200, 0});
  std::vector<TokenId> chat = counted(1000);
  kept.talk(chat, Keep::as_checkpoint);
  std::vector<TokenId> longer = counted(1700);
  kept.talk(longer);
  CHECK(kept.found == 1000);
  CHECK(kept.conversations.parked() == 1);
  CHECK(kept.conversations.reusable(counted(2000)) == 1700);
  CHECK(kept.conversations.reusable(differing_at(1300)) == 1000);  // the first prompt's end
  CHECK(kept.conversations.reusable(differing_at(950)) == 0);
  kept.talk(differing_at(950, 1500));  // reads all of it, and marks where it parted from the other
  CHECK(kept.found == 0);
  std::vector<TokenId> third = differing_at(950, 1200);
  third[960] = -6;
  third[951] = -6;
  CHECK(kept.conversations.reusable(third) == 950);
  kept.talk(counted(1200), Keep::as_checkpoint);  // from 1000, a beginning of what is parked: that gets its checkpoint
  CHECK(kept.found == 1000);
  CHECK(kept.conversations.reusable(differing_at(1250)) == 1200);
}

TEST_CASE("checkpoints with windows give way to running sequences, the one not used longest first, then parked ones do") {
  Kept kept(400, 0, -1, {64, 24, 0});
  kept.talk(counted(600, 1000), Keep::as_checkpoint);
  kept.talk(counted(700, 1000), Keep::as_checkpoint);
  kept.talk(counted(600, 5000), Keep::as_checkpoint);
  const auto reusable = [&](TokenId first, int64_t common) {
    std::vector<TokenId> ids = counted(2000, first);
    ids[static_cast<size_t>(common)] = -1;
    return kept.conversations.reusable(ids);
  };
  CHECK(reusable(1000, 620) == 620);
  CHECK(reusable(1000, 1000) == 700);
  CHECK(reusable(5000, 1000) == 600);
  std::unique_ptr<Sequence> running = kept.begun(counted(1500, 9000));
  CHECK(kept.conversations.reserve(*running, 64 * 11));
  CHECK(kept.conversations.parked() == 1);
  CHECK(reusable(1000, 1000) == 0);
  CHECK(reusable(5000, 1000) == 600);
  CHECK(kept.conversations.reserve(*running, 64 * 18));
  CHECK_FALSE(kept.conversations.reserve(*running, 64 * 19));
  CHECK(kept.conversations.parked() == 0);
  kept.conversations.drop(std::move(running));
  CHECK(kept.pools.window_blocks.free_blocks() == 24);
}

TEST_CASE("with windows a conversation that nobody came back to goes before a later one's checkpoint") {
  Kept kept(400, 0, -1, {64, 24, 0});
  kept.talk(counted(600, 1000), Keep::as_checkpoint);  // blocks 4 to 9
  kept.talk(counted(600, 5000), Keep::as_checkpoint);
  kept.talk(counted(1000, 5000), Keep::as_checkpoint);  // 10 to 15, and 8 and 9 for the checkpoint at 600
  std::unique_ptr<Sequence> running = kept.begun(counted(1500, 9000));
  CHECK(kept.conversations.reserve(*running, 64 * 10));  // 4 are free, and the oldest has 6
  std::vector<TokenId> parting = counted(2000, 5000);
  parting[700] = -1;
  CHECK(kept.conversations.reusable(parting) == 600);
  CHECK(kept.conversations.reusable(counted(2000, 1000)) == 0);
  kept.conversations.drop(std::move(running));
}

namespace {

// What a backend would have in its blocks: for each position a number that stands for all tokens up to there.
struct Memory {
  using Block = std::array<uint64_t, 64>;
  explicit Memory(int64_t blocks, int64_t window_blocks) : whole(static_cast<size_t>(blocks)), window(static_cast<size_t>(window_blocks)) {}
  bool copy(compute::BlockTable kind, BlockId from, BlockId to) {
    std::vector<Block>& blocks = kind == compute::BlockTable::whole ? whole : window;
    blocks[static_cast<size_t>(to)] = blocks[static_cast<size_t>(from)];
    return true;
  }
  // Writes rows behind the sequence's length, as a step does, and counts what a row of them sees otherwise than it must.
  int64_t step(const Sequence& sequence, const std::vector<TokenId>& tokens, int64_t count, int64_t window_positions) {
    std::vector<uint64_t> prefix;
    for (const TokenId id : tokens) prefix.push_back(((prefix.empty() ? 1 : prefix.back()) + static_cast<uint64_t>(id) + 1) * 0x9e3779b97f4a7c15u);
    int64_t wrong = 0;
    const auto seen = [&](std::vector<Block>& blocks, std::span<const BlockId> table, int64_t p) -> uint64_t& {
      static uint64_t nowhere;
      const BlockId block = table[static_cast<size_t>(p / 64)];
      return block < 0 ? nowhere = 0 : blocks[static_cast<size_t>(block)][static_cast<size_t>(p % 64)];
    };
    const int64_t first = sequence.length(), end = first + count;
    for (int64_t p = first; p < end; ++p) {
      wrong += sequence.window_blocks()[static_cast<size_t>(p / 64)] < 0;
      seen(whole, sequence.blocks(), p) = seen(window, sequence.window_blocks(), p) = prefix[static_cast<size_t>(p)];
    }
    for (int64_t q = 0; q < end; ++q) wrong += seen(whole, sequence.blocks(), q) != prefix[static_cast<size_t>(q)];
    for (int64_t q = std::max<int64_t>(0, first + 1 - window_positions); q < end; ++q) wrong += seen(window, sequence.window_blocks(), q) != prefix[static_cast<size_t>(q)];
    return wrong;
  }
  std::vector<Block> whole, window;
};

}  // namespace

TEST_CASE("whatever is begun, shared, cut, kept and dropped, every token sees what its window must hold") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    sample::Random random(seed);
    const auto below = [&](int64_t most) { return static_cast<int64_t>(random.next() % static_cast<uint64_t>(most)); };
    const int64_t window = std::vector<int64_t>{1, 30, 64, 100, 200}[static_cast<size_t>(below(5))];
    const int64_t slots = 3, rows = 150, blocks = 150, window_blocks = window_blocks_per_sequence(window, rows) * slots + below(60);
    Memory memory(blocks, window_blocks);
    Pools pools(blocks, 0, {window, window_blocks, below(2) * window_checkpoint_tokens(window)});
    {
      Conversations conversations(pools, [&](compute::BlockTable kind, BlockId from, BlockId to) { return memory.copy(kind, from, to); }, blocks);
      struct Run {
        std::unique_ptr<Sequence> sequence;
        std::vector<TokenId> text;
        int64_t prompt = 0;
      };
      std::vector<Run> runs;
      std::vector<std::vector<TokenId>> texts{{}};
      int64_t reused = 0, wrong = 0;
      for (int turn = 0; turn < 400; ++turn) {
        if (static_cast<int64_t>(runs.size()) < slots && below(3) == 0) {
          const std::vector<TokenId>& old = texts[static_cast<size_t>(below(static_cast<int64_t>(texts.size())))];
          const size_t common = old.size() - std::min(old.size(), static_cast<size_t>(below(2) == 0 ? below(400) : below(10)));
          Run run{nullptr, {old.begin(), old.begin() + static_cast<std::ptrdiff_t>(common)}};
          for (int64_t more = 1 + below(500); more > 0 && run.text.size() < 1500; --more) run.text.push_back(static_cast<TokenId>(below(50)));
          run.prompt = static_cast<int64_t>(run.text.size());
          run.sequence = conversations.begin(run.text);
          reused += run.sequence->length();
          runs.push_back(std::move(run));
        }
        for (size_t i = 0; i < runs.size(); ++i) {
          Run& run = runs[i];
          if (run.sequence->length() == static_cast<int64_t>(run.text.size())) run.text.push_back(static_cast<TokenId>(below(50)));
          const int64_t sure = std::min(1 + below(below(2) == 0 ? 5 : rows - 8), static_cast<int64_t>(run.text.size()) - run.sequence->length());
          const int64_t guesses = below(4) == 0 ? below(8) : 0;
          while (!conversations.reserve(*run.sequence, sure + guesses) && runs.size() > i + 1) {  // the youngest waits
            conversations.drop(std::move(runs.back().sequence));
            runs.pop_back();
          }
          if (!conversations.reserve(*run.sequence, sure + guesses)) continue;
          std::vector<TokenId> step(run.text.begin(), run.text.begin() + static_cast<std::ptrdiff_t>(run.sequence->length() + sure));
          const std::span<const TokenId> own = std::span(run.text).subspan(static_cast<size_t>(run.sequence->length()), static_cast<size_t>(sure));
          for (int64_t g = 0; g < guesses; ++g) step.push_back(77);
          wrong += memory.step(*run.sequence, step, sure + guesses, window);
          run.sequence->commit(own, run.sequence->length() + sure == run.prompt ? Keep::as_checkpoint : Keep::while_newest);
        }
        if (!runs.empty() && below(6) == 0) {
          const size_t i = static_cast<size_t>(below(static_cast<int64_t>(runs.size())));
          texts.push_back(runs[i].text);
          if (below(5) == 0) conversations.drop(std::move(runs[i].sequence));
          else conversations.park(std::move(runs[i].sequence));
          runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(i));
        }
      }
      CHECK(wrong == 0);
      CHECK(reused > 1000);
      for (Run& run : runs) conversations.drop(std::move(run.sequence));
    }
    CHECK(pools.blocks.free_blocks() == blocks);
    CHECK(pools.window_blocks.free_blocks() == window_blocks);
  }
}
