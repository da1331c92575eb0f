// Many requests in one step: neighbours, the number of slots, the cuts of a prompt, guesses and caches change nobody's tokens, and nobody starves.
#include <catch2/catch.hpp>

#include "engine/compute/cpu/reference_backend.hpp"
#include "serving_support.hpp"

using namespace vigil;
using namespace vigil::testing;
using tools::RandomModel;

namespace {

constexpr int64_t vocabulary = 97;

RandomModel small(const std::string& architecture, int64_t context = 512) {
  RandomModel model;
  model.architecture = architecture;
  model.context = context;
  return model;
}

schedule::RuntimeOptions with_slots(int64_t slots, int64_t step_rows = 512) {
  schedule::RuntimeOptions options;
  options.slots = slots;
  options.step_rows = step_rows;
  return options;
}

std::vector<std::vector<int32_t>> prompts() {
  const std::vector<int32_t> system = random_ids(140, vocabulary, 50);
  return {random_ids(5, vocabulary, 1), joined(system, random_ids(30, vocabulary, 2)), random_ids(300, vocabulary, 3), joined(system, random_ids(3, vocabulary, 4)),
          random_ids(64, vocabulary, 5), joined(system, random_ids(150, vocabulary, 6)), random_ids(1, vocabulary, 7)};
}

std::vector<std::vector<int32_t>> answers_alone(const RandomModel& model, int64_t max_new, const sample::Settings& settings = {}) {
  schedule::RuntimeOptions options;
  options.cache_mib = -1;
  Serving alone(load_random(model, options));
  std::vector<std::vector<int32_t>> answers;
  for (const auto& prompt : prompts()) {
    const Outcome outcome = alone.run(prompt, max_new, settings);
    CHECK(outcome.resumed == 0);
    answers.push_back(outcome.ids);
  }
  return answers;
}

// All prompts, one pushed every `apart` steps (0 = all at once).
void check_together(Serving& serving, const std::vector<std::vector<int32_t>>& expected, int64_t max_new, int64_t apart, const sample::Settings& settings = {}) {
  std::vector<protocol::RequestTag> tags;
  for (const auto& prompt : prompts()) {
    tags.push_back(serving.push(prompt, max_new, settings));
    for (int64_t i = 0; i < apart; ++i) serving.step();
  }
  serving.finish();
  for (size_t i = 0; i < tags.size(); ++i) {
    INFO("prompt " << i);
    CHECK(serving.said[tags[i]].ids == expected[i]);
  }
}

std::vector<std::string> all_architectures() { return tools::random_architectures(); }

int64_t read_tokens(const Outcome& outcome) { return outcome.chunks.empty() ? 0 : outcome.chunks.back().total - outcome.resumed; }

}  // namespace

TEST_CASE("greedy tokens do not depend on slots, neighbours, chunks and caches, in every architecture") {
  for (const std::string& name : all_architectures()) {
    INFO(name);
    const RandomModel model = small(name);
    const auto expected = answers_alone(model, 20);
    Serving four(load_random(model, with_slots(4, 37)));
    check_together(four, expected, 20, 0);
    check_together(four, expected, 20, 3);  // all of it is cached by now
    Serving three(load_random(model, with_slots(3)), 2);  // 1 ms a step: prompts are cut small
    check_together(three, expected, 20, 1);
    schedule::RuntimeOptions off = with_slots(7, 64);
    off.cache_mib = -1;
    off.backend.threads = 2;
    Serving without_cache(load_random(model, off));
    check_together(without_cache, expected, 20, 2);
    for (const auto& [tag, outcome] : without_cache.said) CHECK(outcome.resumed == 0);
  }
}

TEST_CASE("a seed gives its tokens whatever runs beside it") {
  sample::Settings settings;
  settings.temperature = 1;
  settings.seed = 7;
  const RandomModel model = small("llama");
  const auto expected = answers_alone(model, 20, settings);
  Serving four(load_random(model, with_slots(4, 37)));
  check_together(four, expected, 20, 2, settings);
  check_together(four, expected, 20, 0, settings);
}

TEST_CASE("a stop of one request disturbs no other") {
  const RandomModel model = small("llama");
  const auto expected = answers_alone(model, 20);
  for (const bool reading : {true, false}) {
    Serving four(load_random(model, with_slots(4, 20)));
    const auto all = prompts();
    const auto first = four.push(all[1], 20), stopped = four.push(all[2], 20), third = four.push(all[4], 20), fourth = four.push(all[6], 20);
    four.watch = [&](protocol::RequestTag tag, const protocol::EngineEvent& event) {
      const auto* chunk = std::get_if<protocol::PromptProgress>(&event);
      if (tag == stopped && reading && chunk && chunk->read > 30) four.stop(stopped);
      if (tag == stopped && !reading && std::holds_alternative<protocol::Token>(event) && four.said[stopped].ids.size() == 7) four.stop(stopped);
    };
    four.finish();
    CHECK(four.said[stopped].done->finish == "cancel");
    CHECK(four.said[stopped].ids.size() == (reading ? 0 : 8));
    CHECK(four.said[first].ids == expected[1]);
    CHECK(four.said[third].ids == expected[4]);
    CHECK(four.said[fourth].ids == expected[6]);
    CHECK(four.run(all[2], 20).ids == expected[2]);
  }
}

TEST_CASE("what is generated goes on at each step while a long prompt is read, and short prompts overtake it") {
  Serving four(load_random(small("llama", 1024), with_slots(4, 24)));
  const auto talker = four.push(random_ids(4, vocabulary, 1), 400);
  while (four.said[talker].ids.size() < 5) four.step();
  const auto longest = four.push(random_ids(900, vocabulary, 2), 5), brief = four.push(random_ids(20, vocabulary, 3), 5);
  size_t before = four.said[talker].ids.size();
  int64_t both = 0, shared = 0;
  while (four.said[longest].ids.empty()) {
    const size_t chunks = four.said[longest].chunks.size(), brief_chunks = four.said[brief].chunks.size();
    four.step();
    CHECK(four.said[talker].ids.size() == before + 1);
    before = four.said[talker].ids.size();
    both += four.said[longest].chunks.size() > chunks;
    shared += four.said[longest].chunks.size() > chunks && four.said[brief].chunks.size() > brief_chunks;
  }
  CHECK(both > 20);
  CHECK(shared > 0);  // two prompts in one step
  REQUIRE_FALSE(four.said[brief].ids.empty());
  CHECK(four.said[brief].first_step < four.said[longest].first_step / 2);
  four.finish();
}

TEST_CASE("more requests than slots wait their turn") {
  Serving two(load_random(small("qwen3"), with_slots(2)));
  const auto expected = answers_alone(small("qwen3"), 20);
  check_together(two, expected, 20, 0);
  std::vector<int64_t> starts;
  for (const auto& [tag, outcome] : two.said) starts.push_back(outcome.first_step);
  CHECK(std::is_sorted(starts.begin() + 3, starts.end()));
}

TEST_CASE("what two prompts that come together share is computed once") {
  for (const std::string& name : {std::string("llama"), std::string("qwen35")}) {
    INFO(name);
    const std::vector<int32_t> system = random_ids(300, vocabulary, 9);
    const auto a = joined(system, random_ids(10, vocabulary, 1)), b = joined(system, random_ids(12, vocabulary, 2));
    Serving one(load_random(small(name)));
    const auto alone = one.run(b, 8).ids;
    Serving two(load_random(small(name), with_slots(2, 50)));
    const auto first = two.push(a, 8), second = two.push(b, 8);
    two.finish();
    CHECK(two.said[first].resumed == 0);
    CHECK(two.said[second].resumed == (name == "llama" ? 300 : 256));
    CHECK(two.said[second].ids == alone);
    // The one that was read first leaves: the other goes on by itself.
    Serving again(load_random(small(name), with_slots(2, 50)));
    const auto leaver = again.push(a, 8), stayer = again.push(b, 8);
    again.watch = [&](protocol::RequestTag tag, const protocol::EngineEvent&) {
      if (tag == leaver) again.stop(leaver);
    };
    again.finish();
    CHECK(again.said[leaver].done->finish == "cancel");
    CHECK(again.said[stayer].ids == alone);
  }
}

TEST_CASE("three conversations in turn on one slot read only what is new, in every architecture") {
  for (const std::string& name : all_architectures()) {
    INFO(name);
    const bool recurrent = name.starts_with("qwen35") || name == "qwen3next";
    const RandomModel model = small(name, 1024);
    Serving one(load_random(model));
    schedule::RuntimeOptions cold_options;
    cold_options.cache_mib = -1;
    Serving cold(load_random(model, cold_options));
    std::vector<std::vector<int32_t>> talks;
    for (uint64_t i = 0; i < 3; ++i) talks.push_back(random_ids(200, vocabulary, 20 + i));
    for (uint64_t turn = 0; turn < 4; ++turn) {
      for (uint64_t i = 0; i < 3; ++i) {
        const Outcome outcome = one.run(talks[i], 10);
        if (turn > 0) CHECK(read_tokens(outcome) == 25 + 1);  // the new ones, and the last of the answer, which nobody had computed
        if (recurrent || turn == 3) CHECK(outcome.ids == cold.run(talks[i], 10).ids);
        talks[i] = joined(joined(talks[i], outcome.ids), random_ids(25, vocabulary, 100 * turn + i));
      }
    }
  }
}

TEST_CASE("a chat of 2,000 tokens that goes on ten times reads the new ones and at most a chunk, and answers as if it were cold") {
  for (const std::string& name : {std::string("llama"), std::string("qwen3next")}) {
    for (const bool edited : {false, true}) {  // templates often show an answer otherwise than it was generated: thinking is left out
      INFO(name << (edited ? ", edited" : ""));
      const RandomModel model = small(name, 4096);
      Serving one(load_random(model));
      std::vector<int32_t> chat = random_ids(2000, vocabulary, 31);
      one.run(chat, 12);
      for (uint64_t turn = 0; turn < 10; ++turn) {
        std::vector<int32_t> said = one.said.rbegin()->second.ids;
        REQUIRE(said.size() == 12);
        if (edited) said.erase(said.begin(), said.begin() + 4);
        const size_t before = chat.size();
        chat = joined(joined(chat, said), random_ids(40, vocabulary, 300 + turn));
        const Outcome outcome = one.run(chat, 12);
        CHECK(read_tokens(outcome) <= static_cast<int64_t>(chat.size() - before) + (edited ? cache::checkpoint_tokens : 1));
      }
      schedule::RuntimeOptions off;
      off.cache_mib = -1;
      Serving cold(load_random(model, off));
      CHECK(cold.run(chat, 12).ids == one.said.rbegin()->second.ids);
    }
  }
}

TEST_CASE("where memory holds fewer contexts than slots, a conversation waits and nobody's answer changes") {
  for (const std::string& name : {std::string("llama"), std::string("qwen35")}) {
    INFO(name);
    const RandomModel model = small(name);
    schedule::RuntimeOptions off;
    off.cache_mib = -1;
    Serving alone(load_random(model, off));
    std::vector<std::vector<int32_t>> expected;
    for (uint64_t i = 0; i < 4; ++i) expected.push_back(alone.run(random_ids(200, vocabulary, 60 + i), 150).ids);
    schedule::RuntimeOptions options = with_slots(4, 64);
    const LoadedModel measured = load_random(model, options);
    const schedule::Runtime& runtime = *measured.runtime;
    const uint64_t states = runtime.model().state_shape().slot_bytes() * 8;
    options.available_bytes = (runtime.model().weight_bytes() + runtime.model().scratch_bytes() + states + 11 * runtime.kv().shape.block_bytes()) * 5 / 4 + 200;
    Serving four(load_random(model, options));
    CHECK(four.model.runtime->plan().blocks == 11);  // each needs 6
    for (uint64_t i = 0; i < 4; ++i) four.push(random_ids(200, vocabulary, 60 + i), 150);
    std::vector<protocol::RequestTag> ended;
    four.watch = [&](protocol::RequestTag tag, const protocol::EngineEvent& event) {
      if (std::holds_alternative<protocol::Done>(event)) ended.push_back(tag);
    };
    four.finish();
    CHECK(ended == std::vector<protocol::RequestTag>{1, 2, 3, 4});  // the younger wait for the older
    for (uint64_t i = 0; i < 4; ++i) CHECK(four.said[i + 1].ids == expected[i]);
    CHECK(four.steps > 300);
  }
}

TEST_CASE("guessing ahead changes no token, greedy or sampled, in every architecture without recurrent state") {
  int64_t fewer = 0;
  for (const std::string& name : architectures(false)) {
    INFO(name);
    const RandomModel model = small(name);
    std::vector<int32_t> repeating;
    for (int i = 0; i < 8; ++i) repeating = joined(repeating, random_ids(9, vocabulary, 77));
    for (const double temperature : {0.0, 0.5}) {
      sample::Settings settings;
      settings.temperature = temperature;
      settings.seed = 3;
      settings.logprobs = 2;
      Serving plain(load_random(model));
      const Outcome expected = plain.run(repeating, 100, settings);
      for (const int64_t most : {1, 5, 16}) {
        schedule::RuntimeOptions options = with_slots(2);
        options.speculate = most;
        Serving guessing(load_random(model, options));
        const auto beside = guessing.push(random_ids(30, vocabulary, 8), 60);
        const Outcome outcome = guessing.run(repeating, 100, settings);
        CHECK(outcome.ids == expected.ids);
        CHECK(outcome.tokens == expected.tokens);  // log probabilities too
        CHECK(guessing.said[beside].ids == plain.run(random_ids(30, vocabulary, 8), 60).ids);
        if (temperature == 0 && guessing.steps < 100) ++fewer;
        CHECK(guessing.run(repeating, 100, settings).ids == expected.ids);  // from the cache: wrong guesses have left nothing there
      }
    }
  }
  CHECK(fewer > 0);  // guesses come true at all
  for (const std::string& name : architectures(true)) {
    schedule::RuntimeOptions options;
    options.speculate = 5;
    CHECK(load_random(small(name), options).runtime->speculate() == 0);
  }
}

TEST_CASE("a guess is what followed the longest ending that has been seen before") {
  using schedule::look_up;
  const std::vector<int32_t> text{1, 2, 3, 4, 5, 9, 2, 3, 4, 7, 8, 2, 3, 4};
  CHECK(look_up(text, 2) == std::vector<int32_t>{7, 8});  // the latest of equals
  const std::vector<int32_t> longer{1, 2, 3, 4, 5, 9, 2, 3, 4, 7, 1, 2, 3, 4};
  CHECK(look_up(longer, 2) == std::vector<int32_t>{5, 9});
  CHECK(look_up(longer, 0).empty());
  CHECK(look_up(std::vector<int32_t>{1, 2, 3, 4, 1, 2}, 4).empty());  // two tokens say too little
  CHECK(look_up(std::vector<int32_t>{5, 5, 5, 5, 5}, 4) == std::vector<int32_t>{5});  // nothing is known behind the end
  CHECK(look_up({}, 4).empty());
}

TEST_CASE("a text's vector is pooled over its hidden states, however it is cut and whoever runs beside it") {
  for (const std::string& name : all_architectures()) {
    INFO(name);
    const std::vector<int32_t> text = random_ids(40, vocabulary, 4);
    const auto vector = [&](Serving& serving, std::vector<int32_t> ids, protocol::Pooling pool) {
      schedule::Request request{std::nullopt, 0, std::move(ids)};
      request.embed = pool;
      const auto tag = serving.push(std::move(request));
      serving.finish();
      const Outcome& outcome = serving.said[tag];
      CHECK(outcome.done->generated == 0);
      CHECK(outcome.done->finish == "stop");
      CHECK(outcome.error.empty());
      return outcome.vector;
    };
    Serving whole(load_random(small(name)));
    const auto mean = vector(whole, text, protocol::Pooling::mean), last = vector(whole, text, protocol::Pooling::last);
    const auto cls = vector(whole, text, protocol::Pooling::cls);
    REQUIRE(mean.size() == 64);
    CHECK(cls == vector(whole, {text[0]}, protocol::Pooling::last));  // a token knows nothing of those behind it
    std::vector<double> sum(64, 0.0);
    for (size_t end = 1; end <= text.size(); ++end) {
      const auto one = vector(whole, {text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end)}, protocol::Pooling::last);
      for (size_t i = 0; i < 64; ++i) sum[i] += static_cast<double>(one[i]);
    }
    for (size_t i = 0; i < 64; ++i) CHECK(mean[i] == static_cast<float>(sum[i] / 40));
    Serving cut(load_random(small(name), with_slots(3, 7)));
    const auto beside = cut.push(random_ids(50, vocabulary, 5), 100);
    cut.step();
    CHECK(vector(cut, text, protocol::Pooling::mean) == mean);
    CHECK(vector(cut, text, protocol::Pooling::last) == last);
    CHECK(cut.said[beside].ids.size() == 100);
    CHECK(cut.scheduler.conversations().parked() == 1);  // vectors are not conversations
  }
}

TEST_CASE("a vector of NaN is an error of its request alone") {
  TinyLlama tiny;
  tiny.spoil = "output_norm.weight";
  Serving serving(tiny);
  schedule::Request request{std::nullopt, 0, {1, 2, 3}};
  request.embed = protocol::Pooling::mean;
  const auto tag = serving.push(std::move(request));
  serving.finish();
  CHECK(serving.said[tag].error.starts_with("no usable vector"));
}

TEST_CASE("the backend may rest when the last running request has ended, and not before") {
  struct Resting final : compute::cpu::ReferenceBackend {
    explicit Resting(int* count) : ReferenceBackend(1), rests(count) {}
    void rest() override { ++*rests; }
    int* const rests;
  };
  int rests = 0;
  schedule::RuntimeOptions options = with_slots(2);
  options.backend.make = [&]() -> Result<std::unique_ptr<compute::Backend>> { return std::unique_ptr<compute::Backend>(new Resting(&rests)); };
  Serving serving(load_random(small("llama"), options));
  serving.run({1, 2, 3}, 4);
  CHECK(rests == 1);
  const auto first = serving.push({1, 2, 3}, 12), second = serving.push({4, 5}, 3);
  while (serving.said[second].endings == 0) serving.step();
  CHECK(serving.said[first].endings == 0);
  const auto third = serving.push({6}, 3);  // before the first has ended
  serving.step();
  CHECK(rests == 1);
  serving.stop(third);
  serving.finish();
  CHECK(rests == 2);
}
