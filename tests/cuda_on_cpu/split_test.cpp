// One model over several emulated GPUs, and over a GPU and the CPU: the answers are those of one place, memory is where its layers are, and what does
// not fit is told with numbers.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "engine/compute/split_backend.hpp"
#include "tests/cuda_on_cpu/device_support.hpp"
#include "tests/engine/serving_support.hpp"

using namespace vigil;
using namespace vigil::testing;
using Catch::Matchers::Contains;
using cuda_on_cpu::allocated_bytes;
using tools::RandomModel;

namespace {

constexpr size_t mib = size_t{1} << 20;

RandomModel model_of(const std::string& architecture) {
  RandomModel model;
  model.architecture = architecture;
  model.layers = 4;
  model.type = gguf::TensorType::f32;
  model.seed = 3;
  return model;
}

}  // namespace

TEST_CASE("layers over several GPUs give the bits of one, in every architecture") {
  const DeviceSetting setting;
  for (const std::string& name : tools::random_architectures()) {
    INFO(name);
    const RandomModel model = model_of(name);
    const std::vector<int32_t> ids = random_ids(30, model.vocabulary, 2);
    const auto whole = load_random(model, on_gpus(1));
    CHECK(note_of(*whole.runtime) == "");
    const auto expected = scores_of(*whole.runtime, ids);
    schedule::RuntimeOptions options = on_gpus(3);
    options.layer_split = {1, 1, 2};
    const auto split = load_random(model, options);
    CHECK_THAT(note_of(*split.runtime), Contains("the model is split: ") && Contains("on GPU0 (") && Contains("on GPU1 (") && Contains("and the output on GPU2 ("));
    CHECK(scores_of(*split.runtime, ids) == expected);
  }
}

TEST_CASE("the last layers on a GPU and the others on the CPU give the same but for rounding, in every architecture") {
  const DeviceSetting setting;
  for (const std::string& name : tools::random_architectures()) {
    const RandomModel model = model_of(name);
    const std::vector<int32_t> ids = random_ids(30, model.vocabulary, 2);
    const auto whole = load_random(model, on_gpus(1));
    const auto expected = scores_of(*whole.runtime, ids);
    for (const int64_t layers : {1, 2, 3}) {
      INFO(name << " with " << layers << " layers on the GPU");
      schedule::RuntimeOptions options = on_gpus(1);
      options.gpu_layers = layers;
      const auto split = load_random(model, options);
      CHECK_THAT(note_of(*split.runtime), Contains(layers == 3 ? "layer 0 and the embedding on the CPU" : "and the embedding on the CPU"));
      CHECK_THAT(std::string(split.runtime->backend().name()), Contains("cpu") && Contains(" + cuda "));
      CHECK(split.runtime->backend().on_gpu());
      CHECK(worst_share(scores_of(*split.runtime, ids), expected) < (name == "gemma3" ? 5e-3 : 1e-4));
    }
  }
}

TEST_CASE("a device has the memory of its layers, and no step takes any") {
  const DeviceSetting setting;
  RandomModel model = model_of("llama");
  model.layers = 8;
  schedule::RuntimeOptions options = on_gpus(2);
  options.context = 4096;  // KV weighs more than all else: 512 KiB a layer and context
  options.cache_mib = -1;
  options.layer_split = {3, 1};
  const size_t before[] = {allocated_bytes(0), allocated_bytes(1)};
  const auto split = load_random(model, options);
  const double taken[] = {static_cast<double>(allocated_bytes(0) - before[0]), static_cast<double>(allocated_bytes(1) - before[1])};
  CHECK(taken[0] / taken[1] > 2);
  CHECK(taken[0] / taken[1] < 4);
  const std::vector<compute::MemoryShare> shares = split.runtime->backend().memory_shares();
  REQUIRE(shares.size() == 2);
  CHECK(shares[0].kv_layers == 6);
  CHECK(shares[1].kv_layers == 2);
  const size_t loaded[] = {allocated_bytes(0), allocated_bytes(1)};
  scores_of(*split.runtime, random_ids(30, model.vocabulary, 2));
  CHECK(allocated_bytes(0) == loaded[0]);
  CHECK(allocated_bytes(1) == loaded[1]);
}

TEST_CASE("one GPU is used where the model fits on it, all of them where it does not, and the CPU has the rest") {
  const DeviceSetting setting;
  RandomModel model = model_of("llama");
  model.layers = 6;
  model.ff = 1024;  // about 800 KiB a layer
  const std::vector<int32_t> ids = random_ids(30, model.vocabulary, 2);
  schedule::RuntimeOptions options = on_gpus(2);
  options.backend.backend = "auto";
  options.gpu_reserve_mib = 0;
  const size_t before[] = {allocated_bytes(0), allocated_bytes(1)};
  const auto leave = [&](size_t kib0, size_t kib1) {
    cuda_on_cpu::device.memory_bytes[0] = before[0] + (kib0 << 10);
    cuda_on_cpu::device.memory_bytes[1] = before[1] + (kib1 << 10);
  };
  std::vector<std::vector<float>> expected;
  {
    const auto whole = load_random(model, options);
    CHECK(allocated_bytes(1) == before[1]);
    expected = scores_of(*whole.runtime, ids);
  }
  leave(4000, 4000);
  {
    const auto both = load_random(model, options);
    CHECK_THAT(note_of(*both.runtime), Contains("on GPU0 (") && Contains("on GPU1 (") && !Contains("on the CPU"));
    CHECK(scores_of(*both.runtime, ids) == expected);
  }
  leave(1900, 1900);
  {
    const auto three = load_random(model, options);
    CHECK_THAT(note_of(*three.runtime), Contains("on GPU0 (") && Contains("on GPU1 (") && Contains("and the embedding on the CPU"));
    CHECK(worst_share(scores_of(*three.runtime, ids), expected) < 1e-4);
  }
  leave(300, 300);
  {
    const auto none = load_random(model, options);
    CHECK_FALSE(none.runtime->backend().on_gpu());
    CHECK_THAT(note_of(*none.runtime), Contains("computing on the CPU, the GPU cannot have the model: 1 layer on the GPU does not fit: ") && Contains("MiB are free"));
  }
  CHECK(allocated_bytes(0) == before[0]);
  CHECK(allocated_bytes(1) == before[1]);
}

TEST_CASE("what was asked for and does not fit is a load error with numbers, and nothing stays taken") {
  const DeviceSetting setting;
  RandomModel model = model_of("llama");
  model.ff = 1024;
  const std::vector<std::byte> bytes = random_file(model);
  const size_t before = allocated_bytes();
  schedule::RuntimeOptions options = on_gpus(1);
  cuda_on_cpu::device.memory_bytes[0] = before + 3 * mib;
  const auto whole = try_load(bytes, options);
  REQUIRE_FALSE(whole);
  CHECK_THAT(whole.error(), Contains("all of the model's 4 layers") && Contains("MiB are free") && Contains("would fit (--gpu-layers "));
  options.backend.backend = "auto";
  options.gpu_layers = 4;
  CHECK_FALSE(try_load(bytes, options));
  options.gpu_layers = 2;
  CHECK(try_load(bytes, options));
  options.gpu_layers = 0;
  const auto on_cpu = try_load(bytes, options);
  REQUIRE(on_cpu);
  CHECK_FALSE((*on_cpu)->backend().on_gpu());
  options.backend.backend = "cuda";
  CHECK_THAT(try_load(bytes, options).error(), Contains("--gpu-layers 0"));
  options.gpu_layers = -1;
  options.layer_split = {1, 1};
  CHECK_THAT(try_load(bytes, options).error(), Contains("names 2 GPUs, and 1 can be used"));
  CHECK(allocated_bytes() == before);
}

TEST_CASE("the memory that is kept in reserve stays free") {
  const DeviceSetting setting;
  RandomModel model = model_of("llama");
  schedule::RuntimeOptions options = on_gpus(1);
  options.context = 0;
  model.context = 1 << 17;
  cuda_on_cpu::device.memory_bytes[0] = allocated_bytes() + 64 * mib;
  for (const int64_t reserve : {5, 40}) {
    options.gpu_reserve_mib = reserve;
    const auto loaded = load_random(model, options);
    const size_t free = cuda_on_cpu::device.memory_bytes[0] - allocated_bytes();
    CHECK(free >= static_cast<size_t>(reserve) * mib);
    CHECK(free < static_cast<size_t>(reserve + 4) * mib);
  }
}

TEST_CASE("an aborted step leaves no trace in either place") {
  const DeviceSetting setting;
  for (const std::string name : {"llama", "qwen35"}) {
    const RandomModel model = model_of(name);
    const std::vector<int32_t> ids = random_ids(40, model.vocabulary, 2);
    schedule::RuntimeOptions options = on_gpus(1);
    options.gpu_layers = 2;
    const auto split = load_random(model, options);
    schedule::Runtime& runtime = *split.runtime;
    const auto expected = scores_of(runtime, ids);
    cache::Sequence sequence(runtime.pool());
    REQUIRE(sequence.reserve(12));
    REQUIRE(runtime.step(sequence, std::span(ids).first(12), 1) == compute::RunOutcome::finished);
    REQUIRE(sequence.reserve(12));
    runtime.backend().control().abort = true;
    CHECK(runtime.step(sequence, std::span(ids).subspan(12, 12), 1) == compute::RunOutcome::aborted);
    runtime.backend().control().abort = false;
    const uint64_t steps = runtime.backend().control().steps;
    REQUIRE(runtime.step(sequence, std::span(ids).subspan(12, 12), 1) == compute::RunOutcome::finished);
    CHECK(runtime.backend().control().steps > steps + 40);  // of both places together
    std::vector<float> scores(static_cast<size_t>(model.vocabulary));
    runtime.read_scores(0, scores);
    CHECK(scores == expected[1]);
  }
}

TEST_CASE("steps of a split model are replayed as graphs, with the same bits") {
  const DeviceSetting setting;
  const RandomModel model = model_of("llama");
  const std::vector<int32_t> ids = random_ids(60, model.vocabulary, 2);
  schedule::RuntimeOptions options = on_gpus(2);
  options.layer_split = {1, 1};
  options.backend.gpu.graphs = false;
  const auto plain = load_random(model, options);
  const auto before = cuda_on_cpu::tally;
  const auto expected = scores_of(*plain.runtime, ids);
  CHECK(cuda_on_cpu::tally.graphs_made == before.graphs_made);
  options.backend.gpu.graphs = true;
  const auto with_graphs = load_random(model, options);
  CHECK(scores_of(*with_graphs.runtime, ids) == expected);
  CHECK(cuda_on_cpu::tally.graphs_made - before.graphs_made == 4);  // of each GPU one for the prompt's chunks and one for a token
  CHECK(cuda_on_cpu::tally.graphs_launched - before.graphs_launched > 60);
}

TEST_CASE("conversations that share a beginning on a split model get what each gets alone") {
  const DeviceSetting setting;
  for (const std::string name : {"llama", "qwen35", "gpt-oss"}) {
    RandomModel model = model_of(name);
    schedule::RuntimeOptions options = on_gpus(2);
    options.layer_split = {1, 1};
    options.context = 256;
    options.slots = 2;
    const std::vector<int32_t> common = random_ids(80, model.vocabulary, 5);
    const std::vector<int32_t> first = joined(common, {1, 2, 3}), second = joined(common, {4, 5});
    std::vector<std::vector<int32_t>> expected;
    for (const auto& prompt : {first, second}) {
      Serving alone(load_random(model, options));
      expected.push_back(alone.run(prompt, 6).ids);
    }
    Serving serving(load_random(model, options));
    CHECK(serving.run(first, 6).ids == expected[0]);
    const Outcome resumed = serving.run(second, 6);
    CHECK(resumed.ids == expected[1]);
    if (name != "qwen35") CHECK(resumed.resumed == 80);  // the block that the prompts part in was copied, in both places
  }
}

TEST_CASE("windows that are let go change no bit on one GPU and on two, in both forms of attention") {
  const DeviceSetting setting;
  struct Case {
    const char* architecture;
    int64_t layers, window;
    compute::KvType kv;
  };
  for (const Case& one : {Case{"gemma3", 7, 16, compute::KvType::f32}, Case{"gpt-oss", 4, 70, compute::KvType::f16}}) {
    RandomModel model = model_of(one.architecture);
    model.layers = one.layers;
    model.window = one.window;
    const std::vector<int32_t> ids = random_ids(600, model.vocabulary, 2);
    const auto options = [&](int64_t step_rows, bool split) {
      schedule::RuntimeOptions made = on_gpus(2);
      made.context = 640;
      made.cache_mib = -1;
      made.step_rows = step_rows;
      made.kv_type = one.kv;
      if (split) made.layer_split = {1, 1};
      return made;
    };
    // All but the last four tokens in steps of `chunk`, those one by one.
    const auto scores = [&](schedule::Runtime& runtime, int64_t chunk) {
      cache::Sequence sequence(runtime.pool());
      std::vector<std::vector<float>> all;
      while (sequence.length() < static_cast<int64_t>(ids.size())) {
        const int64_t before_last = static_cast<int64_t>(ids.size()) - 4 - sequence.length(), count = before_last > 0 ? std::min(chunk, before_last) : 1;
        REQUIRE(sequence.reserve(count));
        REQUIRE(runtime.step(sequence, std::span(ids).subspan(static_cast<size_t>(sequence.length()), static_cast<size_t>(count)), 1) == compute::RunOutcome::finished);
        if (before_last > count) continue;
        all.emplace_back(static_cast<size_t>(model.vocabulary));
        runtime.read_scores(0, all.back());
      }
      return all;
    };
    const auto at_once = load_random(model, options(596, false)), in_parts = load_random(model, options(90, false)), split = load_random(model, options(90, true));
    INFO(one.architecture);
    const auto expected = scores(*at_once.runtime, 596);
    REQUIRE(expected.size() == 5);
    CHECK(at_once.runtime->plan().window_blocks == 10);  // all of it
    CHECK(in_parts.runtime->plan().window_blocks < 10);
    CHECK(scores(*in_parts.runtime, 90) == expected);
    CHECK(split.runtime->plan().window_blocks == in_parts.runtime->plan().window_blocks);
    const std::vector<compute::MemoryShare> shares = split.runtime->backend().memory_shares();
    REQUIRE(shares.size() == 2);
    CHECK(shares[0].window_layers + shares[1].window_layers == split.runtime->window_kv().shape.layers);
    CHECK(shares[0].kv_layers + shares[1].kv_layers == split.runtime->kv().shape.layers);
    CHECK(shares[0].window_layers > 0);
    CHECK(shares[1].window_layers > 0);
    CHECK(scores(*split.runtime, 70) == expected);
  }
}

TEST_CASE("a draft model beside a split model changes no token") {
  const DeviceSetting setting;
  const RandomModel model = model_of("llama");
  RandomModel smaller = model;
  smaller.layers = 1;
  const std::vector<int32_t> prompt = random_ids(20, model.vocabulary, 7);
  schedule::RuntimeOptions options = on_gpus(2);
  options.layer_split = {1, 1};
  std::vector<int32_t> expected;
  {
    Serving plain(load_random(model, options));
    expected = plain.run(prompt, 20).ids;
  }
  options.speculate = 4;
  options.draft_sureness = 0;
  for (const RandomModel& draft : {model, smaller}) {
    Serving serving(load_random_pair(model, draft, options));
    CHECK(serving.run(prompt, 20).ids == expected);
    CHECK(serving.scheduler.tally().drafted > 5);
  }
  options.layer_split = {};
  options.gpu_layers = 2;  // the draft model is on the GPU whole
  {
    Serving serving(load_random_pair(model, smaller, options));
    CHECK(serving.run(prompt, 20).ids.size() == 20);
    CHECK(serving.scheduler.tally().drafted > 5);
  }
}

TEST_CASE("an engine whose model is split says so in one line with numbers") {
  const DeviceSetting setting;
  RandomModel model = model_of("llama");
  model.ff = 1024;
  cuda_on_cpu::device.memory_bytes[0] = allocated_bytes() + 3 * mib;
  schedule::RuntimeOptions options = on_gpus(1);
  options.backend.backend = "auto";
  std::string seen;
  const int status = run_engine(random_file(model), options, [&](std::string_view line) -> std::string {
    seen += line;
    if (line.starts_with("READY")) return "GEN 4 1,2,3\n";
    return line.starts_with("DONE") || line.starts_with("ERR") || line.starts_with("FATAL") ? "QUIT\n" : "";
  });
  CHECK(status == 0);
  CHECK_THAT(seen, Contains("DONE"));
  const size_t note = seen.find("INFO note=the%20model%20is%20split:%20layer");
  REQUIRE(note != std::string::npos);
  CHECK(seen.find("INFO note=", note + 1) == std::string::npos);
  CHECK_THAT(seen.substr(note, seen.find('\n', note) - note), Contains("MiB%20free") && Contains("on%20the%20CPU"));
}

TEST_CASE("a buffer is brought to where it is read, and what is written or read between runs is everywhere the same") {
  const DeviceSetting setting;
  cuda_on_cpu::device.count = 2;
  const std::vector<std::shared_ptr<compute::Backend>> places = {on_device(std::chrono::steady_clock::now, {.device = 0}),
                                                                 on_device(std::chrono::steady_clock::now, {.device = 1})};
  compute::SplitBackend split(places, {{0, 1, 0}, 0, 1});
  const std::vector<std::byte> ones = gguf::f32_bytes(std::vector<float>(8, 1.0f)), twos = gguf::f32_bytes(std::vector<float>(8, 2.0f)),
                               fours = gguf::f32_bytes(std::vector<float>(8, 4.0f));
  const auto bias = [&](const std::string& name, const std::vector<std::byte>& bytes) {
    return *split.bind(name, gguf::TensorType::f32, 1, 8, bytes, compute::WeightUse::values);
  };
  const compute::Weight first = bias("blk.0.bias", ones), second = bias("blk.1.bias", twos), third = bias("blk.2.bias", fours);
  const compute::Buffer x = *split.allocate(16), untouched = *split.allocate(8), elsewhere = *split.allocate(8);
  std::vector<double> shares;
  REQUIRE(split.prepare([&](double share) { return shares.push_back(share), true; }, [](std::span<const std::byte>) {}));
  CHECK(std::is_sorted(shares.begin(), shares.end()));
  CHECK(shares.back() == 1);
  const auto values = [&](compute::Buffer buffer) {
    std::vector<float> all(8);
    split.read(buffer, 0, all);
    return all;
  };
  split.write(x, 0, std::vector<float>(16, 10.0f));
  split.write(untouched, 0, std::vector<float>(8, 5.0f));
  const uint64_t steps = split.control().steps;
  REQUIRE(split.run([&](compute::Ops& ops) { ops.add_bias(x, first, 1), ops.add_bias(x, second, 1), ops.add_bias(x, third, 1); }) == compute::RunOutcome::finished);
  CHECK(split.control().steps == steps + 3);  // all are done
  CHECK(values(x) == std::vector<float>(8, 17.0f));
  REQUIRE(split.run([&](compute::Ops& ops) { ops.add_bias(x, second, 1); }) == compute::RunOutcome::finished);  // from where the last run left it
  CHECK(values(x) == std::vector<float>(8, 19.0f));
  for (int i = 1; i <= 4; ++i) {  // op by op, recorded, replayed: two parts of one place and length are two graphs
    const auto pass = [&](compute::Ops& ops) { ops.add_bias(x, first, 1), ops.add_bias(x, second, 1), ops.add_bias(x, third, 1); };
    REQUIRE(split.run(pass, {&split, 1, 0, 0}) == compute::RunOutcome::finished);
    CHECK(values(x) == std::vector<float>(8, 19.0f + 7.0f * static_cast<float>(i)));
  }
  split.write(elsewhere, 0, std::vector<float>(8, 5.0f));
  REQUIRE(split.run([&](compute::Ops& ops) { ops.add_bias(elsewhere, second, 1); }) == compute::RunOutcome::finished);  // not where reads begin to look
  CHECK(values(elsewhere) == std::vector<float>(8, 7.0f));
  split.write(x, 0, std::vector<float>(8, 19.0f));
  split.write(x, 0, std::vector<float>(4, 0.0f));  // a part
  REQUIRE(split.run([&](compute::Ops& ops) { ops.add_bias(x, first, 1), ops.add(x, untouched, 8, 1); }) == compute::RunOutcome::finished);
  CHECK(values(x) == std::vector<float>{6, 6, 6, 6, 25, 25, 25, 25});
  CHECK(values(untouched) == std::vector<float>(8, 5.0f));
}
