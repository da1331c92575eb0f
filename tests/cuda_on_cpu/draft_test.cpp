// Two models on one device: a draft model guesses beside the model, with the same words of a step, stream and scratch, and changes no token.
#include <catch2/catch.hpp>

#include "engine/compute/cuda/backend.hpp"
#include "tests/engine/serving_support.hpp"

using namespace vigil;
using namespace vigil::testing;

namespace {

schedule::RuntimeOptions on_device(int64_t guesses) {
  schedule::RuntimeOptions options;
  options.backend.backend = "cuda";
  options.backend.make = [] { return compute::cuda::CudaBackend::make(); };
  options.step_rows = 16;
  options.context = 128;
  options.slots = 2;
  options.speculate = guesses;
  options.draft_sureness = 0;
  return options;
}

LoadedModel pair(TinyLlama tiny, TinyLlama draft) {
  LoadedModel loaded{tiny.bytes(), nullptr, draft.bytes()};
  auto runtime = try_load_pair(loaded.bytes, loaded.draft_bytes, on_device(4));
  if (!runtime) FAIL(runtime.error());
  loaded.runtime = std::move(*runtime);
  return loaded;
}

}  // namespace

TEST_CASE("a draft model on the model's device changes no token, and one that is the model itself guesses right") {
  const auto prompt = random_ids(6, 97, 1), beside = random_ids(9, 97, 2);
  Serving plain(TinyLlama{}, on_device(0));
  const auto expected = plain.run(prompt, 20).ids, expected_beside = plain.run(beside, 12).ids;
  TinyLlama smaller;
  smaller.layers = 1;
  smaller.width = 32;
  smaller.seed = 5;
  for (const bool itself : {true, false}) {
    Serving serving(pair(TinyLlama{}, itself ? TinyLlama{} : smaller));
    const auto other = serving.push(beside, 12);
    CHECK(serving.run(prompt, 20).ids == expected);
    CHECK(serving.said[other].ids == expected_beside);
    const schedule::GuessTally& tally = serving.scheduler.tally();
    CHECK(tally.drafted > 5);
    if (itself) {
      CHECK(tally.drafted_right == tally.drafted);
      CHECK(tally.steps < tally.tokens);
    }
  }
}
