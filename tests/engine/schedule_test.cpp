// The parts around a slot: chunk sizes, memory planning, the request queue.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/schedule/chunk_sizer.hpp"
#include "engine/schedule/memory.hpp"
#include "engine/schedule/request_queue.hpp"
#include "engine/schedule/step_sizer.hpp"

using namespace vigil;
using namespace vigil::schedule;

namespace {

constexpr uint64_t gib = uint64_t{1} << 30;

struct FakeRoot {
  FakeRoot() : path(std::filesystem::temp_directory_path() / ("vigil_memory_test_" + std::to_string(::getpid()))) {}
  ~FakeRoot() { std::filesystem::remove_all(path); }
  void file(const std::string& name, const std::string& text) const {
    const auto whole = path / name;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  std::filesystem::path path;
};

Request tagged(protocol::RequestTag tag) { return {tag, 1, {1}}; }

}  // namespace

TEST_CASE("chunks grow to fill step_ms and shrink when they are slow") {
  ChunkSizer sizer(500, 512);
  CHECK(sizer.tokens() == 8);
  sizer.finished(8, 1);
  CHECK(sizer.tokens() == 32);
  sizer.finished(32, 4);
  CHECK(sizer.tokens() == 128);
  sizer.finished(128, 16);
  CHECK(sizer.tokens() == 512);
  sizer.finished(512, 5000);  // 10 ms a token
  CHECK(sizer.tokens() == 51);
  sizer.finished(51, 510 * 1000);
  CHECK(sizer.tokens() == 1);
}

TEST_CASE("a chunk does not shrink to where its tokens no longer count") {
  // An 8B model on one old core: 450 ms for the weights, 20 ms for a token.
  const auto took = [](int64_t tokens) { return 450.0 + 20.0 * static_cast<double>(tokens); };
  // A rest of 3 tokens takes what every step costs, 20 ms: the next prompt's chunks are not smaller for it.
  ChunkSizer rest(500, 512);
  for (int64_t i = 0; i < 4; ++i) rest.finished(rest.tokens(), 20 + 0.5 * static_cast<double>(rest.tokens()));
  CHECK(rest.tokens() == 512);
  const double per_token = rest.per_token_ms();
  rest.finished(3, 21.5);
  CHECK(rest.tokens() == 512);
  CHECK(rest.per_token_ms() == per_token);
  rest.finished(3, 600);  // even so few took too long
  CHECK(rest.tokens() < 512);
  ChunkSizer slow(500, 512);
  for (int i = 0; i < 6; ++i) slow.finished(slow.tokens(), took(slow.tokens()));
  CHECK(slow.tokens() == 16);
  // The machine was busy for a while, and one token took half a minute.
  slow.finished(16, 16 * 30'000);
  CHECK(slow.tokens() == 1);
  for (int i = 0; i < 6; ++i) slow.finished(slow.tokens(), took(slow.tokens()));
  CHECK(slow.tokens() == 16);
  ChunkSizer small(500, 4);  // no more than a step may have
  small.finished(4, 4'000);
  CHECK(small.tokens() == 4);
}

TEST_CASE("the context is what was asked for, or the largest that fits") {
  const MemoryNeed need{4 * gib, gib / 4, 64u << 20};  // 1 MiB a position
  CHECK(*fit_context(0, 4096, need, 16 * gib) == 4096);
  CHECK(*fit_context(0, 1 << 20, need, 16 * gib) == 8704);  // (12.8 - 4.25) GiB / 64 MiB, in blocks of 64
  CHECK(*fit_context(8000, 4096, need, 16 * gib) == 8000);
  CHECK(*fit_context(0, 1 << 20, need, 0) == 1 << 20);
  CHECK(*fit_context(0, int64_t{1} << 30, {4 * gib, gib / 4, 0}, 16 * gib) == longest_unasked);  // all layers have windows
  CHECK(*fit_context(int64_t{1} << 30, 4096, {4 * gib, gib / 4, 0}, 16 * gib) == int64_t{1} << 30);
  const auto refused = fit_context(20000, 4096, need, 16 * gib);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().find("weights 4096 MiB") != std::string::npos);
  CHECK(refused.error().find("context of 20000") != std::string::npos);
  CHECK(refused.error().find("a context of 8704 would fit") != std::string::npos);
  CHECK_FALSE(fit_context(0, 4096, need, 5 * gib));
  CHECK_FALSE(fit_context(64, 4096, need, 5 * gib));
}

TEST_CASE("available memory heeds every group above the process") {
  const FakeRoot root;
  const std::string at = root.path.string();
  CHECK(available_memory(at) == 0);
  root.file("proc/meminfo", "MemTotal:  32000000 kB\nMemFree: 1 kB\nMemAvailable:   16777216 kB\n");
  CHECK(available_memory(at) == 16 * gib);
  root.file("proc/self/cgroup", "0::/pod/box\n");
  CHECK(available_memory(at) == 16 * gib);
  root.file("sys/fs/cgroup/pod/box/memory.max", "max\n");
  root.file("sys/fs/cgroup/pod/box/memory.current", "4096\n");
  CHECK(available_memory(at) == 16 * gib);
  root.file("sys/fs/cgroup/pod/memory.max", std::to_string(8 * gib) + "\n");
  root.file("sys/fs/cgroup/pod/memory.current", std::to_string(3 * gib) + "\n");
  CHECK(available_memory(at) == 5 * gib);
  root.file("sys/fs/cgroup/pod/memory.stat", "anon 5\ninactive_file " + std::to_string(2 * gib) + "\n");
  CHECK(available_memory(at) == 7 * gib);
  root.file("proc/self/cgroup", "7:memory:/\n3:cpu:/\n");
  root.file("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(2 * gib) + "\n");
  root.file("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(gib) + "\n");
  CHECK(available_memory(at) == gib);
}

TEST_CASE("requests leave in the order they came, and a stop finds the right one") {
  RequestQueue queue(3);
  std::atomic<bool> abort{false};
  queue.abort_by(abort);
  CHECK(queue.stop(std::nullopt).stopped == RequestQueue::Stopped::nothing);
  for (const protocol::RequestTag tag : {5, 6, 7}) CHECK(queue.push(tagged(tag)) == RequestQueue::Added::queued);
  CHECK(queue.push(tagged(6)) == RequestQueue::Added::duplicate);
  CHECK(queue.push(tagged(8)) == RequestQueue::Added::full);
  const auto five = queue.take();
  CHECK(*five->request.tag == 5);
  CHECK(queue.push(tagged(5)) == RequestQueue::Added::duplicate);

  CHECK(queue.stop(6).stopped == RequestQueue::Stopped::waiting);
  CHECK(queue.stop(6).stopped == RequestQueue::Stopped::nothing);
  CHECK_FALSE(queue.stopped(five->number));
  CHECK(queue.stop(5).stopped == RequestQueue::Stopped::running);
  CHECK(queue.stopped(five->number));
  queue.finished(five->number);
  CHECK(queue.stop(5).stopped == RequestQueue::Stopped::nothing);
  CHECK_FALSE(queue.stopped(five->number));
  const auto seven = queue.take();
  CHECK(*seven->request.tag == 7);
  CHECK_FALSE(queue.take());
  queue.finished(seven->number);

  queue.push({std::nullopt, 1, {1}});  // a bare STOP that overtakes the start still ends its request
  CHECK(queue.stop(std::nullopt).stopped == RequestQueue::Stopped::waiting);
}

TEST_CASE("a step is aborted when all requests in it are stopped, and not before") {
  RequestQueue queue(8);
  std::atomic<bool> abort{true};
  queue.abort_by(abort);
  CHECK_FALSE(abort);
  for (const protocol::RequestTag tag : {1, 2, 3}) queue.push(tagged(tag));
  const std::vector<RequestQueue::Number> all{queue.take()->number, queue.take()->number, queue.take()->number};
  queue.begin_step(std::span(all).first(2));
  queue.stop(1);
  CHECK_FALSE(abort);
  queue.stop(3);  // in no step
  CHECK_FALSE(abort);
  queue.stop(2);
  CHECK(abort);
  queue.end_step();
  CHECK_FALSE(abort);
  queue.begin_step(std::span(all).first(1));  // stopped before it began
  CHECK(abort);
  queue.end_step();
  for (const auto number : all) queue.finished(number);
  CHECK_FALSE(abort);

  for (const protocol::RequestTag tag : {4, 5}) queue.push(tagged(tag));
  const auto four = queue.take(), five = queue.take();
  CHECK(*queue.stop(std::nullopt).tag == 4);  // bare: the one that has run longest, each once
  CHECK(*queue.stop(std::nullopt).tag == 5);
  CHECK(queue.stop(std::nullopt).stopped == RequestQueue::Stopped::nothing);
}

TEST_CASE("closing the queue ends what runs and wakes who waits") {
  RequestQueue queue(3);
  std::atomic<bool> abort{false};
  queue.abort_by(abort);
  queue.push(tagged(1));
  queue.push(tagged(2));
  const auto running = queue.take();
  REQUIRE(running);
  CHECK(queue.wait_active());
  CHECK(queue.tags() == std::vector<protocol::RequestTag>{1, 2});
  queue.close();
  CHECK(abort);
  CHECK(queue.closed());
  CHECK(queue.stopped(running->number));
  queue.finished(running->number);
  CHECK_FALSE(queue.take());
  CHECK_FALSE(queue.wait());
  CHECK_FALSE(queue.wait_active());
  CHECK_FALSE(queue.still_active_after(std::chrono::hours(1)));
}

TEST_CASE("a prompt beside others takes what keeps a step within a few times one without") {
  StepSizer sizer(500, 512, 4);
  CHECK(sizer.tokens(0) == 8);  // alone: as before
  sizer.finished(0, 8, 8);
  CHECK(sizer.tokens(0) == 32);
  CHECK(sizer.tokens(3) == 0);  // how long three take without it is not known yet
  for (int i = 0; i < 9; ++i) sizer.finished(3, 0, i == 4 ? 400 : 10);  // one was slow for another's sake
  CHECK(sizer.tokens(2) == 0);  // that says nothing about two
  // The step takes 10 ms and 0.5 ms for each token of a prompt: 2.5 times 10 ms leave room for 30.
  std::vector<int64_t> tokens;
  for (int i = 0; i < 24; ++i) {
    tokens.push_back(sizer.tokens(3));
    sizer.finished(3, tokens.back(), 10 + 0.5 * static_cast<double>(tokens.back()));
  }
  CHECK(tokens[0] == 7);  // of twice the 1 ms that one took alone
  for (size_t i = 1; i < tokens.size(); ++i) CHECK(tokens[i] <= 2 * tokens[i - 1]);
  CHECK(tokens[10] >= 30);
  CHECK(*std::max_element(tokens.begin(), tokens.end()) <= 30);
  CHECK(sizer.tokens(3) == 0);  // measured again from time to time
  sizer.finished(3, 0, 10);
  CHECK(sizer.tokens(3) >= 30);
  // A model that takes 400 ms without: the prompt still moves.
  sizer.finished(1, 0, 400);
  CHECK(sizer.tokens(1) >= 1);
}

TEST_CASE("caches are planned by what is there: running ones first, then what is kept") {
  const MemoryNeed need{4 * gib, gib / 4, 64u << 20, 0};  // 1 MiB a position
  const CachePlan one = *plan_caches({0, 4096, 1, 0}, need, 16 * gib);
  CHECK(one.context == 4096);
  CHECK(one.blocks == 64 + 18);  // a quarter of the 4.55 GiB that are left
  CHECK(one.parked_blocks == one.blocks);
  const CachePlan four = *plan_caches({0, 4096, 4, 0}, need, 16 * gib);
  CHECK(four.context == 4096);
  CHECK(four.blocks == 136);  // 8.55 GiB: two contexts and a bit, shared by four
  const CachePlan asked = *plan_caches({0, 4096, 1, 640}, need, 16 * gib);
  CHECK(asked.blocks == 64 + 10);
  CHECK(asked.parked_blocks == 10);
  CHECK(plan_caches({0, 4096, 1, 1 << 20}, need, 16 * gib)->blocks == 64 + 72);  // no more than there is
  const CachePlan off = *plan_caches({0, 4096, 2, -1}, need, 32 * gib);
  CHECK(off.blocks == 128);
  CHECK(off.parked_blocks == 0);
  const MemoryNeed recurrent{gib, gib / 4, 1u << 20, 64u << 20};
  const CachePlan states = *plan_caches({4096, 4096, 2, 1024}, recurrent, 16 * gib);
  CHECK(states.states == 4 + 12);  // three quarters of the GiB
  CHECK(states.blocks == 128 + 256);
  CHECK_FALSE(plan_caches({20000, 4096, 1, 0}, need, 16 * gib));
}

TEST_CASE("blocks of layers with a window are planned for what slots need of them, not for their contexts") {
  MemoryNeed need{4 * gib, gib / 4, 8u << 20, 0};
  need.window = {56u << 20, 40};  // an eighth of the layers sees everything: 1 MiB a position up to 40 blocks, then 128 KiB
  CHECK(*fit_context(0, 4096, need, 16 * gib) == 4096);
  CHECK(*fit_context(0, 1 << 20, need, 16 * gib) == 814 * 64);  // (12.8 - 4.25) GiB - 40 * 56 MiB, by 8 MiB
  CHECK(*fit_context(0, 1 << 20, need, 6 * gib) == 8 * 64);     // (4.8 - 4.25) GiB / 64 MiB
  const auto refused = fit_context(60'000, 4096, need, 16 * gib);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().find("KV cache 9744 MiB for a context of 60000") != std::string::npos);  // 938 * 8 + 40 * 56
  CHECK(refused.error().find("a context of 52096 would fit") != std::string::npos);

  const CachePlan one = *plan_caches({0, 4096, 1, -1}, need, 16 * gib);
  CHECK(one.blocks == 64);
  CHECK(one.window_blocks == 40);
  CHECK(plan_caches({0, 640, 3, -1}, need, 16 * gib)->window_blocks == 30);  // a short context does not even fill them
  const CachePlan four = *plan_caches({0, 4096, 4, -1}, need, 16 * gib);
  CHECK(four.window_blocks == 3 * 40);  // not those of four beside a context
  CHECK(four.blocks == 254);            // what is left of it
  const CachePlan kept = *plan_caches({0, 4096, 1, 0}, need, 16 * gib);  // a quarter of the 6003 MiB that are left, half of that for windows
  CHECK(kept.window_blocks == 40 + 13);
  CHECK(kept.blocks == 64 + 96);
  const CachePlan asked = *plan_caches({0, 4096, 1, 1120}, need, 16 * gib);
  CHECK(asked.window_blocks == 40 + 10);
  CHECK(asked.parked_blocks == 70);
  need.draft = {gib, 16u << 20, 100};
  CHECK(*fit_context(0, 1 << 20, need, 16 * gib) == 486 * 64);  // 1 GiB and 100 * 16 MiB less
  need.draft.most_blocks = 20;
  CHECK(*fit_context(0, 1 << 20, need, 7 * gib) == 4 * 64);  // (5.6 - 5.25) GiB / 80 MiB
  CHECK(*fit_context(0, 1 << 20, need, 10 * gib) == 38 * 64);  // a little less than (8 - 5.25) GiB: 20 blocks of 80 MiB and 18 of 64
}

TEST_CASE("a draft model's weights and KV are planned beside the model's") {
  MemoryNeed need{4 * gib, gib / 4, 64u << 20, 0};  // 1 MiB a position
  need.draft = {2 * gib, 16u << 20, 32};            // a quarter of that, up to 2,048
  CHECK(*fit_context(0, 4096, need, 16 * gib) == 4096);
  CHECK(*fit_context(0, 1 << 20, need, 16 * gib) == 6144);  // (12.8 - 6.25 - 0.5) GiB / 64 MiB, in blocks of 64
  need.draft.most_blocks = 1 << 20;
  CHECK(*fit_context(0, 1 << 20, need, 16 * gib) == 5312);  // (12.8 - 6.25) GiB / 80 MiB
  const auto refused = fit_context(8192, 4096, need, 16 * gib);
  REQUIRE_FALSE(refused);
  CHECK(refused.error() == "does not fit into memory: weights 4096 MiB + scratch 256 MiB + KV cache 8192 MiB for a context of 8192 + draft model 4096 MiB, but "
                           "80 % of the available 16384 MiB is 13108 MiB; a context of 5312 would fit");
  need.draft.most_blocks = 32;
  const CachePlan one = *plan_caches({0, 4096, 1, -1}, need, 16 * gib);
  CHECK(one.blocks == 64);
  CHECK(one.draft_blocks == 32);
  const CachePlan four = *plan_caches({0, 4096, 4, -1}, need, 16 * gib);
  CHECK(four.blocks == 83);  // 6.55 GiB / 80 MiB, shared by four
  CHECK(four.draft_blocks == 83);
  const CachePlan roomy = *plan_caches({0, 4096, 4, 1 << 20}, need, 64 * gib);
  CHECK(roomy.draft_blocks == 4 * 32);
  CHECK(roomy.blocks == 256 + 431);  // (51.2 - 6.25 - 16 - 2) GiB / 64 MiB are parked
  CHECK(plan_caches({0, 4096, 4, -1}, {4 * gib, gib / 4, 64u << 20}, 16 * gib)->draft_blocks == 0);
}
