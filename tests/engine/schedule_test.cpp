// The parts around a slot: chunk sizes, memory planning, the request queue.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/schedule/chunk_sizer.hpp"
#include "engine/schedule/memory.hpp"
#include "engine/schedule/request_queue.hpp"

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

Request tagged(protocol::RequestTag tag) { return {tag, 1, {1}, {}}; }

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
  ChunkSizer slow(500, 512);
  slow.finished(8, 8 * 400);  // an 8B model on one old core
  CHECK(slow.tokens() == 1);
}

TEST_CASE("the context is what was asked for, or the largest that fits") {
  const MemoryNeed need{4 * gib, gib / 4, 64u << 20};  // 1 MiB a position
  CHECK(*fit_context(0, 4096, need, 16 * gib) == 4096);
  CHECK(*fit_context(0, 1 << 20, need, 16 * gib) == 8704);  // (12.8 - 4.25) GiB / 64 MiB, in blocks of 64
  CHECK(*fit_context(8000, 4096, need, 16 * gib) == 8000);
  CHECK(*fit_context(0, 1 << 20, need, 0) == 1 << 20);
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
  CHECK(queue.stop(std::nullopt).stopped == RequestQueue::Stopped::nothing);
  for (const protocol::RequestTag tag : {5, 6, 7}) CHECK(queue.push(tagged(tag)) == RequestQueue::Added::queued);
  CHECK(queue.push(tagged(6)) == RequestQueue::Added::duplicate);
  CHECK(queue.push(tagged(8)) == RequestQueue::Added::full);
  CHECK(*queue.take(abort)->tag == 5);
  CHECK(queue.push(tagged(5)) == RequestQueue::Added::duplicate);

  CHECK(queue.stop(6).stopped == RequestQueue::Stopped::waiting);
  CHECK(queue.stop(6).stopped == RequestQueue::Stopped::nothing);
  CHECK_FALSE(abort);
  CHECK(queue.stop(5).stopped == RequestQueue::Stopped::running);
  CHECK(abort);
  queue.finished();
  CHECK(queue.stop(5).stopped == RequestQueue::Stopped::nothing);
  CHECK(*queue.take(abort)->tag == 7);
  CHECK_FALSE(abort);  // the flag was for the last one
  queue.finished();

  queue.push({std::nullopt, 1, {1}, {}});  // a bare STOP that overtakes the start still ends its request
  CHECK(queue.stop(std::nullopt).stopped == RequestQueue::Stopped::waiting);
}

TEST_CASE("closing the queue ends what runs and wakes who waits") {
  RequestQueue queue(3);
  std::atomic<bool> abort{false};
  queue.push(tagged(1));
  queue.push(tagged(2));
  REQUIRE(queue.take(abort));
  CHECK(queue.wait_active());
  queue.close();
  CHECK(abort);
  queue.finished();
  CHECK_FALSE(queue.take(abort));
  CHECK_FALSE(queue.wait_active());
  CHECK_FALSE(queue.still_active_after(std::chrono::hours(1)));
}
