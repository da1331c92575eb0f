// Every architecture on random models: the same bits however a prompt is cut and whoever computes it, no trace of an aborted step, and
// errors that name what is wrong. That the numbers are right is tests/shared's matter.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <thread>

#include "engine/compute/cpu/dequantise.hpp"
#include "model_support.hpp"
#include "tools/random_model.hpp"

using namespace vigil;
using namespace vigil::testing;
using tools::RandomModel;

namespace {

constexpr int64_t prompt_tokens = 150;  // three KV blocks, many windows

std::vector<std::byte> file_of(const RandomModel& model, const std::function<void(gguf::Writer&)>& edit = {}) {
  gguf::Writer writer;
  const Result<void> added = tools::add_random_model(model, writer);
  if (!added) FAIL(added.error());
  writer.put_string("tokenizer.ggml.model", "none");
  if (edit) edit(writer);
  return writer.bytes();
}

std::unique_ptr<schedule::Runtime> load(const std::vector<std::byte>& bytes, int threads, compute::KvType kv = compute::KvType::f16,
                                        const std::string& backend = "auto") {
  schedule::RuntimeOptions options;
  options.backend.backend = backend;
  options.backend.threads = threads;
  options.kv_type = kv;
  auto runtime = try_load(bytes, options);
  if (!runtime) FAIL(runtime.error());
  return std::move(*runtime);
}

std::vector<float> scores_of(schedule::Runtime& runtime) {
  std::vector<float> scores(static_cast<size_t>(runtime.model().vocabulary()));
  runtime.read_scores(0, scores);
  return scores;
}

std::vector<float> scores_after(schedule::Runtime& runtime, std::span<const int32_t> ids, int64_t chunk) {
  cache::Sequence sequence(runtime.pool());
  while (sequence.length() < static_cast<int64_t>(ids.size())) {
    const int64_t count = std::min(chunk, static_cast<int64_t>(ids.size()) - sequence.length());
    REQUIRE(sequence.reserve(count));
    const auto part = ids.subspan(static_cast<size_t>(sequence.length()), static_cast<size_t>(count));
    REQUIRE(runtime.step(sequence, part, 1) == compute::RunOutcome::finished);
  }
  return scores_of(runtime);
}

void check_means_something(const std::vector<float>& scores) {
  double square = 0;
  for (const float score : scores) square += static_cast<double>(score) * static_cast<double>(score);
  CHECK(std::isfinite(square));
  CHECK(std::sqrt(square / static_cast<double>(scores.size())) > 0.5);
}

void check_refused(const std::string& word, const RandomModel& model, const std::function<void(gguf::Writer&)>& edit = {}) {
  const auto runtime = try_load(file_of(model, edit));
  INFO(model.architecture << ": " << word);
  REQUIRE_FALSE(runtime);
  CAPTURE(runtime.error());
  CHECK(runtime.error().find(word) != std::string::npos);
}

}  // namespace

TEST_CASE("the same bits in every architecture whatever the chunks and threads") {
  for (const std::string& name : tools::random_architectures()) {
    INFO(name);
    RandomModel model;
    model.architecture = name;
    const std::vector<std::byte> bytes = file_of(model);
    const std::vector<int32_t> ids = random_ids(prompt_tokens, model.vocabulary, 3);
    const auto single = load(bytes, 1), team = load(bytes, 3);
    const std::vector<float> whole = scores_after(*single, ids, prompt_tokens);
    check_means_something(whole);
    for (const int64_t chunk : {int64_t{1}, int64_t{7}, int64_t{64}}) CHECK(scores_after(*single, ids, chunk) == whole);
    CHECK(scores_after(*team, ids, prompt_tokens) == whole);
    CHECK(scores_after(*team, ids, 33) == whole);
    CHECK(scores_after(*single, std::span(ids).first(prompt_tokens - 1), 50) != whole);
  }
}

TEST_CASE("the same bits in every weight type whatever the chunks and threads") {
  using T = gguf::TensorType;
  for (const T type : {T::f32, T::bf16, T::q4_0, T::q4_1, T::q5_0, T::q5_1, T::q8_0, T::q2_k, T::q3_k, T::q4_k, T::q5_k, T::q6_k, T::iq4_nl, T::iq4_xs,
                       T::mxfp4, T::iq1_s, T::iq1_m, T::iq2_xxs, T::iq2_xs, T::iq2_s, T::iq3_xxs, T::iq3_s, T::tq1_0, T::tq2_0, T::q1_0, T::q2_0,
                       T::nvfp4}) {
    for (const char* architecture : {"qwen3", "qwen3moe"}) {
      INFO(architecture << " " << gguf::type_info(type)->name);
      RandomModel model;
      model.architecture = architecture;
      model.type = type;
      model.width = model.ff = 256;
      model.head_dim = 64;
      model.layers = 1;
      model.mixed = true;
      const std::vector<std::byte> bytes = file_of(model);
      const std::vector<int32_t> ids = random_ids(70, model.vocabulary, 3);
      const auto single = load(bytes, 1), team = load(bytes, 3);
      const std::vector<float> whole = scores_after(*single, ids, 70);
      check_means_something(whole);
      for (const int64_t chunk : {int64_t{1}, int64_t{5}, int64_t{64}}) CHECK(scores_after(*single, ids, chunk) == whole);
      CHECK(scores_after(*team, ids, 33) == whole);
      const auto reference = load(bytes, 1, compute::KvType::f16, "reference");
      const std::vector<float> exact = scores_after(*reference, ids, 70);
      double apart = 0, size = 0;
      for (size_t i = 0; i < exact.size(); ++i) {
        apart += std::pow(static_cast<double>(whole[i]) - static_cast<double>(exact[i]), 2);
        size += std::pow(static_cast<double>(exact[i]), 2);
      }
      CHECK(std::sqrt(apart / size) < 0.05);  // what rounding inputs to eight bits does to random weights
    }
  }
}

TEST_CASE("a step that is aborted anywhere leaves no trace in any architecture") {
  for (const std::string& name : tools::random_architectures()) {
    INFO(name);
    RandomModel model;
    model.architecture = name;
    const std::vector<std::byte> bytes = file_of(model);
    const std::vector<int32_t> ids = random_ids(prompt_tokens, model.vocabulary, 5);
    const auto runtime = load(bytes, 2);
    const std::vector<float> undisturbed = scores_after(*runtime, ids, 100);
    compute::Control& control = runtime->backend().control();
    // Where the flag meets the step is the scheduler's choice, so a try may end before it: enough tries must not.
    int aborted = 0;
    for (uint64_t attempt = 0; aborted < 3; ++attempt) {
      REQUIRE(attempt < 2000);
      cache::Sequence sequence(runtime->pool());
      REQUIRE(sequence.reserve(100));
      REQUIRE(runtime->step(sequence, std::span(ids).first(100), 0) == compute::RunOutcome::finished);
      const uint64_t target = control.steps.load() + attempt * 8 % 40;
      std::thread watcher([&] {
        while (control.steps.load() < target) std::this_thread::yield();
        control.abort = true;
      });
      REQUIRE(sequence.reserve(prompt_tokens - 100));
      const bool stopped = runtime->step(sequence, std::span(ids).subspan(100), 1) == compute::RunOutcome::aborted;
      watcher.join();
      control.abort = false;
      aborted += stopped ? 1 : 0;
      if (stopped) REQUIRE(runtime->step(sequence, std::span(ids).subspan(100), 1) == compute::RunOutcome::finished);
      CHECK(scores_of(*runtime) == undisturbed);
    }
  }
}

TEST_CASE("a quantised model computes what its weights as floats compute, in every type") {
  using T = gguf::TensorType;
  for (const T type : {T::f16, T::bf16, T::q4_0, T::q4_1, T::q5_0, T::q5_1, T::q8_0, T::q1_0, T::q2_0, T::q2_k, T::q3_k, T::q4_k, T::q5_k, T::q6_k, T::iq1_s,
                       T::iq1_m, T::iq2_xxs, T::iq2_xs, T::iq2_s, T::iq3_xxs, T::iq3_s, T::iq4_nl, T::iq4_xs, T::tq1_0, T::tq2_0, T::mxfp4, T::nvfp4}) {
    RandomModel model;
    model.architecture = "qwen3moe";
    model.type = type;
    model.width = 256;
    model.ff = 256;
    model.layers = 1;
    const std::vector<std::byte> bytes = file_of(model);
    INFO(gguf::type_info(type)->name);
    const auto source = gguf::from_memory(bytes);
    const auto file = gguf::File::parse(*source);
    REQUIRE(file);
    gguf::Writer plain;
    RandomModel only_metadata = model;
    only_metadata.type = T::f32;
    REQUIRE(tools::add_random_model(only_metadata, plain));
    std::vector<std::byte> floats = plain.bytes();  // the same shapes: its tensors are overwritten below
    const auto float_source = gguf::from_memory(floats);
    const auto float_file = gguf::File::parse(*float_source);
    REQUIRE(float_file);
    for (const gguf::Tensor& tensor : file->tensors()) {
      const gguf::Tensor* to = float_file->tensor(tensor.name);
      REQUIRE(to != nullptr);
      std::vector<float> values(static_cast<size_t>(tensor.elements()));
      compute::cpu::dequantise_row(tensor.type, bytes.data() + file->data_offset() + tensor.offset, tensor.elements(), values.data());
      std::memcpy(floats.data() + float_file->data_offset() + to->offset, values.data(), values.size() * sizeof(float));
    }
    const std::vector<int32_t> ids = random_ids(20, model.vocabulary, 9);
    const auto typed = load(bytes, 2, compute::KvType::f16, "reference"), unpacked = load(floats, 1, compute::KvType::f16, "reference");
    const std::vector<float> scores = scores_after(*typed, ids, 20);
    check_means_something(scores);
    CHECK(scores == scores_after(*unpacked, ids, 20));
  }
}

TEST_CASE("what an architecture needs and cannot have is said by name") {
  RandomModel model;
  const auto put = [](const char* key, uint32_t value) { return [=](gguf::Writer& writer) { writer.put_u32(key, value); }; };
  model.architecture = "qwen3";
  check_refused("qwen3.expert_used_count", model, put("qwen3.expert_count", 4));
  model.architecture = "qwen3moe";
  model.experts_used = 5;
  check_refused("qwen3moe.expert_used_count is 5, not between 1 and 4", model);
  model = {};
  model.architecture = "gpt-oss";
  model.window = 0;
  check_refused("gpt-oss.attention.sliding_window", model);
  model = {};
  model.architecture = "qwen35";
  model.attention_every = 3;
  check_refused("qwen35.full_attention_interval 3 leaves no layer", model);
  model.attention_every = 2;
  model.key_heads = 3;
  check_refused("qwen35.ssm.time_step_rank", model);
  model = {};
  check_refused("'blk.0.attn_sinks.weight' has no place", model, [](gguf::Writer& writer) {
    writer.add_tensor("blk.0.attn_sinks.weight", gguf::TensorType::f32, {4}, std::vector<std::byte>(16));
  });
}

TEST_CASE("recurrent state is neither reused in part nor counted as a KV cache") {
  RandomModel model;
  model.architecture = "qwen35";
  model.layers = 4;
  const std::vector<std::byte> bytes = file_of(model);
  const auto runtime = load(bytes, 1);
  CHECK(runtime->kv().shape.layers == 2);
  const std::vector<int32_t> ids = random_ids(90, model.vocabulary, 1);
  cache::Sequence sequence(runtime->pool());
  REQUIRE(sequence.reserve(60));
  REQUIRE(runtime->step(sequence, std::span(ids).first(60), 1) == compute::RunOutcome::finished);
  CHECK(sequence.reusable(std::span(ids).first(40)) == 0);
  REQUIRE(sequence.reusable(ids) == 60);
  REQUIRE(sequence.reserve(30));
  REQUIRE(runtime->step(sequence, std::span(ids).subspan(60), 1) == compute::RunOutcome::finished);
  const std::vector<float> continued = scores_of(*runtime);
  sequence.truncate(0);
  CHECK(scores_after(*runtime, ids, 90) == continued);
}
