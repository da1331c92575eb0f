// Layers on a GPU whose experts are in RAM, with copies of some beside the layer: the answers are those of one place but for rounding, whichever
// experts have copies; copies go to the experts that are used, between requests only, and never over the room there is.
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
using cuda_on_cpu::bytes_to_host;
using tools::RandomModel;

namespace {

RandomModel model_of(const std::string& architecture, int64_t layers = 4) {
  RandomModel model;
  model.architecture = architecture;
  model.layers = layers;
  model.type = gguf::TensorType::f32;
  model.seed = 3;
  model.experts = 8;
  model.experts_used = 3;
  return model;
}

const std::vector<std::string> with_experts = {"qwen3moe", "gpt-oss", "qwen35moe", "qwen3next"};

schedule::RuntimeOptions with_copies(int64_t copies) {
  schedule::RuntimeOptions options = on_gpus(1);
  options.gpu_experts = copies;
  return options;
}

// Devices whose host calls `wait` each time it begins to wait for one: the middle of a step.
schedule::RuntimeOptions with_waits(schedule::RuntimeOptions options, const std::function<void()>& wait) {
  options.backend.gpus = [wait]() -> Result<compute::GpuSource> {
    return compute::GpuSource{1, [wait](const compute::GpuOptions& gpu) {
      return compute::cuda::CudaBackend::make(gpu, [wait] { return wait(), std::chrono::steady_clock::time_point{}; });
    }};
  };
  return options;
}

}  // namespace

TEST_CASE("experts in RAM with copies of none, some and most on the GPU give the same but for rounding, in every architecture that has any") {
  const DeviceSetting setting;
  for (const std::string& name : with_experts) {
    const RandomModel model = model_of(name, 2);
    const std::vector<int32_t> ids = random_ids(26, model.vocabulary, 2);
    const auto whole = load_random(model, on_gpus(1));
    const auto expected = scores_of(*whole.runtime, ids);
    for (const int64_t copies : {0, 1, 5}) {
      INFO(name << " with " << copies << " of 8 experts on the GPU");
      const auto apart = load_random(model, with_copies(copies));
      CHECK_THAT(note_of(*apart.runtime), Contains("the model is split: layers 0 to 1 and the output on GPU (") &&
                                              Contains("the embedding on the CPU, experts of layers 0 to 1 in RAM, " + std::to_string(copies) + " of 8 a layer on GPU"));
      const auto ours = scores_of(*apart.runtime, ids);
      CHECK(worst_share(ours, expected) < 1e-4);
      CHECK(scores_of(*apart.runtime, ids) == ours);  // nothing has rested: the same copies, the same bits
      for (int i = 0; i < 3; ++i) apart.runtime->backend().rest();
      CHECK(worst_share(scores_of(*apart.runtime, ids), expected) < 1e-4);
    }
  }
}

TEST_CASE("a GPU with copies of all experts gives the bits that it gives alone, and the host reads the choices only") {
  const DeviceSetting setting;
  for (const std::string& name : with_experts) {
    INFO(name);
    const RandomModel model = model_of(name, 2);
    const std::vector<int32_t> ids = random_ids(26, model.vocabulary, 2);
    schedule::RuntimeOptions options = on_gpus(1);
    const auto read_by = [&](schedule::Runtime& runtime, std::vector<std::vector<float>>& scores) {
      const size_t before = bytes_to_host();
      scores = scores_of(runtime, ids);
      return bytes_to_host() - before;
    };
    std::vector<std::vector<float>> expected, ours;
    const auto whole = load_random(model, options);
    const size_t by_whole = read_by(*whole.runtime, expected);
    options.backend.make = [] {
      Result<std::unique_ptr<compute::Backend>> cpu = compute::make_backend({"cpu", 1});
      const std::vector<std::shared_ptr<compute::Backend>> places = {std::move(*cpu), on_device()};
      const compute::LayerPlaces layers{{1, 1}, 1, 1, {{0, 0}, {8, 8}, 8, 0}};
      return Result<std::unique_ptr<compute::Backend>>(std::make_unique<compute::SplitBackend>(places, layers));
    };
    const auto apart = load_random(model, options);
    const size_t by_apart = read_by(*apart.runtime, ours);
    CHECK(ours == expected);
    CHECK(by_apart - by_whole == ids.size() * 3 * 2 * sizeof(float) * 2);  // rows, choices, layers
  }
}

TEST_CASE("with experts in RAM a row's bits do not depend on the other rows of its step") {
  const DeviceSetting setting;
  for (const std::string& name : with_experts) {
    INFO(name);
    const RandomModel model = model_of(name, 2);
    const std::vector<int32_t> ids = random_ids(32, model.vocabulary, 2);
    const auto apart = load_random(model, with_copies(3));
    std::vector<std::vector<float>> last;
    for (const size_t chunk : {1, 3, 16}) {
      cache::Sequence sequence(apart.runtime->pool());
      for (size_t done = 0; done < ids.size();) {
        const size_t count = std::min(chunk, ids.size() - done);
        REQUIRE(sequence.reserve(static_cast<int64_t>(count)));
        REQUIRE(apart.runtime->step(sequence, std::span(ids).subspan(done, count), 1) == compute::RunOutcome::finished);
        done += count;
      }
      last.emplace_back(static_cast<size_t>(model.vocabulary));
      apart.runtime->read_scores(0, last.back());
    }
    CHECK(last[0] == last[1]);
    CHECK(last[0] == last[2]);
  }
}

TEST_CASE("answers are those of one place, while copies change between requests") {
  const DeviceSetting setting;
  for (const std::string& name : with_experts) {
    INFO(name);
    const RandomModel model = model_of(name, 2);
    const std::vector<std::vector<int32_t>> prompts = {random_ids(17, model.vocabulary, 1), random_ids(9, model.vocabulary, 2)};
    Serving whole(load_random(model, on_gpus(1)));
    Serving apart(load_random(model, with_copies(3)));
    for (const std::vector<int32_t>& prompt : prompts) CHECK(apart.run(prompt, 8).ids == whole.run(prompt, 8).ids);
  }
}

TEST_CASE("requests at once get what each gets alone") {
  const DeviceSetting setting;
  const RandomModel model = model_of("gpt-oss");
  schedule::RuntimeOptions options = with_copies(4);
  options.slots = 2;
  options.expert_swap_mib = 0;
  const std::vector<int32_t> first = random_ids(20, model.vocabulary, 1), second = random_ids(7, model.vocabulary, 2);
  Serving alone(load_random(model, options));
  const std::vector<int32_t> expected_first = alone.run(first, 15).ids, expected_second = alone.run(second, 15).ids;
  Serving together(load_random(model, options));
  const auto a = together.push(first, 15), b = together.push(second, 15);
  together.finish();
  CHECK(together.said[a].ids == expected_first);
  CHECK(together.said[b].ids == expected_second);
}

TEST_CASE("copies go to the experts that requests use, as far as may be changed between two") {
  const DeviceSetting setting;
  RandomModel model = model_of("qwen3moe", 2);
  model.experts = 16;
  model.experts_used = 2;
  model.ff = 1024;  // an expert has 768 KiB
  schedule::RuntimeOptions options = with_copies(4);
  options.cache_mib = -1;
  const std::vector<int32_t> prompt = random_ids(4, model.vocabulary, 1);
  const auto read_by_run = [&](Serving& serving) {
    const size_t before = bytes_to_host();
    CHECK(serving.run(prompt, 8).ids.size() == 8);
    return bytes_to_host() - before;
  };
  std::vector<size_t> read;
  for (const int64_t mib : {0, 1, 128}) {
    options.expert_swap_mib = mib;
    Serving serving(load_random(model, options));
    const size_t first = read_by_run(serving);
    read.push_back(first);
    const size_t second = read_by_run(serving), third = read_by_run(serving);
    INFO(mib << " MiB: " << first << ", then " << second << " and " << third << " bytes were read from the GPU");
    if (mib == 0) CHECK(second == first);
    if (mib == 0) CHECK(third == first);
    if (mib == 1) CHECK(second <= first);  // one expert of one layer
    if (mib == 128) CHECK(second < first);
    read.push_back(second);
  }
  CHECK(read[0] == read[2]);
  CHECK(read[0] == read[4]);
  CHECK(read[5] <= read[3]);
}

TEST_CASE("copies of experts stay within the memory there is, and no step takes any") {
  const DeviceSetting setting;
  RandomModel model = model_of("qwen3moe");
  model.experts = 16;
  model.ff = 256;  // an expert has 192 KiB
  const std::vector<int32_t> ids = random_ids(26, model.vocabulary, 2);
  const auto whole = load_random(model, on_gpus(1));
  const auto expected = scores_of(*whole.runtime, ids);
  schedule::RuntimeOptions options = on_gpus(1);
  options.cache_mib = -1;
  const size_t before = allocated_bytes();
  int64_t last = 17;
  for (const size_t mib : {12, 5}) {
    for (const int64_t reserve : {0, 1}) {
      INFO(mib << " MiB with " << reserve << " in reserve");
      options.gpu_reserve_mib = reserve;
      cuda_on_cpu::device.memory_bytes[0] = before + (mib << 20);
      const auto apart = load_random(model, options);
      CHECK(allocated_bytes() - before <= (mib - static_cast<size_t>(reserve)) << 20);
      CHECK(allocated_bytes() - before > (mib - static_cast<size_t>(reserve) - 1) << 20);  // one expert of each layer is 768 KiB
      const std::string note = note_of(*apart.runtime);
      CHECK_THAT(note, Contains("experts of layers 0 to 3 in RAM, ") && Contains(" of 16 a layer on GPU"));
      const int64_t copies = std::stoll(note.substr(note.find("in RAM, ") + 8));
      CHECK(copies < last);
      last = copies;
      const size_t loaded = allocated_bytes();
      CHECK(worst_share(scores_of(*apart.runtime, ids), expected) < 1e-4);
      if (reserve == 0) continue;
      apart.runtime->backend().rest();
      CHECK(worst_share(scores_of(*apart.runtime, ids), expected) < 1e-4);
      CHECK(allocated_bytes() == loaded);
    }
  }
  options.gpu_experts = 12;
  const auto refused = try_load(random_file(model), options);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error(), Contains("12 of 16 experts of each layer on the GPU do not fit") && Contains("would fit (--gpu-experts "));
  options.gpu_experts = 1;
  CHECK_THAT(try_load(random_file(model_of("llama")), options).error(), Contains("--gpu-experts 1: the model has no experts"));
  CHECK(try_load(random_file(model), options));
}

TEST_CASE("the largest context that fits is planned beside the copies of experts, and the reserve stays free") {
  const DeviceSetting setting;
  RandomModel model = model_of("qwen3moe");
  model.ff = 1024;
  model.context = 1 << 17;
  schedule::RuntimeOptions options = with_copies(4);  // 12 MiB
  options.context = 0;
  cuda_on_cpu::device.memory_bytes[0] = allocated_bytes() + (size_t{64} << 20);
  for (const size_t reserve : {5, 20}) {
    options.gpu_reserve_mib = static_cast<int64_t>(reserve);
    const auto loaded = load_random(model, options);
    const size_t free = cuda_on_cpu::device.memory_bytes[0] - allocated_bytes();
    CHECK(free >= reserve << 20);
    CHECK(free < (reserve + 4) << 20);
  }
}

TEST_CASE("where RAM has no room for all experts layers are whole, and a note says why") {
  const DeviceSetting setting;
  RandomModel model = model_of("qwen3moe");
  model.ff = 1024;  // about 6 MiB of experts a layer
  schedule::RuntimeOptions options = on_gpus(1);
  options.backend.backend = "auto";
  options.gpu_reserve_mib = 0;
  options.cache_mib = -1;
  options.available_bytes = size_t{22} << 20;  // of which 80 % may be planned
  cuda_on_cpu::device.memory_bytes[0] = allocated_bytes() + (size_t{16} << 20);
  const auto loaded = load_random(model, options);
  CHECK(loaded.runtime->backend().on_gpu());
  CHECK_THAT(note_of(*loaded.runtime), Contains("layers are whole, experts in RAM are not possible: "));
}

TEST_CASE("layers whose experts are in RAM may be on several GPUs") {
  const DeviceSetting setting;
  const RandomModel model = model_of("gpt-oss");
  const std::vector<int32_t> ids = random_ids(30, model.vocabulary, 2);
  const auto whole = load_random(model, on_gpus(1));
  const auto expected = scores_of(*whole.runtime, ids);
  schedule::RuntimeOptions options = on_gpus(2);
  options.layer_split = {1, 1};
  options.gpu_experts = 3;
  const auto apart = load_random(model, options);
  CHECK_THAT(note_of(*apart.runtime), Contains("3 of 8 a layer on GPU0, experts of layers") && Contains("3 of 8 a layer on GPU1"));
  CHECK(worst_share(scores_of(*apart.runtime, ids), expected) < 1e-4);
  for (int i = 0; i < 3; ++i) apart.runtime->backend().rest();
  CHECK(worst_share(scores_of(*apart.runtime, ids), expected) < 1e-4);
}

TEST_CASE("a model that fits on several GPUs with its experts has them there") {
  const DeviceSetting setting;
  RandomModel model = model_of("qwen3moe");
  model.ff = 256;  // 1.5 MiB of experts a layer
  schedule::RuntimeOptions options = on_gpus(2);
  options.backend.backend = "auto";
  options.gpu_reserve_mib = 0;
  options.cache_mib = -1;
  for (const int device : {0, 1}) cuda_on_cpu::device.memory_bytes[static_cast<size_t>(device)] = allocated_bytes(device) + (size_t{5} << 20);
  const auto both = load_random(model, options);
  CHECK_THAT(note_of(*both.runtime), Contains("on GPU0 (") && Contains("and the output on GPU1 (") && !Contains("in RAM"));
}

TEST_CASE("experts of types that the GPU has no product of are copied as halves") {
  const DeviceSetting setting;
  RandomModel model = model_of("qwen3moe");
  model.type = gguf::TensorType::q2_k;
  model.layers = 2;
  model.width = model.ff = 256;
  const std::vector<int32_t> ids = random_ids(26, model.vocabulary, 2);
  const auto whole = load_random(model, on_gpus(1));
  const auto apart = load_random(model, with_copies(4));
  CHECK(worst_share(scores_of(*apart.runtime, ids), scores_of(*whole.runtime, ids)) < 0.1);  // the CPU rounds inputs to eight bits
}

TEST_CASE("the steps of such a model are replayed as graphs between the choices of experts, with the same bits") {
  const DeviceSetting setting;
  const RandomModel model = model_of("qwen35moe");
  const std::vector<int32_t> ids = random_ids(60, model.vocabulary, 2);
  schedule::RuntimeOptions options = with_copies(3);
  options.backend.gpu.graphs = false;
  const auto plain = load_random(model, options);
  const auto expected = scores_of(*plain.runtime, ids);
  options.backend.gpu.graphs = true;
  const auto with_graphs = load_random(model, options);
  const auto before = cuda_on_cpu::tally;
  CHECK(scores_of(*with_graphs.runtime, ids) == expected);
  const size_t made = cuda_on_cpu::tally.graphs_made - before.graphs_made, launched = cuda_on_cpu::tally.graphs_launched - before.graphs_launched;
  CHECK(made <= 2 * (5 + 4));  // of a prompt's chunk and of a token: five parts between four choices, and the copies of each
  CHECK(made > 9);
  CHECK(launched > 33 * 5);
  CHECK(scores_of(*with_graphs.runtime, ids) == expected);
  CHECK(cuda_on_cpu::tally.graphs_made - before.graphs_made <= 18);
}

TEST_CASE("a step that is aborted anywhere leaves no trace where experts are in RAM") {
  const DeviceSetting setting;
  for (const std::string name : {"gpt-oss", "qwen35moe"}) {
    INFO(name);
    const RandomModel model = model_of(name, 2);
    const std::vector<int32_t> ids = random_ids(26, model.vocabulary, 2);
    int waits = 0;
    compute::Control* control = nullptr;
    const auto apart = load_random(model, with_waits(with_copies(3), [&] {
      if (--waits == 0) control->abort = true;
    }));
    schedule::Runtime& runtime = *apart.runtime;
    control = &runtime.backend().control();
    const auto expected = scores_of(runtime, ids);
    int aborted = 0;
    for (int at = 1; at < 11; at += 2) {
      cache::Sequence sequence(runtime.pool());
      REQUIRE(sequence.reserve(12));
      REQUIRE(runtime.step(sequence, std::span(ids).first(12), 1) == compute::RunOutcome::finished);
      REQUIRE(sequence.reserve(12));
      waits = at;
      const bool whole = runtime.step(sequence, std::span(ids).subspan(12, 12), 1) == compute::RunOutcome::finished;
      waits = 0;
      control->abort = false;
      if (!whole) {
        ++aborted;
        REQUIRE(runtime.step(sequence, std::span(ids).subspan(12, 12), 1) == compute::RunOutcome::finished);
      }
      std::vector<float> scores(static_cast<size_t>(model.vocabulary));
      runtime.read_scores(0, scores);
      CHECK(scores == expected[1]);
    }
    CHECK(aborted > 3);
  }
}

TEST_CASE("a device that is lost anywhere in a step, or while copies change, says so") {
  const DeviceSetting setting;
  const RandomModel model = model_of("gpt-oss");
  const std::vector<int32_t> ids = random_ids(12, model.vocabulary, 2);
  int lost = 0;
  for (const int at : {1, 3, 6, 10, 15}) {
    int waits = 0;
    const auto apart = load_random(model, with_waits(with_copies(3), [&] {
      if (--waits == 0) cuda_on_cpu::device.sticky = cudaErrorIllegalAddress;
    }));
    cache::Sequence sequence(apart.runtime->pool());
    REQUIRE(sequence.reserve(12));
    waits = at;
    try {
      apart.runtime->step(sequence, ids, 1);
    } catch (const compute::DeviceLost&) {
      ++lost;
    }
    cuda_on_cpu::device.sticky = cudaSuccess;
    waits = 0;
  }
  CHECK(lost == 5);
  Serving serving(load_random(model, with_copies(3)));
  serving.push(ids, 3);
  serving.watch = [](protocol::RequestTag, const protocol::EngineEvent& event) {
    if (std::holds_alternative<protocol::Done>(event)) cuda_on_cpu::device.sticky = cudaErrorIllegalAddress;
  };
  CHECK_THROWS_AS(serving.finish(), compute::DeviceLost);
  cuda_on_cpu::device.sticky = cudaSuccess;  // what the model has is given back
}

TEST_CASE("an engine whose experts are in RAM says so in one line with numbers") {
  const DeviceSetting setting;
  RandomModel model = model_of("qwen3moe");
  model.ff = 512;
  schedule::RuntimeOptions options = on_gpus(1);
  options.backend.backend = "auto";
  cuda_on_cpu::device.memory_bytes[0] = allocated_bytes() + (size_t{6} << 20);
  std::string seen;
  const int status = run_engine(random_file(model), options, [&](std::string_view line) -> std::string {
    seen += line;
    if (line.starts_with("READY")) return "GEN 4 1,2,3\n";
    return line.starts_with("INFO experts_chosen") || line.starts_with("ERR") || line.starts_with("FATAL") ? "QUIT\n" : "";
  });
  CHECK(status == 0);
  CHECK_THAT(seen, Contains("DONE"));
  const size_t note = seen.find("INFO note=the%20model%20is%20split:%20layers%200%20to%203");
  REQUIRE(note != std::string::npos);
  CHECK(seen.find("INFO note=", note + 1) == std::string::npos);
  CHECK_THAT(seen.substr(note, seen.find('\n', note) - note), Contains("experts%20of%20layers%200%20to%203%20in%20RAM,%20") && Contains("%20of%208%20a%20layer%20on%20GPU"));
  const size_t figures = seen.find("INFO experts_chosen=72 experts_on_gpu=");  // 6 rows, 3 experts each, 4 layers
  REQUIRE(figures != std::string::npos);
  CHECK(std::stoi(seen.substr(seen.find("on_gpu=", figures) + 7)) < 72);
  CHECK(std::stoi(seen.substr(seen.find("experts_changed=", figures) + 16)) > 0);
}
