// What every backend does alike: same bits for every batch and thread count, and an abort that ends a run without harm.
#include <catch2/catch.hpp>

#include <cstring>
#include <vector>

#include "backends_support.hpp"
#include "engine/compute/backend.hpp"
#include "engine/gguf/writer.hpp"
#include "engine/sample/random.hpp"

using namespace vigil;
using namespace vigil::compute;
using vigil::testing::backends_under_test;

namespace {

std::vector<float> random_floats(int64_t count, uint64_t seed) {
  sample::Random random(seed);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(random.uniform() * 2 - 1);
  return values;
}

void prepare(Backend& backend) {
  REQUIRE(backend.prepare([](double) { return true; }, [](std::span<const std::byte>) {}));
}

std::vector<float> read(Backend& backend, Buffer from) {
  std::vector<float> values(static_cast<size_t>(from.floats));
  backend.read(from, 0, values);
  return values;
}

}  // namespace

TEST_CASE("matmul gives each row the same bits in any batch and with any thread count") {
  const int64_t weight_rows = 37, cols = 96, rows = 6;
  const std::vector<float> values = random_floats(weight_rows * cols, 1), x = random_floats(rows * cols, 2);
  const std::vector<std::byte> q8 = gguf::q8_0_bytes(values);
  for (const auto& under_test : backends_under_test()) {
    std::vector<float> first;
    for (const int threads : {1, 2, 3}) {
      INFO(under_test.name << " with " << threads << " threads");
      const auto backend = under_test.make(threads);
      const Weight weight = *backend->bind("w", gguf::TensorType::q8_0, weight_rows, cols, q8, WeightUse::product);
      const Buffer in = *backend->allocate(rows * cols), out = *backend->allocate(rows * weight_rows), one = *backend->allocate(weight_rows);
      prepare(*backend);
      backend->write(in, 0, x);
      REQUIRE(backend->run([&](Ops& ops) { ops.matmul(weight, in, out, rows); }) == RunOutcome::finished);
      const std::vector<float> whole = read(*backend, out);
      if (first.empty()) first = whole;
      CHECK(whole == first);
      for (int64_t r = 0; r < rows; ++r) {
        backend->write(in, 0, std::span(x).subspan(static_cast<size_t>(r * cols), static_cast<size_t>(cols)));
        REQUIRE(backend->run([&](Ops& ops) { ops.matmul(weight, in, one, 1); }) == RunOutcome::finished);
        const std::vector<float> single = read(*backend, one);
        CHECK(std::equal(single.begin(), single.end(), first.begin() + r * weight_rows));
      }
      if (!under_test.has_threads) break;
    }
  }
}

TEST_CASE("products of one input after the other see what was written in between") {
  const int64_t cols = 64;
  const std::vector<float> values = random_floats(cols * cols, 1), x = random_floats(cols, 2);
  const std::vector<std::byte> q8 = gguf::q8_0_bytes(values), f32 = gguf::f32_bytes(values);
  for (const auto& under_test : backends_under_test()) {
    INFO(under_test.name);
    const auto backend = under_test.make(1);
    const Weight rounded = *backend->bind("a", gguf::TensorType::q8_0, cols, cols, q8, WeightUse::product);
    const Weight plain = *backend->bind("b", gguf::TensorType::f32, cols, cols, f32, WeightUse::product);
    const Buffer in = *backend->allocate(cols), other = *backend->allocate(cols);
    const Buffer a = *backend->allocate(cols), b = *backend->allocate(cols), c = *backend->allocate(cols), d = *backend->allocate(cols);
    prepare(*backend);
    const auto alone = [&](const Weight& weight, const std::vector<float>& input) {
      backend->write(other, 0, input);
      backend->run([&](Ops& ops) { ops.matmul(weight, other, d, 1); });
      return read(*backend, d);
    };
    backend->write(in, 0, x);
    backend->run([&](Ops& ops) {
      ops.matmul(rounded, in, a, 1);
      ops.matmul(plain, in, b, 1);    // the same input in another form
      ops.matmul(rounded, in, c, 1);
      ops.matmul(rounded, c, in, 1);  // over the input
      ops.matmul(rounded, in, d, 1);
    });
    const std::vector<float> last = read(*backend, d), middle = read(*backend, c);
    CHECK(read(*backend, a) == middle);
    CHECK(alone(rounded, x) == middle);
    CHECK(alone(plain, x) == read(*backend, b));
    CHECK(alone(rounded, alone(rounded, middle)) == last);
    backend->write(in, 0, x);
    backend->run([&](Ops& ops) {
      ops.matmul(rounded, in, a, 1);
      ops.scale(in, 2, cols, 1);
      ops.matmul(rounded, in, b, 1);
    });
    std::vector<float> doubled = x;
    for (float& value : doubled) value *= 2;
    const std::vector<float> second = read(*backend, b);
    CHECK(alone(rounded, doubled) == second);
  }
}

TEST_CASE("an abort that comes before or during a run ends it, on every thread") {
  for (const auto& under_test : backends_under_test()) {
    for (const int threads : {1, 3}) {
      INFO(under_test.name << " with " << threads << " threads");
      const auto backend = under_test.make(threads);
      const Buffer a = *backend->allocate(64), b = *backend->allocate(64);
      prepare(*backend);
      const std::vector<float> ones(64, 1.0f);
      backend->write(a, 0, ones);
      backend->write(b, 0, ones);
      backend->control().abort = true;
      CHECK(backend->run([&](Ops& ops) { ops.add(a, b, 64, 1); }) == RunOutcome::aborted);
      CHECK(read(*backend, a) == ones);

      backend->control().abort = false;
      CHECK(backend->run([&](Ops& ops) {
        ops.add(a, b, 64, 1);
        backend->control().abort = true;  // as another thread would
        ops.add(a, b, 64, 1);
        ops.add(a, b, 64, 1);
      }) == RunOutcome::aborted);
      CHECK(read(*backend, a)[0] <= 3.0f);

      backend->control().abort = false;
      backend->write(a, 0, ones);
      CHECK(backend->run([&](Ops& ops) { ops.add(a, b, 64, 1); }) == RunOutcome::finished);
      CHECK(read(*backend, a)[63] == 2.0f);
    }
  }
}

TEST_CASE("every op counts as a step, once for the whole team") {
  for (const auto& under_test : backends_under_test()) {
    INFO(under_test.name);
    const auto backend = under_test.make(2);
    const Buffer a = *backend->allocate(8), b = *backend->allocate(8);
    prepare(*backend);
    backend->write(a, 0, std::vector<float>(8));
    backend->write(b, 0, std::vector<float>(8));
    const uint64_t before = backend->control().steps;
    for (const uint64_t ops_of_a_run : {uint64_t{5}, uint64_t{300}}) {
      backend->run([&](Ops& ops) {
        for (uint64_t i = 0; i < ops_of_a_run; ++i) ops.add(a, b, 8, 1);
      });
      CHECK(backend->control().steps == before + (ops_of_a_run == 5 ? 5 : 305));
    }
  }
}

TEST_CASE("what a backend cannot compute is refused by name") {
  for (const auto& under_test : backends_under_test()) {
    INFO(under_test.name);
    const auto backend = under_test.make(1);
    const std::vector<std::byte> data(1024);
    const auto q8 = backend->bind("blk.0.attn_q.weight", gguf::TensorType::q8_k, 1, 256, data, WeightUse::product);
    REQUIRE_FALSE(q8);
    CHECK(q8.error().find("blk.0.attn_q.weight") != std::string::npos);
    CHECK(q8.error().find("Q8_K") != std::string::npos);
    CHECK(backend->bind("w", gguf::TensorType::q4_k, 1, 256, data, WeightUse::product));
    CHECK_FALSE(backend->bind("w", gguf::TensorType::q8_0, 1, 33, data, WeightUse::product));
    CHECK_FALSE(backend->bind("w", gguf::TensorType::f32, 5, 64, data, WeightUse::product));  // 1,280 bytes of 1,024
  }
}

TEST_CASE("backends are chosen by name, and what is not there is refused with what to do") {
  const auto refusal = [](const BackendOptions& options) {
    const auto backend = make_backend(options);
    return backend ? std::string() : backend.error();
  };
  CHECK(refusal({"cuda", 1}).find("libvigil-cuda.so is not in any folder") != std::string::npos);
  CHECK(refusal({"cuda", 1}).find("--backend auto or cpu") != std::string::npos);
  CHECK(refusal({"gpu", 1}).find("use auto, cpu, cuda or reference") != std::string::npos);
  CHECK(refusal({"cpu", -1}).find("--threads -1") != std::string::npos);
}
