// Tokens that are chosen from the device's best scores: the same as from all of them, for one small copy a step.
#include <catch2/catch.hpp>

#include "engine/compute/cuda/backend.hpp"
#include "tests/engine/serving_support.hpp"

using namespace vigil;
using namespace vigil::testing;

namespace {

schedule::RuntimeOptions on_device() {
  schedule::RuntimeOptions options;
  options.backend.backend = "cuda";
  options.backend.make = [] { return compute::cuda::CudaBackend::make(); };
  options.step_rows = 16;
  options.context = 128;
  options.slots = 2;
  options.speculate = 3;
  return options;
}

}  // namespace

TEST_CASE("tokens from the device's best scores are those of all scores, and cost one small copy a step") {
  TinyLlama tiny;
  tiny.vocabulary = 1500;
  Serving serving(tiny, on_device());
  const auto prompt = random_ids(9, 1500, 1);
  const auto bytes_of = [&](const sample::Settings& settings, std::vector<int32_t>& ids, int64_t& steps) {
    const size_t before = cuda_on_cpu::bytes_to_host();
    const int64_t steps_before = serving.steps;
    ids = serving.run(prompt, 12, settings).ids;
    steps = serving.steps - steps_before;
    REQUIRE(ids.size() == 12);
    return cuda_on_cpu::bytes_to_host() - before;
  };
  constexpr size_t pick_bytes = 8 * compute::most_picked, row_bytes = 1500 * sizeof(float);
  sample::Settings greedy, sampled;
  sampled.temperature = 1.5;
  sampled.top_k = 40;
  sampled.top_p = 0.9;
  sampled.seed = 5;
  for (const sample::Settings& settings : {greedy, sampled}) {
    sample::Settings by_all = settings;
    by_all.logprobs = 0;  // which needs all scores
    std::vector<int32_t> ids, expected;
    int64_t steps = 0;
    CHECK(bytes_of(by_all, expected, steps) >= 12 * row_bytes);
    CHECK(bytes_of(settings, ids, steps) <= static_cast<size_t>(steps) * 4 * pick_bytes);  // a row, and at most three guesses
    CHECK(ids == expected);
  }
  sampled.top_k = 65;  // more than are picked
  std::vector<int32_t> ids;
  int64_t steps = 0;
  CHECK(bytes_of(sampled, ids, steps) >= 12 * row_bytes);
}
