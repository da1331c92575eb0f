// The reference backend: same bits for every batch and thread count, and an abort that ends a run without harm.
#include <catch2/catch.hpp>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "engine/compute/backend.hpp"
#include "engine/compute/cpu/cores.hpp"
#include "engine/compute/cpu/worker_team.hpp"
#include "engine/gguf/writer.hpp"
#include "engine/sample/random.hpp"

using namespace vigil;
using namespace vigil::compute;

namespace {

std::vector<float> random_floats(int64_t count, uint64_t seed) {
  sample::Random random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(random.uniform() * 2 - 1);
  return values;
}

std::unique_ptr<Backend> backend_with(int threads) {
  auto backend = make_backend({"reference", threads});
  REQUIRE(backend);
  return std::move(*backend);
}

}  // namespace

TEST_CASE("matmul gives each row the same bits in any batch and with any thread count") {
  const int64_t weight_rows = 37, cols = 96, rows = 6;
  const std::vector<float> values = random_floats(weight_rows * cols, 1), x = random_floats(rows * cols, 2);
  const std::vector<std::byte> q8 = gguf::q8_0_bytes(values);
  std::vector<float> first(static_cast<size_t>(rows * weight_rows));
  for (const int threads : {1, 2, 3}) {
    const auto backend = backend_with(threads);
    const Weight weight = *backend->bind("w", gguf::TensorType::q8_0, weight_rows, cols, q8, WeightUse::product);
    const Buffer in = *backend->allocate(rows * cols), out = *backend->allocate(rows * weight_rows);
    std::copy(x.begin(), x.end(), in.address);
    REQUIRE(backend->run([&](Ops& ops) { ops.matmul(weight, in, out, rows); }) == RunOutcome::finished);
    std::vector<float> whole(first.size()), single(static_cast<size_t>(weight_rows));
    backend->read(out, 0, whole);
    if (threads == 1) first = whole;
    CHECK(whole == first);
    for (int64_t r = 0; r < rows; ++r) {
      std::copy_n(x.begin() + r * cols, cols, in.address);
      REQUIRE(backend->run([&](Ops& ops) { ops.matmul(weight, in, out, 1); }) == RunOutcome::finished);
      backend->read(out, 0, single);
      CHECK(std::equal(single.begin(), single.end(), first.begin() + r * weight_rows));
    }
  }
}

TEST_CASE("an abort that comes before or during a run ends it, on every thread") {
  for (const int threads : {1, 3}) {
    const auto backend = backend_with(threads);
    const Buffer a = *backend->allocate(64), b = *backend->allocate(64);
    std::fill_n(a.address, 64, 1.0f);
    std::fill_n(b.address, 64, 1.0f);
    backend->control().abort = true;
    CHECK(backend->run([&](Ops& ops) { ops.add(a, b, 64, 1); }) == RunOutcome::aborted);
    CHECK(a.address[0] == 1.0f);

    backend->control().abort = false;
    CHECK(backend->run([&](Ops& ops) {
      ops.add(a, b, 64, 1);
      backend->control().abort = true;  // as another thread would
      ops.add(a, b, 64, 1);
      ops.add(a, b, 64, 1);
    }) == RunOutcome::aborted);
    CHECK(a.address[0] <= 3.0f);

    backend->control().abort = false;
    std::fill_n(a.address, 64, 1.0f);
    CHECK(backend->run([&](Ops& ops) { ops.add(a, b, 64, 1); }) == RunOutcome::finished);
    CHECK(a.address[63] == 2.0f);
  }
}

TEST_CASE("every op counts as a step, once for the whole team") {
  const auto backend = backend_with(2);
  const Buffer a = *backend->allocate(8), b = *backend->allocate(8);
  std::fill_n(a.address, 8, 0.0f);
  std::fill_n(b.address, 8, 0.0f);
  const uint64_t before = backend->control().steps;
  backend->run([&](Ops& ops) {
    for (int i = 0; i < 5; ++i) ops.add(a, b, 8, 1);
  });
  CHECK(backend->control().steps == before + 5);
}

TEST_CASE("what the backend cannot compute is refused by name") {
  const auto backend = backend_with(1);
  const std::vector<std::byte> data(1024);
  const auto q8 = backend->bind("blk.0.attn_q.weight", gguf::TensorType::q8_k, 1, 256, data, WeightUse::product);
  REQUIRE_FALSE(q8);
  CHECK(q8.error().find("blk.0.attn_q.weight") != std::string::npos);
  CHECK(q8.error().find("Q8_K") != std::string::npos);
  CHECK(backend->bind("w", gguf::TensorType::q4_k, 1, 256, data, WeightUse::product));
  CHECK_FALSE(backend->bind("w", gguf::TensorType::q8_0, 1, 33, data, WeightUse::product));
  CHECK_FALSE(backend->bind("w", gguf::TensorType::f32, 5, 64, data, WeightUse::product));  // 1,280 bytes of 1,024
  CHECK_FALSE(make_backend({"cuda", 1}));
  CHECK_FALSE(make_backend({"cpu", -1}));
}

TEST_CASE("a worker team runs every index in every round and keeps its barrier") {
  cpu::WorkerTeam team(4);
  std::atomic<int> before{0}, wrong{0};
  for (int round = 0; round < 300; ++round) {
    before = 0;
    team.run([&](int) {
      before.fetch_add(1);
      team.barrier();
      if (before.load() != 4) wrong.fetch_add(1);
      team.barrier();
    });
  }
  CHECK(wrong == 0);
}

TEST_CASE("two threads of one core count as one, and a processor that says nothing as one") {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / ("vigil_cores_" + std::to_string(::getpid()));
  const auto put = [&](int processor, const char* siblings) {
    const fs::path folder = root / ("sys/devices/system/cpu/cpu" + std::to_string(processor)) / "topology";
    fs::create_directories(folder);
    std::ofstream(folder / "thread_siblings_list") << siblings << "\n";
  };
  put(0, "0,4");
  put(4, "0,4");
  put(1, "1,5");
  CHECK(cpu::cores_of({0, 1, 4}, root.string()) == 2);
  CHECK(cpu::cores_of({0, 1, 7, 8}, root.string()) == 4);
  CHECK(cpu::usable_processors().size() >= 1);
  fs::remove_all(root);
}
