// Steps that come again and again as graphs: the same bits as op by op, aborts and beats between their pieces, and going on without where they fail.
#include <catch2/catch.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "engine/compute/cuda/step_graphs.hpp"
#include "tests/cuda_on_cpu/device_support.hpp"
#include "tests/engine/model_support.hpp"

using namespace vigil;
using namespace vigil::compute;
using Catch::Matchers::Contains;
using cuda_on_cpu::tally;
using vigil::testing::DeviceSetting;
using vigil::testing::TinyLlama;
using vigil::testing::device_options;
using vigil::testing::on_device;
using vigil::testing::some_floats;

namespace {

// The scores of every step of an answer: a prompt of 20 tokens, then one at a time.
std::vector<std::vector<float>> answer(const schedule::RuntimeOptions& options) {
  TinyLlama tiny;
  const auto loaded = vigil::testing::load_tiny(tiny, options);
  cache::Sequence sequence(loaded.runtime->pool());
  const std::vector<int32_t> ids = vigil::testing::random_ids(90, tiny.vocabulary, 1);
  REQUIRE(sequence.reserve(90));
  std::vector<std::vector<float>> scores;
  for (size_t done = 0; done < ids.size();) {
    const size_t count = done < 20 ? 10 : 1;
    REQUIRE(loaded.runtime->step(sequence, std::span(ids).subspan(done, count), 1) == RunOutcome::finished);
    done += count;
    scores.emplace_back(static_cast<size_t>(tiny.vocabulary));
    loaded.runtime->read_scores(0, scores.back());
  }
  return scores;
}

// a += b, so many times in a run of this kind.
struct Sums {
  explicit Sums(cuda::Clock clock = std::chrono::steady_clock::now) : backend(on_device(std::move(clock))) {
    backend->write(a, 0, std::vector<float>(8, 0.0f));
    backend->write(b, 0, std::vector<float>(8, 1.0f));
  }
  RunOutcome run(int64_t rows = 1) {
    return backend->run([&](Ops& ops) {
      for (int i = 0; i < ops_of_a_run; ++i) ops.add(a, b, 8, 1);
    }, {this, rows, 1, 0});
  }
  float sum() const {
    float value = 0;
    backend->read(a, 7, {&value, 1});
    return value;
  }
  uint64_t steps() const { return backend->control().steps; }

  int ops_of_a_run = 300;
  std::unique_ptr<Backend> backend;
  Buffer a = *backend->allocate(8), b = *backend->allocate(8);
};

}  // namespace

TEST_CASE("an answer has the same bits with graphs and without") {
  const auto before = tally;
  schedule::RuntimeOptions options = device_options();
  options.backend.gpu.graphs = false;
  const auto plain = answer(options);
  CHECK(tally.graphs_made == before.graphs_made);
  CHECK(answer(device_options()) == plain);
  CHECK(tally.graphs_made - before.graphs_made == 2);
  CHECK(tally.graphs_launched - before.graphs_launched == 1 + 69);  // of the prompt's two chunks the second, of 70 tokens all but the first
}

TEST_CASE("the first step of a kind runs op by op, the second is recorded, and later ones are replayed without asking for their ops") {
  Sums sums;
  const auto before = tally;
  REQUIRE(sums.run() == RunOutcome::finished);
  CHECK(tally.graphs_made == before.graphs_made);
  REQUIRE(sums.run() == RunOutcome::finished);
  const size_t pieces = tally.graphs_made - before.graphs_made;
  CHECK(pieces == 5);  // 300 ops, 64 in each but the last
  CHECK(sums.sum() == 600);
  sums.ops_of_a_run = 1;  // which the kind forbids: so it shows that nobody asks
  REQUIRE(sums.run() == RunOutcome::finished);
  CHECK(sums.sum() == 900);
  CHECK(tally.graphs_made - before.graphs_made == pieces);
  CHECK(tally.graphs_launched - before.graphs_launched == 2 * pieces);
  REQUIRE(sums.run(2) == RunOutcome::finished);  // another kind
  CHECK(sums.sum() == 901);
}

TEST_CASE("large steps and runs of no kind are never recorded, and of many kinds the latest are kept") {
  Sums sums;
  sums.ops_of_a_run = 1;
  const auto before = tally;
  for (int i = 0; i < 3; ++i) {
    sums.run(cuda::most_graph_rows + 1);
    sums.backend->run([&](Ops& ops) { ops.add(sums.a, sums.b, 8, 1); });
  }
  CHECK(tally.graphs_made == before.graphs_made);
  const int64_t kinds = cuda::most_graph_kinds + 8;
  for (int64_t rows = 1; rows <= kinds; ++rows) sums.run(rows), sums.run(rows);
  CHECK(tally.graphs_made - before.graphs_made == static_cast<size_t>(kinds));
  CHECK(tally.graphs_gone - before.graphs_gone == 8);
  const auto full = tally;
  sums.run(kinds), sums.run(kinds - static_cast<int64_t>(cuda::most_graph_kinds) + 1);
  CHECK(tally.graphs_launched - full.graphs_launched == 2);
  sums.run(1);
  CHECK(tally.graphs_launched - full.graphs_launched == 2);  // it has gone
}

TEST_CASE("a step that is cut into many runs is one kind, and goes with all of them") {
  Sums sums;
  const auto step = [&](int64_t rows) {
    for (int64_t part = 0; part < 100; ++part) {
      sums.backend->run([&](Ops& ops) { ops.add(sums.a, sums.b, 8, 1); }, {&sums, rows, 1, 0, part, 1});
    }
  };
  const auto before = tally;
  for (int i = 0; i < 4; ++i) step(1);
  CHECK(tally.graphs_made - before.graphs_made == 100);
  CHECK(tally.graphs_launched - before.graphs_launched == 300);
  CHECK(sums.sum() == 400);
  for (int64_t rows = 2; rows <= static_cast<int64_t>(cuda::most_graph_kinds) + 1; ++rows) sums.run(rows);
  CHECK(tally.graphs_gone - before.graphs_gone == 100);
}

TEST_CASE("a graph that was recorded with other places of a step's words or scratch is made anew") {
  const auto backend = on_device();
  const int64_t rows = 40, cols = 64;
  const std::vector<float> values = some_floats(static_cast<size_t>(rows * cols));
  const std::vector<std::byte> bytes = gguf::f32_bytes(values);
  const Weight table = *backend->bind("t", gguf::TensorType::f32, rows, cols, bytes, WeightUse::lookup);
  const Buffer x = *backend->allocate(16 * cols), out = *backend->allocate(16 * rows);
  REQUIRE(backend->prepare([](double) { return true; }, [](std::span<const std::byte>) {}));
  const auto row_of = [&](StepData& step, int32_t id) {
    step.ids()[0] = id;
    backend->upload(step);
    const auto forward = [&](Ops& ops) { ops.embed(table, x, 1), ops.matmul(table, x, out, 1); };
    REQUIRE(backend->run(forward, {&table, 1, 0, 0}) == RunOutcome::finished);
    std::vector<float> row(static_cast<size_t>(cols));
    backend->read(x, 0, row);
    return row;
  };
  const auto expected = [&](int32_t id) { return std::vector<float>(values.begin() + id * cols, values.begin() + (id + 1) * cols); };
  StepData small({1, 1, 1, 1}), large({64, 1, 4, 500});
  for (const int32_t id : {3, 4, 5}) CHECK(row_of(small, id) == expected(id));
  const auto replayed = tally;
  for (const int32_t id : {6, 7, 8}) CHECK(row_of(large, id) == expected(id));  // the step's words have moved
  CHECK(tally.graphs_made - replayed.graphs_made == 1);
  CHECK(tally.graphs_gone - replayed.graphs_gone == 1);
  for (const int32_t id : {9, 10, 11}) CHECK(row_of(small, id) == expected(id));  // the same memory in another order
  const auto before_growth = tally;
  backend->run([&](Ops& ops) { ops.matmul(table, x, out, 16); });  // more scratch: what there was has gone
  for (const int32_t id : {12, 13, 14}) CHECK(row_of(small, id) == expected(id));
  CHECK(tally.graphs_made - before_growth.graphs_made == 1);
  CHECK(tally.graphs_gone - before_growth.graphs_gone == 1);
}

TEST_CASE("an abort ends a replayed step between two of its pieces") {
  const DeviceSetting setting;
  Control* control = nullptr;
  bool abort_in_a_wait = false;
  Sums sums([&] {
    if (abort_in_a_wait) control->abort = true;
    return std::chrono::steady_clock::time_point{};
  });
  control = &sums.backend->control();
  for (int i = 0; i < 3; ++i) REQUIRE(sums.run() == RunOutcome::finished);
  CHECK(sums.sum() == 900);
  control->abort = true;
  CHECK(sums.run() == RunOutcome::aborted);
  CHECK(sums.sum() == 900);
  control->abort = false;
  cuda_on_cpu::device.unready_queries = 20;
  abort_in_a_wait = true;
  CHECK(sums.run() == RunOutcome::aborted);
  abort_in_a_wait = false;
  CHECK(sums.sum() == 900 + 3 * 64);  // the host is two pieces ahead, and waits when it has issued a third
  control->abort = false;
  CHECK(sums.run() == RunOutcome::finished);
  CHECK(sums.sum() == 900 + 3 * 64 + 300);
}

TEST_CASE("a recording that is aborted leaves no part of itself") {
  Sums sums;
  REQUIRE(sums.run() == RunOutcome::finished);
  const auto before = tally;
  const RunOutcome outcome = sums.backend->run([&](Ops& ops) {
    for (int i = 0; i < 100; ++i) ops.add(sums.a, sums.b, 8, 1);
    sums.backend->control().abort = true;  // as another thread would
    for (int i = 0; i < 200; ++i) ops.add(sums.a, sums.b, 8, 1);
  }, {&sums, 1, 1, 0});
  CHECK(outcome == RunOutcome::aborted);
  sums.backend->control().abort = false;
  CHECK(tally.graphs_made - tally.graphs_gone == before.graphs_made - before.graphs_gone);
  CHECK(sums.sum() == 300);
  for (int i = 0; i < 2; ++i) REQUIRE(sums.run() == RunOutcome::finished);
  CHECK(sums.sum() == 900);
  CHECK(sums.backend->notes().empty());
}

TEST_CASE("finished pieces of a replayed step count as steps, and a device that hangs in one is given up after the limit") {
  const DeviceSetting setting;
  auto now = std::chrono::steady_clock::time_point{};
  Sums sums([&] { return now += std::chrono::seconds(1); });
  const uint64_t none = sums.steps();
  for (int i = 0; i < 3; ++i) REQUIRE(sums.run() == RunOutcome::finished);
  CHECK(sums.steps() == none + 900);
  cuda_on_cpu::device.unready_queries = -1;
  CHECK_THROWS_WITH(sums.run(), Contains("nothing was finished for 60 s"));
  CHECK(sums.steps() == none + 900);
}

TEST_CASE("where graphs cannot be made steps go on op by op, and one note says why") {
  const DeviceSetting setting;
  cuda_on_cpu::device.graphs = cudaErrorMemoryAllocation;
  Sums sums;
  for (const int64_t rows : {1, 2, 1, 2, 1, 2}) REQUIRE(sums.run(rows) == RunOutcome::finished);
  CHECK(sums.sum() == 1800);
  REQUIRE(sums.backend->notes().size() == 1);
  CHECK_THAT(sums.backend->notes()[0], Contains("op by op") && Contains("making a graph failed: cudaErrorMemoryAllocation"));
}

TEST_CASE("an op that no graph can hold is computed op by op") {
  Sums sums;
  const auto forward = [&](Ops& ops) {
    ops.add(sums.a, sums.b, 8, 1);
    void* memory = nullptr;
    static_cast<void>(cudaMalloc(&memory, 64));
    ops.add(sums.a, sums.b, 8, 1);
    static_cast<void>(cudaFree(memory));
  };
  for (int i = 0; i < 3; ++i) REQUIRE(sums.backend->run(forward, {&sums, 1, 0, 0}) == RunOutcome::finished);
  CHECK(sums.sum() == 6);
  REQUIRE(sums.backend->notes().size() == 1);
  CHECK_THAT(sums.backend->notes()[0], Contains("recording an op failed: cudaErrorStreamCaptureUnsupported"));
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("an engine that goes on without graphs says so in one line, and its answer is whole") {
  const DeviceSetting setting;
  cuda_on_cpu::device.graphs = cudaErrorMemoryAllocation;
  TinyLlama tiny;
  std::string seen;
  const int status = vigil::testing::run_engine(tiny.bytes(), device_options(), [&](std::string_view line) -> std::string {
    seen += line;
    if (line.starts_with("READY")) return "GEN 6 1,2,3\n";
    return line.starts_with("DONE") || line.starts_with("ERR") || line.starts_with("FATAL") ? "QUIT\n" : "";
  });
  CHECK(status == 0);
  CHECK_THAT(seen, Contains("DONE"));
  const size_t note = seen.find("INFO note=steps%20are%20launched%20op%20by%20op");
  REQUIRE(note != std::string::npos);
  CHECK(note > seen.find("READY"));
  CHECK(seen.find("INFO note=", note + 1) == std::string::npos);
}
