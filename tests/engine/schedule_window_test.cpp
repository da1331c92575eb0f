// Models some of whose layers have a window, over texts of many windows: what is let go is never missed. The measure is a step that has a whole text in
// it: nothing can have been let go before it.
#include <catch2/catch.hpp>

#include "serving_support.hpp"

using namespace vigil;
using namespace vigil::testing;
using tools::RandomModel;

namespace {

constexpr int64_t vocabulary = 97;

struct Case {
  std::string architecture;
  int64_t layers, window;
};

// Mixed layers of both architectures, and a model all of whose layers have a window.
const std::vector<Case> cases{{"gemma3", 7, 16}, {"gemma3", 7, 100}, {"gemma3", 2, 16}, {"gpt-oss", 3, 16}, {"gpt-oss", 2, 70}};

RandomModel model_of(const Case& one, int64_t context = 2048) {
  RandomModel model;
  model.architecture = one.architecture;
  model.layers = one.layers;
  model.window = one.window;
  model.context = context;
  return model;
}

std::string name_of(const Case& one) { return one.architecture + " of " + std::to_string(one.layers) + " layers, window " + std::to_string(one.window); }

schedule::RuntimeOptions with(int64_t slots, int64_t step_rows, int64_t cache_mib = 0) {
  schedule::RuntimeOptions options;
  options.slots = slots;
  options.step_rows = step_rows;
  options.cache_mib = cache_mib;
  return options;
}

std::vector<float> scores_after(schedule::Runtime& runtime, std::span<const int32_t> ids, int64_t chunk) {
  cache::Sequence sequence(runtime.pool());
  while (sequence.length() < static_cast<int64_t>(ids.size())) {
    const int64_t count = std::min(chunk, static_cast<int64_t>(ids.size()) - sequence.length());
    REQUIRE(sequence.reserve(count));
    REQUIRE(runtime.step(sequence, ids.subspan(static_cast<size_t>(sequence.length()), static_cast<size_t>(count)), 1) == compute::RunOutcome::finished);
  }
  std::vector<float> scores(static_cast<size_t>(runtime.model().vocabulary()));
  runtime.read_scores(0, scores);
  return scores;
}

// Each alone and cold, every prompt in one step.
std::vector<std::vector<int32_t>> measure(const RandomModel& model, const std::vector<std::vector<int32_t>>& prompts, int64_t max_new, const sample::Settings& settings = {}) {
  Serving alone(load_random(model, with(1, 2048, -1)));
  std::vector<std::vector<int32_t>> answers;
  for (const auto& prompt : prompts) answers.push_back(alone.run(prompt, max_new, settings).ids);
  return answers;
}

std::vector<std::vector<int32_t>> long_prompts() {
  const std::vector<int32_t> system = random_ids(600, vocabulary, 50);
  return {random_ids(5, vocabulary, 1),      joined(system, random_ids(30, vocabulary, 2)),  random_ids(900, vocabulary, 3),
          joined(system, random_ids(300, vocabulary, 4)), random_ids(64, vocabulary, 5), joined(system, random_ids(3, vocabulary, 6))};
}

int64_t read_tokens(const Outcome& outcome) { return outcome.chunks.empty() ? 0 : outcome.chunks.back().total - outcome.resumed; }

}  // namespace

TEST_CASE("a text many windows long has the same bits whatever its chunks, in the memory of some windows") {
  for (const Case& one : cases) {
    const RandomModel model = model_of(one);
    const std::vector<int32_t> ids = random_ids(1300, vocabulary, 3);
    for (const char* backend : {"cpu", "reference"}) {
      schedule::RuntimeOptions whole = with(1, 1300, -1), cut = with(1, 130, -1);
      whole.backend.backend = cut.backend.backend = backend;
      cut.backend.threads = 2;
      const LoadedModel at_once = load_random(model, whole), in_parts = load_random(model, cut);
      INFO(name_of(one) << ", " << in_parts.runtime->backend().name());
      CHECK(at_once.runtime->plan().window_blocks >= 21);
      CHECK(in_parts.runtime->plan().window_blocks == cache::window_blocks_per_sequence(one.window, 130));
      CHECK(in_parts.runtime->plan().window_blocks < 12);
      CHECK(in_parts.runtime->kv().shape.layers + in_parts.runtime->window_kv().shape.layers == one.layers);
      const std::vector<float> expected = scores_after(*at_once.runtime, ids, 1300);
      for (const int64_t chunk : {7, 64, 130}) CHECK(scores_after(*in_parts.runtime, ids, chunk) == expected);
      CHECK(scores_after(*in_parts.runtime, std::span(ids).first(1299), 64) != expected);
    }
  }
}

TEST_CASE("answers to long prompts do not depend on slots, neighbours, chunks and what was kept of windows") {
  for (const Case& one : cases) {
    INFO(name_of(one));
    const RandomModel model = model_of(one);
    const auto prompts = long_prompts();
    const auto expected = measure(model, prompts, 20);
    const auto check = [&](Serving& serving, int64_t apart) {
      std::vector<protocol::RequestTag> tags;
      for (const auto& prompt : prompts) {
        tags.push_back(serving.push(prompt, 20));
        for (int64_t i = 0; i < apart; ++i) serving.step();
      }
      serving.finish();
      for (size_t i = 0; i < tags.size(); ++i) CHECK(serving.said[tags[i]].ids == expected[i]);
    };
    Serving four(load_random(model, with(4, 137)));
    check(four, 0);
    check(four, 3);  // from what is kept
    schedule::RuntimeOptions tight = with(3, 64);
    tight.backend.threads = 2;
    Serving three(load_random(model, tight));
    check(three, 1);
    Serving nothing_kept(load_random(model, with(4, 100, -1)));
    check(nothing_kept, 2);
    for (const auto& [tag, outcome] : nothing_kept.said) CHECK(outcome.resumed == 0);
  }
}

TEST_CASE("what two prompts that come together share is computed once, windows or not") {
  const std::vector<int32_t> system = random_ids(700, vocabulary, 9);
  const auto a = joined(system, random_ids(400, vocabulary, 1)), b = joined(system, random_ids(12, vocabulary, 2));
  for (const Case& one : cases) {
    INFO(name_of(one));
    const auto expected = measure(model_of(one), {a, b}, 8);
    Serving two(load_random(model_of(one), with(2, 500)));  // its second chunk ends far behind the place where they part
    const auto first = two.push(a, 8), second = two.push(b, 8);
    two.finish();
    CHECK(two.said[first].resumed == 0);
    CHECK(two.said[second].resumed == 700);
    CHECK(two.said[first].ids == expected[0]);
    CHECK(two.said[second].ids == expected[1]);
  }
}

TEST_CASE("who waits for one that itself waits goes on exactly where they part, though that one begins anew") {
  const std::vector<int32_t> system = random_ids(700, vocabulary, 9), more = joined(system, random_ids(450, vocabulary, 10));
  const auto a = joined(system, random_ids(400, vocabulary, 1)), b = joined(more, random_ids(700, vocabulary, 2)), c = joined(more, random_ids(12, vocabulary, 3));
  for (const Case& one : cases) {
    INFO(name_of(one));
    const auto expected = measure(model_of(one), {c}, 8);
    Serving three(load_random(model_of(one), with(3, 500)));
    three.push(a, 8);
    const auto second = three.push(b, 8), third = three.push(c, 8);
    three.finish();
    CHECK(three.said[second].resumed == 700);
    CHECK(three.said[third].resumed == 1150);
    CHECK(three.said[third].ids == expected[0]);
  }
}

TEST_CASE("a long chat on a model with windows reads only what is new, also when an answer is shown otherwise than it was said") {
  for (const Case& one : cases) {
    for (const bool edited : {false, true}) {
      INFO(name_of(one) << (edited ? ", edited" : ""));
      const RandomModel model = model_of(one, 4096);
      Serving serving(load_random(model));
      std::vector<std::vector<int32_t>> chats{random_ids(1500, vocabulary, 31), random_ids(900, vocabulary, 32)};
      for (uint64_t turn = 0; turn < 5; ++turn) {
        for (uint64_t i = 0; i < chats.size(); ++i) {
          std::vector<int32_t>& chat = chats[i];
          const Outcome outcome = serving.run(chat, 12);
          if (turn > 0) CHECK(read_tokens(outcome) <= (edited ? 8 : 1) + 40);
          REQUIRE(outcome.ids.size() == 12);
          if (turn == 4) CHECK(outcome.ids == measure(model, {chat}, 12)[0]);
          chat = joined(joined(chat, {outcome.ids.begin() + (edited ? 4 : 0), outcome.ids.end()}), random_ids(40, vocabulary, 300 + 10 * turn + i));
        }
      }
    }
  }
}

TEST_CASE("where memory holds fewer windows than slots, a conversation waits and nobody's answer changes") {
  for (const Case& one : cases) {
    INFO(name_of(one));
    const RandomModel model = model_of(one);
    std::vector<std::vector<int32_t>> prompts;
    for (uint64_t i = 0; i < 4; ++i) prompts.push_back(random_ids(500, vocabulary, 60 + i));
    const auto expected = measure(model, prompts, 150);
    schedule::RuntimeOptions options = with(4, 64);
    options.context = 1024;
    const LoadedModel measured = load_random(model, options);
    const schedule::Runtime& runtime = *measured.runtime;
    const int64_t each = cache::window_blocks_per_sequence(one.window, 64);
    const uint64_t kv = 16 * runtime.kv().shape.block_bytes() + static_cast<uint64_t>(2 * each) * runtime.window_kv().shape.block_bytes();
    options.available_bytes = (runtime.model().weight_bytes() + runtime.model().scratch_bytes() + kv) * 5 / 4 + 500;
    Serving four(load_random(model, options));
    CHECK(four.model.runtime->plan().window_blocks == 2 * each);
    for (const auto& prompt : prompts) four.push(prompt, 150);
    four.finish();
    for (uint64_t i = 0; i < 4; ++i) CHECK(four.said[i + 1].ids == expected[i]);
    CHECK(four.steps > 200);
  }
}

TEST_CASE("guessing ahead over many windows changes no token, with a draft model that has windows too") {
  for (const Case& one : cases) {
    INFO(name_of(one));
    const RandomModel model = model_of(one);
    std::vector<int32_t> repeating;
    for (int i = 0; i < 60; ++i) repeating = joined(repeating, random_ids(9, vocabulary, 77));
    const std::vector<std::vector<int32_t>> prompts{repeating, random_ids(450, vocabulary, 8)};
    const auto expected = measure(model, prompts, 200);
    schedule::RuntimeOptions options = with(2, 90);
    options.speculate = 9;
    options.draft_sureness = 0;
    const auto check = [&](Serving& serving) {
      for (int round = 0; round < 2; ++round) {
        const auto first = serving.push(prompts[0], 200), second = serving.push(prompts[1], 200);
        serving.finish();
        CHECK(serving.said[first].ids == expected[0]);
        CHECK(serving.said[second].ids == expected[1]);
      }
    };
    Serving looking_up(load_random(model, options));
    check(looking_up);
    CHECK(looking_up.scheduler.tally().looked_up > looking_up.scheduler.tally().looked_up_right);
    RandomModel other = model;
    other.seed = 5;
    for (const RandomModel& draft : {model, other}) {
      Serving drafting(load_random_pair(model, draft, options));
      check(drafting);
      CHECK(drafting.scheduler.tally().drafted > 20);
      CHECK((drafting.scheduler.tally().drafted_right * 2 > drafting.scheduler.tally().drafted) == (draft.seed == model.seed));
    }
  }
}

TEST_CASE("a model without windows has one pool and one table") {
  const LoadedModel loaded = load_random({});
  CHECK(loaded.runtime->plan().window_blocks == 0);
  CHECK(loaded.runtime->window_kv().shape.layers == 0);
  CHECK(loaded.runtime->pool().window_blocks.size() == 0);
  CHECK(loaded.runtime->pool().window.positions == 0);
}
