// A request's life in the scheduler, alone: chunking, caching and cancelling must not change an answer, and each ends exactly once.
#include <catch2/catch.hpp>
#include <cmath>

#include "serving_support.hpp"

using namespace vigil;
using namespace vigil::testing;

namespace {

using Bench = Serving;
using protocol::RequestTag;

bool starts_with(const std::string& text, const std::string& start) { return text.compare(0, start.size(), start) == 0; }

}  // namespace

TEST_CASE("prefill in small chunks gives the tokens of prefill in one") {
  schedule::RuntimeOptions small;
  small.step_rows = 7;
  Bench chunked(TinyLlama{}, small), whole(TinyLlama{});
  const auto prompt = random_ids(150, 97, 4);
  const Outcome a = chunked.run(prompt, 40), b = whole.run(prompt, 40);
  CHECK(a.ids.size() == 40);
  CHECK(a.ids == b.ids);
  CHECK(a.chunks.size() == 22);
  CHECK(b.chunks.size() == 3);  // 8, 32, 110 of 128: sized by time, growing fourfold
  CHECK(a.chunks.back().read == 150);
  CHECK(a.chunks.back().total == 150);
  CHECK(a.done->finish == "length");
  CHECK(a.done->generated == 40);
  CHECK(a.done->prompt == 150);
}

TEST_CASE("a cached prefix is resumed and changes nothing") {
  Bench cold(TinyLlama{}), warm(TinyLlama{});
  const auto prompt = random_ids(130, 97, 5);
  const Outcome reference = cold.run(prompt, 30);
  const Outcome first = warm.run(prompt, 30);
  CHECK(first.resumed == 0);
  const Outcome again = warm.run(prompt, 30);
  CHECK(again.resumed == 129);
  CHECK(again.chunks.size() == 1);
  warm.run(random_ids(100, 97, 6), 10);  // an unrelated one
  const Outcome after_other = warm.run(prompt, 30);
  CHECK(after_other.resumed == 129);  // the other one took nothing away
  auto continued = prompt;  // the conversation goes on
  continued.insert(continued.end(), after_other.ids.begin(), after_other.ids.end());
  continued.push_back(3);
  const Outcome longer = warm.run(continued, 20);
  CHECK(longer.resumed == 130 + 29);  // the last generated token was never computed
  Bench fresh(TinyLlama{});
  CHECK(longer.ids == fresh.run(continued, 20).ids);
  for (const Outcome* outcome : {&first, &again, &after_other}) CHECK(outcome->ids == reference.ids);
}

TEST_CASE("a prompt cancelled while it is read keeps what was read, and the next answer is the cold one") {
  schedule::RuntimeOptions options;
  options.step_rows = 20;
  Bench bench(TinyLlama{}, options), cold(TinyLlama{});
  const auto prompt = random_ids(200, 97, 8);
  int chunks = 0;
  const Outcome cancelled = bench.run(prompt, 10, {}, [&](RequestTag tag, const protocol::EngineEvent& event) {
    if (std::holds_alternative<protocol::PromptProgress>(event) && ++chunks == 3) bench.stop(tag);
  });
  CHECK(cancelled.done->finish == "cancel");
  CHECK(cancelled.done->generated == 0);
  CHECK(cancelled.done->prompt == 48);  // 8 + 20 + 20
  CHECK(cancelled.ids.empty());
  const Outcome next = bench.run(prompt, 10);
  CHECK(next.resumed == 48);
  CHECK(next.ids == cold.run(prompt, 10).ids);
}

TEST_CASE("a cancel between tokens ends with what was said") {
  Bench bench(TinyLlama{});
  const Outcome cancelled = bench.run(random_ids(20, 97, 1), 400, {}, [&](RequestTag tag, const protocol::EngineEvent& event) {
    if (std::holds_alternative<protocol::Token>(event)) bench.stop(tag);
  });
  CHECK(cancelled.done->finish == "cancel");
  CHECK(cancelled.done->generated == 1);
  CHECK(cancelled.ids.size() == 1);
}

TEST_CASE("the context's end and max_new end an answer") {
  TinyLlama tiny;
  tiny.context = 256;
  Bench bench(tiny);
  CHECK(bench.model.runtime->context() == 256);
  const Outcome full = bench.run(random_ids(250, 97, 2), 100);
  CHECK(full.ids.size() == 6);
  CHECK(full.done->finish == "length");
  CHECK(bench.run(random_ids(255, 97, 3), 100).ids.size() == 1);
  const Outcome too_long = bench.run(random_ids(256, 97, 3), 100);
  CHECK(starts_with(too_long.error, "the prompt of 256 tokens leaves no room in the context of 256"));
  const Outcome none = bench.run(random_ids(9, 97, 9), 0);
  CHECK(none.done->finish == "length");
  CHECK(none.done->generated == 0);
  CHECK(bench.run(random_ids(250, 97, 2), 100).ids == full.ids);
}

TEST_CASE("bad ids end the request alone") {
  Bench bench(TinyLlama{});
  CHECK(starts_with(bench.run({}, 5).error, "the prompt has no ids"));
  CHECK(starts_with(bench.run({1, -1}, 5).error, "prompt id -1 at place 1"));
  CHECK(starts_with(bench.run({97}, 5).error, "prompt id 97 at place 0"));
  CHECK(bench.run({1, 2, 3}, 5).ids.size() == 5);
}

TEST_CASE("an end token stops the answer and is not said") {
  TinyLlama tiny;
  Bench free_running(tiny);
  const auto prompt = random_ids(12, 97, 11);
  const Outcome all = free_running.run(prompt, 30);
  tiny.end_id = all.ids[4];
  const size_t first = static_cast<size_t>(std::find(all.ids.begin(), all.ids.end(), tiny.end_id) - all.ids.begin());
  Bench ending(tiny);
  const Outcome stopped = ending.run(prompt, 30);
  CHECK(stopped.done->finish == "stop");
  CHECK(stopped.ids == std::vector<int32_t>(all.ids.begin(), all.ids.begin() + static_cast<std::ptrdiff_t>(first)));
  CHECK(stopped.done->generated == static_cast<int64_t>(first));
}

TEST_CASE("a model that computes NaN fails its requests and nothing else") {
  TinyLlama tiny;
  tiny.spoil = "output_norm.weight";
  Bench bench(tiny);
  CHECK(starts_with(bench.run({1, 2, 3}, 5).error, "no usable score"));
  CHECK(starts_with(bench.run({1, 2, 3}, 5).error, "no usable score"));
}

TEST_CASE("a seed decides a sampled answer, cached or not") {
  Bench bench(TinyLlama{});
  const auto prompt = random_ids(40, 97, 13);
  sample::Settings settings;
  settings.temperature = 1;
  settings.seed = 7;
  const Outcome first = bench.run(prompt, 30, settings);
  CHECK(bench.run(prompt, 30, settings).ids == first.ids);
  bench.run(random_ids(40, 97, 14), 5);
  CHECK(bench.run(prompt, 30, settings).ids == first.ids);
  settings.seed = 8;
  CHECK(bench.run(prompt, 30, settings).ids != first.ids);
}

TEST_CASE("log probabilities come with their tokens when asked for") {
  Bench bench(TinyLlama{});
  sample::Settings settings;
  settings.logprobs = 3;
  const Outcome outcome = bench.run(random_ids(10, 97, 15), 4, settings);
  for (const protocol::Token& token : outcome.tokens) {
    REQUIRE(token.top.size() == 3);
    CHECK(token.top[0].id == token.id);  // greedy
    CHECK(*token.logprob == token.top[0].logprob);
    CHECK(token.top[0].logprob >= token.top[1].logprob);
    CHECK(*token.logprob < 0);
  }
  CHECK_FALSE(bench.run({1}, 1).tokens[0].logprob);
}

TEST_CASE("threads do not change an answer") {
  const auto prompt = random_ids(100, 97, 16);
  std::vector<int32_t> ids;
  for (const int threads : {1, 2, 5}) {
    schedule::RuntimeOptions options;
    options.backend.threads = threads;
    Bench bench(TinyLlama{}, options);
    const Outcome outcome = bench.run(prompt, 12);
    if (ids.empty()) ids = outcome.ids;
    CHECK(outcome.ids == ids);
  }
}
