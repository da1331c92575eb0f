// Guessing with a draft model: no token changes, whatever the draft model says and whoever runs beside; a good one saves steps.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "engine/compute/cpu/reference_backend.hpp"
#include "engine/sample/grammar_shelf.hpp"
#include "engine/schedule/draft.hpp"
#include "serving_support.hpp"

using namespace vigil;
using namespace vigil::testing;
using schedule::GuessTally;
using tools::RandomModel;

namespace {

constexpr int64_t vocabulary = 97;

RandomModel small(const std::string& architecture = "llama", int64_t context = 512) {
  RandomModel model;
  model.architecture = architecture;
  model.context = context;
  return model;
}

RandomModel unrelated(int64_t context = 512) {
  RandomModel model = small("qwen3", context);
  model.layers = 1;
  model.seed = 99;
  return model;
}

// Takes every guess: random models are sure of nothing.
schedule::RuntimeOptions guessing(int64_t slots = 1, int64_t most = 5) {
  schedule::RuntimeOptions options;
  options.slots = slots;
  options.speculate = most;
  options.draft_sureness = 0;
  return options;
}

std::vector<std::vector<int32_t>> prompts() {
  return {random_ids(5, vocabulary, 1), random_ids(120, vocabulary, 2), random_ids(64, vocabulary, 3), random_ids(30, vocabulary, 4), random_ids(1, vocabulary, 5)};
}

std::vector<Outcome> plainly(const RandomModel& model, int64_t max_new, const sample::Settings& settings = {}) {
  Serving plain(load_random(model));
  std::vector<Outcome> answers;
  for (const auto& prompt : prompts()) answers.push_back(plain.run(prompt, max_new, settings));
  return answers;
}

void check_together(Serving& serving, const std::vector<Outcome>& expected, int64_t max_new, const sample::Settings& settings = {}) {
  std::vector<protocol::RequestTag> tags;
  for (const auto& prompt : prompts()) tags.push_back(serving.push(prompt, max_new, settings));
  serving.finish();
  for (size_t i = 0; i < tags.size(); ++i) {
    INFO("prompt " << i);
    CHECK(serving.said[tags[i]].tokens == expected[i].tokens);  // log probabilities too
  }
}

// A draft alone, without a scheduler. Its clock ticks a millisecond at each look.
struct Alone {
  explicit Alone(LoadedModel loaded) : model(std::move(loaded)), queue(10), draft(*model.runtime, queue, [this] { return time += std::chrono::milliseconds(1); }) {
    queue.abort_by(model.runtime->backend().control().abort);
  }
  std::vector<int32_t> guess(uint64_t number, const std::vector<int32_t>& known, int64_t count) {
    schedule::Draft::Wish wish{number, known, count};
    draft.guess({&wish, 1});
    return wish.guesses;
  }
  int reads_until_guess(uint64_t number, const std::vector<int32_t>& known, double ms) {
    for (int reads = 0; reads < 1000; ++reads) {
      if (!guess(number, known, 1).empty()) return reads;
      const schedule::Draft::Wish wish{number, known};
      draft.read({&wish, 1}, ms);
    }
    return -1;
  }
  LoadedModel model;
  TimePoint time{};
  schedule::RequestQueue queue;
  schedule::Draft draft;
};

// Something happens before each run, of either model.
class Hooked final : public compute::cpu::ReferenceBackend {
 public:
  explicit Hooked(std::function<void()>& hook) : ReferenceBackend(1), hook_(hook) {}
  compute::RunOutcome run(const std::function<void(compute::Ops&)>& forward, const compute::RunKind& kind) override {
    if (hook_) hook_();
    return ReferenceBackend::run(forward, kind);
  }

 private:
  std::function<void()>& hook_;
};

}  // namespace

TEST_CASE("a draft model that is the model itself guesses right, in every architecture without recurrent state") {
  for (const std::string& name : architectures(false)) {
    INFO(name);
    const auto expected = plainly(small(name), 80);
    for (const int64_t slots : {1, 4}) {
      Serving serving(load_random_pair(small(name), small(name), guessing(slots)));
      check_together(serving, expected, 80);
      const GuessTally& tally = serving.scheduler.tally();
      CHECK(tally.tokens == 5 * 80);
      CHECK(tally.drafted > 0);
      CHECK(tally.drafted_right == tally.drafted);
      CHECK(tally.steps * 2 < tally.tokens);
    }
  }
}

TEST_CASE("a draft model that knows nothing of the model changes no token, greedy or sampled") {
  for (const double temperature : {0.0, 0.8}) {
    sample::Settings settings;
    settings.temperature = temperature;
    settings.seed = 7;
    settings.logprobs = 2;
    settings.penalty_repeat = 1.1;
    settings.logit_bias = {{3, 2.5}, {4, -5}};
    const auto expected = plainly(small(), 40, settings);
    for (const bool itself : {false, true}) {
      for (const int64_t slots : {1, 4}) {
        Serving serving(load_random_pair(small(), itself ? small() : unrelated(), guessing(slots)));
        check_together(serving, expected, 40, settings);
        check_together(serving, expected, 40, settings);  // from the caches: wrong guesses have left nothing there
        const GuessTally& tally = serving.scheduler.tally();
        CHECK(tally.tokens == 2 * 5 * 40);
        CHECK(tally.drafted > (itself ? 100 : 20));
        if (!itself) CHECK(tally.drafted_right * 8 < tally.drafted);
      }
    }
  }
}

TEST_CASE("what the draft model is not sure of is no guess") {
  const auto expected = plainly(small(), 40);
  int64_t before = std::numeric_limits<int64_t>::max();
  for (const double sureness : {0.0, 0.3, 1.1}) {
    schedule::RuntimeOptions options = guessing();
    options.draft_sureness = sureness;
    Serving serving(load_random_pair(small(), small(), options));
    check_together(serving, expected, 40);
    CHECK(serving.scheduler.tally().drafted < before);
    before = serving.scheduler.tally().drafted;
  }
  CHECK(before == 0);
}

TEST_CASE("how many are guessed follows how many were right, down to none for some steps") {
  schedule::DraftLength length(8, 4);
  std::vector<int64_t> asked;
  const auto fare = [&](bool right) {
    const int64_t guessed = length.next();
    asked.push_back(guessed);
    length.finished(guessed, right ? guessed : 0);
  };
  for (int i = 0; i < 4; ++i) fare(true);
  CHECK(asked == std::vector<int64_t>{2, 4, 8, 8});
  asked.clear();
  for (int i = 0; i < 18; ++i) fare(false);
  CHECK(asked == std::vector<int64_t>{8, 4, 2, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0});
  asked.clear();
  fare(true);
  fare(false);
  fare(false);
  fare(false);
  fare(false);
  CHECK(asked == std::vector<int64_t>{1, 2, 1, 0, 1});  // one that was right begins it anew
  schedule::DraftLength tireless(8);
  for (int i = 0; i < 9; ++i) {
    CHECK(tireless.next() == (i == 0 ? 2 : 1));
    tireless.finished(tireless.next(), 0);
  }
}

TEST_CASE("the best token has its share of the softmax") {
  using schedule::best_token;
  CHECK(best_token(std::vector<float>{1, 3, 3, 2}).id == 1);
  CHECK(best_token(std::vector<float>{1, 3, 3, 2}).probability == Approx(1 / (std::exp(-2.0) + 1 + 1 + std::exp(-1.0))));
  CHECK(best_token(std::vector<float>{-50, 7, -40}).probability == Approx(1));
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::nanf("");
  CHECK(best_token(std::vector<float>{nan, -5, -infinity}).id == 1);
  CHECK(best_token(std::vector<float>{nan, -5, -infinity}).probability == Approx(1));
  for (const float value : {nan, -infinity, infinity}) CHECK(best_token(std::vector<float>{value, value}).id < 0);
}

TEST_CASE("the best scores alone say whether the best token is probable enough, or that they cannot tell") {
  using schedule::is_sure;
  std::vector<sample::Pick> best;
  std::vector<float> scores;
  for (int i = 0; i < 64; ++i) best.push_back({i, -0.25f * static_cast<float>(i)}), scores.push_back(best.back().score);  // the last is e^-15.75 of the best
  const double alone = schedule::best_token(scores).probability;  // no other token can make it more
  CHECK(is_sure(best, 64, alone * 0.999) == true);
  CHECK(is_sure(best, 64, alone * 1.001) == false);
  CHECK(is_sure(best, 100'000, alone * 1.001) == false);
  CHECK(is_sure(best, 100'000, alone * 0.99) == true);
  CHECK_FALSE(is_sure(best, 1'000'000'000, alone * 0.99));  // so many could take that much
  CHECK(is_sure(best, 1'000'000'000, 0) == true);
  best.resize(3);
  best.push_back({-1, 0});  // there are no other scores at all
  CHECK(is_sure(best, 1'000'000'000, 0.41) == true);
  CHECK(is_sure(best, 1'000'000'000, 0.43) == false);
  CHECK_FALSE(is_sure({}, 9, 0.5));
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK_FALSE(is_sure(std::vector<sample::Pick>{{3, infinity}, {4, 1}}, 9, 0.5));
  CHECK_FALSE(is_sure(std::vector<sample::Pick>{{-1, 0}}, 9, 0.5));
}

TEST_CASE("an answer under a grammar is the same with a draft model") {
  std::vector<std::string> texts(vocabulary);
  for (size_t id = 1; id < texts.size(); ++id) texts[id] = std::string(1, static_cast<char>(' ' + id));
  sample::GrammarCompiler compiler([&] { return std::make_shared<const sample::TokenTrie>(texts); }, vocabulary);
  protocol::Sampling sampling;
  sampling.grammar = "root ::= ([a-f]+ \" \" [0-9] \",\")+";
  const auto answer = [&](Serving& serving) {
    schedule::Request request{std::nullopt, 60, random_ids(50, vocabulary, 6)};
    request.constraint = *compiler.plan(sampling);
    request.ids.resize(5);
    const auto tag = serving.push(std::move(request));
    serving.finish();
    CHECK(serving.said[tag].error == "");
    return serving.said[tag].ids;
  };
  Serving plain(load_random(small()));
  const auto expected = answer(plain);
  CHECK(expected.size() == 60);
  for (const RandomModel& draft : {small(), unrelated()}) {
    Serving serving(load_random_pair(small(), draft, guessing(2)));
    const auto beside = serving.push(random_ids(20, vocabulary, 7), 80);
    CHECK(answer(serving) == expected);
    CHECK(serving.said[beside].ids == plain.run(random_ids(20, vocabulary, 7), 80).ids);
    CHECK(serving.scheduler.tally().drafted > 0);
  }
}

TEST_CASE("an end token ends an answer with a draft model as without") {
  TinyLlama tiny;
  Serving free_running(tiny);
  const auto prompt = random_ids(12, vocabulary, 11);
  tiny.end_id = free_running.run(prompt, 30).ids[7];
  Serving plain(tiny);
  const Outcome expected = plain.run(prompt, 30);
  REQUIRE(expected.done->finish == "stop");
  for (uint64_t seed : {uint64_t{1}, uint64_t{5}}) {
    TinyLlama draft;
    draft.seed = seed;
    draft.end_id = tiny.end_id;
    LoadedModel loaded{tiny.bytes(), nullptr, draft.bytes()};
    auto runtime = try_load_pair(loaded.bytes, loaded.draft_bytes, guessing());
    REQUIRE(runtime);
    loaded.runtime = std::move(*runtime);
    Serving serving(std::move(loaded));
    const Outcome outcome = serving.run(prompt, 30);
    CHECK(outcome.ids == expected.ids);
    CHECK(outcome.done->finish == "stop");
  }
}

TEST_CASE("what was guessed wrong is cut out of the draft model's cache") {
  const std::vector<int32_t> start = random_ids(3, vocabulary, 8);
  Alone draft(load_random_pair(small(), small(), guessing(1)));
  std::vector<int32_t> known = start;
  for (int round = 0; round < 30; ++round) {
    Alone fresh(load_random_pair(small(), small(), guessing(1)));
    const auto guesses = draft.guess(1, known, 5);
    CHECK(guesses.size() == 5);
    CHECK(fresh.reads_until_guess(1, known, 1e6) >= 0);
    CHECK(guesses == fresh.guess(1, known, 5));  // which has read all of it at once
    // The model takes some of them and says something else then.
    const auto right = static_cast<std::ptrdiff_t>(round % 6);
    known = joined(known, {guesses.begin(), guesses.begin() + right});
    known.push_back(right < 5 ? (guesses[static_cast<size_t>(right)] + 1) % static_cast<int32_t>(vocabulary) : 7);
  }
}

TEST_CASE("the draft model reads what is long in pieces, and keeps what it has read for who goes on from there") {
  const auto text = random_ids(300, vocabulary, 9);
  Alone draft(load_random_pair(small(), small(), guessing(2)));
  const schedule::Draft::Wish wish{1, text};
  for (int i = 0; i < 3; ++i) draft.draft.read({&wish, 1}, 0);  // how long a step takes is not known yet
  CHECK(draft.guess(1, text, 1).empty());
  CHECK(draft.reads_until_guess(1, text, 2) == 5);  // 16 tokens in 1 ms, so 32 in 2, and so on
  Alone hurried(load_random_pair(small(), small(), guessing(2)));
  CHECK(hurried.reads_until_guess(1, text, 0.001) == 19);  // 16 each time, whatever it takes
  draft.draft.ended(1);
  CHECK(draft.guess(2, joined(text, {1, 2, 3}), 2).size() == 2);
  CHECK(draft.guess(3, random_ids(4, vocabulary, 10), 2).size() == 2);  // another conversation takes the other slot
  draft.draft.ended(2);
  draft.draft.ended(3);
  CHECK(draft.guess(4, random_ids(4, vocabulary, 10), 2).size() == 2);
  CHECK(draft.guess(5, joined(text, {1, 2, 4}), 2).size() == 2);
  draft.draft.suspended(5);
  CHECK(draft.guess(5, joined(text, {1, 2, 4}), 2).empty());  // nothing of it is left
  CHECK(draft.reads_until_guess(5, joined(text, {1, 2, 4}), 1e6) > 0);
}

TEST_CASE("a conversation that goes on is guessed at once, and answered as if it were cold") {
  Serving plain(load_random(small("llama", 2048)));
  Serving serving(load_random_pair(small("llama", 2048), small("llama", 2048), guessing(2)));
  std::vector<int32_t> chat = random_ids(300, vocabulary, 31);
  for (uint64_t turn = 0; turn < 6; ++turn) {
    const GuessTally before = serving.scheduler.tally();
    const auto beside = serving.push(random_ids(40, vocabulary, 200 + turn), 30);
    const int64_t max_new = turn == 0 ? 150 : 30;  // time to read the beginning
    const Outcome outcome = serving.run(chat, max_new);
    CHECK(outcome.ids == plain.run(chat, max_new).ids);
    CHECK(serving.said[beside].ids == plain.run(random_ids(40, vocabulary, 200 + turn), 30).ids);
    if (turn > 0) CHECK((serving.scheduler.tally().steps - before.steps) * 3 < (serving.scheduler.tally().tokens - before.tokens) * 2);
    chat = joined(joined(chat, outcome.ids), random_ids(3, vocabulary, 100 + turn));
  }
}

TEST_CASE("where memory holds fewer contexts than slots, a draft model changes nobody's answer") {
  Serving alone(load_random(small()));
  std::vector<std::vector<int32_t>> expected;
  for (uint64_t i = 0; i < 4; ++i) expected.push_back(alone.run(random_ids(100, vocabulary, 60 + i), 250).ids);
  for (const RandomModel& draft : {small(), unrelated()}) {
    schedule::RuntimeOptions options = guessing(4);
    const LoadedModel measured = load_random_pair(small(), draft, options);
    schedule::Runtime& runtime = *measured.runtime;
    const uint64_t blocks = 11 * (runtime.kv().shape.block_bytes() + runtime.draft()->kv().shape.block_bytes());
    const auto fixed = [](const schedule::Runtime& one) { return one.model().weight_bytes() + one.model().scratch_bytes(); };
    options.available_bytes = (fixed(runtime) + fixed(*runtime.draft()) + blocks) * 5 / 4 + 200;
    Serving four(load_random_pair(small(), draft, options));
    CHECK(four.model.runtime->plan().blocks == 11);  // each needs 6
    CHECK(four.model.runtime->draft()->plan().blocks == 11);
    for (uint64_t i = 0; i < 4; ++i) four.push(random_ids(100, vocabulary, 60 + i), 250);
    four.finish();
    for (uint64_t i = 0; i < 4; ++i) CHECK(four.said[i + 1].ids == expected[i]);
    CHECK(four.scheduler.tally().drafted > 0);
    CHECK(four.model.runtime->draft()->pool().blocks.free_blocks() > 0);
  }
}

TEST_CASE("the contexts' ends end guesses and answers, the draft model's only guesses") {
  Alone draft(load_random_pair(small(), unrelated(128), guessing(1, 64)));
  CHECK(draft.model.runtime->context() == 512);
  CHECK(draft.model.runtime->draft()->context() == 128);
  const auto text = random_ids(140, vocabulary, 12);
  const auto begin = [&](int64_t length) { return std::vector<int32_t>(text.begin(), text.begin() + length); };
  REQUIRE(draft.reads_until_guess(1, begin(120), 1e6) > 0);
  CHECK(draft.guess(1, begin(120), 20).size() == 9);  // the last of them need not be read
  CHECK(draft.guess(1, begin(128), 20).size() == 1);
  CHECK(draft.guess(1, begin(129), 20).empty());
  CHECK(draft.guess(1, begin(120), 20).size() == 9);
  for (const int64_t draft_context : {128, 512, 2048}) {  // shorter than the model's, the same, longer
    Serving plain(load_random(small("llama", 256)));
    Serving serving(load_random_pair(small("llama", 256), small("llama", draft_context), guessing(2)));
    CHECK(serving.model.runtime->draft()->context() == std::min<int64_t>(256, draft_context));
    for (const int64_t length : {100, 250, 255}) {
      const auto prompt = random_ids(length, vocabulary, 13);
      const auto beside = serving.push(random_ids(length - 3, vocabulary, 14), 400);
      const Outcome outcome = serving.run(prompt, 400);
      CHECK(outcome.ids == plain.run(prompt, 400).ids);
      CHECK(outcome.ids.size() == static_cast<size_t>(256 - length));
      CHECK(outcome.done->finish == "length");
      CHECK(serving.said[beside].ids == plain.run(random_ids(length - 3, vocabulary, 14), 400).ids);
    }
    CHECK(serving.scheduler.tally().drafted > 0);
  }
}

TEST_CASE("a stop is honoured between the draft model's steps") {
  for (const bool with_another : {false, true}) {
    INFO("with another " << with_another);
    std::function<void()> hook;
    schedule::RuntimeOptions options = guessing(2, 16);
    options.backend.make = [&hook]() -> Result<std::unique_ptr<compute::Backend>> { return std::unique_ptr<compute::Backend>(new Hooked(hook)); };
    const auto other_prompt = random_ids(4, vocabulary, 15), prompt = random_ids(6, vocabulary, 16);
    const auto begin = [&](Serving& serving) {
      const auto tag = serving.push(prompt, 300);
      if (with_another) serving.push(other_prompt, 150);
      return tag;
    };
    Serving plain(load_random(small())), rehearsal(load_random_pair(small(), small(), options)), serving(load_random_pair(small(), small(), options));
    // A step in which much is guessed: where is found out by one that goes on.
    int64_t runs = 0;
    hook = [&] { ++runs; };
    begin(rehearsal);
    while (runs < 8) {
      runs = 0;
      rehearsal.step();
    }
    const auto stopped = begin(serving);
    while (serving.steps + 1 < rehearsal.steps) serving.step();
    const size_t before = serving.said[stopped].ids.size();
    runs = 0;
    hook = [&] {
      if (++runs == 3) serving.stop(stopped);
    };
    serving.step();
    CHECK((with_another || runs == 4));  // no guess more; the model's step is aborted as soon as it begins
    hook = {};
    serving.finish();
    CHECK(serving.said[stopped].done->finish == "cancel");
    CHECK(serving.said[stopped].ids.size() == before);
    CHECK(serving.scheduler.tally().tokens == static_cast<int64_t>(before + (with_another ? 150 : 0)));
    const auto expected = plain.run(prompt, 300).ids;
    CHECK(std::equal(serving.said[stopped].ids.begin(), serving.said[stopped].ids.end(), expected.begin()));
    if (with_another) CHECK(serving.said[stopped + 1].ids == plain.run(other_prompt, 150).ids);
    CHECK(serving.run(prompt, 300).ids == expected);  // what a stop left behind is sound
  }
}

TEST_CASE("who is stopped while the draft model guesses is left out of its next step, the others go on") {
  std::function<void()> hook;
  schedule::RuntimeOptions options = guessing(2, 16);
  options.backend.make = [&hook]() -> Result<std::unique_ptr<compute::Backend>> { return std::unique_ptr<compute::Backend>(new Hooked(hook)); };
  Alone alone(load_random_pair(small(), small(), options));
  std::vector<schedule::Draft::Wish> wishes;
  const auto known = random_ids(5, vocabulary, 19);
  for (const protocol::RequestTag tag : {1, 2}) {
    REQUIRE(alone.queue.push({tag, 100, known}) == schedule::RequestQueue::Added::queued);
    wishes.push_back({alone.queue.take()->number, known, tag == 1 ? 16 : 5});
  }
  int64_t runs = 0;
  hook = [&] {
    if (++runs == 3) alone.queue.stop(1);
  };
  alone.draft.guess(wishes);
  CHECK(wishes[0].guesses.size() == 3);  // the third was on its way
  CHECK(wishes[1].guesses.size() == 5);
  CHECK(runs == 5);
}

TEST_CASE("vectors and answers of a token need no draft model") {
  Serving serving(load_random_pair(small(), small(), guessing(2)));
  schedule::Request request{std::nullopt, 0, random_ids(40, vocabulary, 17)};
  request.embed = protocol::Pooling::mean;
  const auto tag = serving.push(std::move(request));
  serving.finish();
  CHECK(serving.said[tag].vector.size() == 64);
  CHECK(serving.run(random_ids(9, vocabulary, 18), 1).ids.size() == 1);
  CHECK(serving.run(random_ids(9, vocabulary, 18), 0).done->generated == 0);
  CHECK(serving.scheduler.tally().drafted == 0);
}

TEST_CASE("a draft model of another vocabulary is refused with the place where they differ") {
  const auto pieces = [](const std::string& tenth, int64_t count = vocabulary) {
    std::vector<std::string> all;
    for (int64_t id = 0; id < count; ++id) all.push_back(id == 10 ? tenth : "piece" + std::to_string(id));
    return all;
  };
  const auto with = [&](const std::vector<std::string>& all, const std::string& key = "", uint32_t id = 0) {
    return [all, key, id](gguf::Writer& writer) {
      writer.put_strings("tokenizer.ggml.tokens", all);
      if (!key.empty()) writer.put_u32(key, id);
    };
  };
  const std::string eos = "tokenizer.ggml.eos_token_id";
  const auto model = random_file(small(), with(pieces("ten"), eos, 2));
  const auto refusal = [&](const std::vector<std::byte>& draft) {
    schedule::RuntimeOptions options = guessing();
    options.draft_model = "small.gguf";
    const auto runtime = try_load_pair(model, draft, options);
    return runtime ? std::string() : runtime.error();
  };
  const std::string start = "draft model small.gguf: it has another vocabulary: ";
  CHECK(refusal(random_file(unrelated(), with(pieces("ten"), eos, 2))) == "");
  CHECK(refusal(random_file(unrelated(), with(pieces("eleven"), eos, 2))) == start + "token 10 is 'eleven', the model's is 'ten'");
  CHECK(refusal(random_file(unrelated(), with(pieces("ten"), eos, 3))) == start + eos + " is 3, the model's is 2");
  CHECK(refusal(random_file(unrelated(), with(pieces("ten")))) == start + eos + " is absent, the model's is 2");
  CHECK(refusal(random_file(unrelated(), with(pieces("ten", 96), eos, 2))) == start + "the number of pieces is 96, the model's is 97");
  RandomModel larger = unrelated();
  larger.vocabulary = 98;
  CHECK(refusal(random_file(larger, with(pieces("ten", 98), eos, 2))) == start + "the number of tokens is 98, the model's is 97");
  CHECK(refusal(random_file(unrelated(), {}, "other")) ==
        start + "tokenizer.ggml.model is 'other', the model's is 'none'");
}

TEST_CASE("recurrent state: nothing guesses for it, and it guesses for nobody") {
  for (const std::string& name : architectures(true)) {
    INFO(name);
    schedule::RuntimeOptions options = guessing();
    options.draft_model = "small.gguf";
    LoadedModel loaded = load_random_pair(small(name), small(), options);
    CHECK(loaded.runtime->draft() == nullptr);
    CHECK(loaded.runtime->speculate() == 0);
    REQUIRE(loaded.runtime->backend().notes().size() == 1);
    CHECK(loaded.runtime->backend().notes()[0] == "guessing ahead is off: the recurrent state of " + name + " cannot be cut back behind a wrong guess");
    Serving plain(load_random(small(name))), serving(std::move(loaded));
    CHECK(serving.run(random_ids(20, vocabulary, 1), 20).ids == plain.run(random_ids(20, vocabulary, 1), 20).ids);
    const auto refused = try_load_pair(random_file(small()), random_file(small(name)), options);
    REQUIRE_FALSE(refused);
    CHECK(refused.error() == "draft model small.gguf: the recurrent state of " + name + " cannot be cut back behind a wrong guess, so it cannot guess");
  }
}

TEST_CASE("a draft model counts in the memory that is planned, and is refused with numbers where it does not fit") {
  schedule::RuntimeOptions options = guessing(2);
  options.context = 512;
  LoadedModel loaded = load_random_pair(small(), small("qwen3", 100), options);
  schedule::Runtime& draft = *loaded.runtime->draft();
  CHECK(draft.context() == 100);
  CHECK(draft.plan().blocks == 2 * 2);  // its own trained context in each slot, and nothing is parked
  CHECK(loaded.runtime->plan().blocks >= 2 * 8);
  // Enough for the model alone.
  const schedule::Runtime& alone = *loaded.runtime;
  options.cache_mib = -1;
  options.available_bytes = (alone.model().weight_bytes() + alone.model().scratch_bytes() + 16 * alone.kv().shape.block_bytes()) * 5 / 4 + 200;
  CHECK(try_load(loaded.bytes, options));
  const auto refused = try_load_pair(loaded.bytes, loaded.draft_bytes, options);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().find("does not fit into memory: weights 1 MiB + scratch ") == 0);
  CHECK(refused.error().find(" for a context of 512 + draft model ") != std::string::npos);
  CHECK(refused.error().find(" MiB, but 80 % of the available ") != std::string::npos);
}
