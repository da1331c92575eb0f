// The engine against what another implementation computes: greedy tokens of stories260K, logits and dequantised rows of the golden files.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/compute/cpu/dequantise.hpp"
#include "engine/gguf/byte_source.hpp"
#include "engine/schedule/scheduler.hpp"
#include "server/json/json.hpp"

using namespace vigil;

namespace {

const std::string shared_folder = VIGIL_SHARED_DIR;

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  INFO(path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

nlohmann::json json_of(const std::string& path) { return nlohmann::json::parse(slurp(path)); }

std::vector<float> floats_of(const std::string& path) {
  const std::string bytes = slurp(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

std::unique_ptr<schedule::Runtime> load(const std::string& path, int threads = 1, const std::string& backend = "auto") {
  schedule::RuntimeOptions options;
  options.backend.backend = backend;
  options.kv_type = compute::KvType::f32;
  options.context = 512;
  options.outputs = 128;
  options.backend.threads = threads;
  auto runtime = schedule::Runtime::load(path, options, [](double) { return true; });
  INFO(path << (runtime ? "" : ": " + runtime.error()));
  REQUIRE(runtime);
  return std::move(*runtime);
}

// Greedy ids after the prompt, through the scheduler as a request takes it.
std::vector<int32_t> greedy(schedule::Runtime& runtime, const std::vector<int32_t>& prompt, int64_t count) {
  schedule::RequestQueue queue(1);
  std::vector<int32_t> ids;
  schedule::Scheduler scheduler(runtime, queue, 500, [] { return std::chrono::steady_clock::now(); }, [&](auto, protocol::EngineEvent event) {
    if (const auto* token = std::get_if<protocol::Token>(&event)) ids.push_back(token->id);
  });
  queue.push({std::nullopt, count, prompt});
  do scheduler.step();
  while (!scheduler.idle());
  return ids;
}

// The same by steps alone, going on after end tokens as the reference did.
std::vector<int32_t> raw_greedy(schedule::Runtime& runtime, std::vector<int32_t> next, size_t count) {
  cache::Sequence sequence(runtime.pool());
  std::vector<int32_t> ids;
  std::vector<float> row(static_cast<size_t>(runtime.model().vocabulary()));
  while (ids.size() < count) {
    REQUIRE(sequence.reserve(static_cast<int64_t>(next.size())));
    REQUIRE(runtime.step(sequence, next, 1) == compute::RunOutcome::finished);
    runtime.read_scores(0, row);
    ids.push_back(static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin()));
    next = {ids.back()};
  }
  return ids;
}

// How many leading steps are decided by more than `gap`.
size_t certain_steps(const nlohmann::json& gaps, double gap) {
  size_t steps = 0;
  while (steps < gaps.size() && gaps[steps].get<double>() >= gap) ++steps;
  return steps;
}

void check_prefix(const std::vector<int32_t>& ours, const std::vector<int32_t>& theirs, size_t count) {
  count = std::min(count, theirs.size());
  REQUIRE(ours.size() >= count);
  CHECK(std::vector<int32_t>(ours.begin(), ours.begin() + static_cast<std::ptrdiff_t>(count)) ==
        std::vector<int32_t>(theirs.begin(), theirs.begin() + static_cast<std::ptrdiff_t>(count)));
}

// What the float path may be off, about twice the reference's own noise.
struct Limits {
  double worst = 2e-4, rms = 2e-5;
};

struct Difference {
  double worst = 0, rms = 0;
};

// Of the scored positions' logits from the all-float reference; the prompt is read `chunk` tokens at a time.
Difference difference_from_reference(schedule::Runtime& runtime, const nlohmann::json& facts, const std::string& base, size_t chunk) {
  const auto tokens = facts.at("tokens").get<std::vector<int32_t>>();
  const auto positions = facts.at("positions").get<std::vector<size_t>>();
  const std::vector<float> expected = floats_of(base + ".ref32.logits.f32");
  const size_t width = static_cast<size_t>(runtime.model().vocabulary());
  REQUIRE(expected.size() == positions.size() * width);
  cache::Sequence sequence(runtime.pool());
  Difference difference;
  double square = 0;
  std::vector<float> row(width);
  size_t compared = 0;
  for (size_t done = 0; done < tokens.size(); done += chunk) {
    const auto part = std::span(tokens).subspan(done, std::min(chunk, tokens.size() - done));
    REQUIRE(sequence.reserve(static_cast<int64_t>(part.size())));
    REQUIRE(runtime.step(sequence, part, static_cast<int64_t>(part.size())) == compute::RunOutcome::finished);
    for (; compared < positions.size() && positions[compared] < done + part.size(); ++compared) {
      runtime.read_scores(static_cast<int64_t>(positions[compared] - done), row);
      for (size_t c = 0; c < width; ++c) {
        const double apart = static_cast<double>(row[c]) - static_cast<double>(expected[compared * width + c]);
        difference.worst = std::max(difference.worst, std::isnan(apart) ? 1e9 : std::abs(apart));
        square += apart * apart;
      }
    }
  }
  REQUIRE(compared == positions.size());
  difference.rms = std::sqrt(square / static_cast<double>(expected.size()));
  return difference;
}

// Greedy text agrees where the reference's choice is decided by more than twice the error. Returns how many steps were compared.
size_t check_greedy(schedule::Runtime& runtime, const nlohmann::json& facts, double worst) {
  const nlohmann::json& reference = facts.at("ref32_greedy");
  const auto theirs = reference.at("tokens").get<std::vector<int32_t>>();
  const auto ours = raw_greedy(runtime, facts.at("tokens").get<std::vector<int32_t>>(), theirs.size());
  const size_t certain = certain_steps(reference.at("gap"), 2 * worst);
  check_prefix(ours, theirs, certain);
  return certain;
}

std::string golden(const std::string& name) { return shared_folder + "/golden/" + name; }

// The float path.
void check_golden(const std::string& name, const Limits& limits = {}, const std::string& backend = "reference") {
  INFO(name << " on " << backend);
  const nlohmann::json facts = json_of(golden(name) + ".json");
  const auto runtime = load(golden(name) + ".gguf", 1, backend);
  const Difference difference = difference_from_reference(*runtime, facts, golden(name), 1u << 20);
  CAPTURE(difference.worst, difference.rms);
  CHECK(difference.worst <= limits.worst);
  CHECK(difference.rms <= limits.rms);
  CHECK(check_greedy(*runtime, facts, difference.worst) >= 10);
}

// The path that rounds inputs to eight bits: its error as a share of the reference's own, which rounds too.
double check_rounded_golden(const std::string& name) {
  INFO(name);
  const nlohmann::json facts = json_of(golden(name) + ".json");
  const double reference_rms = facts.at("tolerance").at("file_vs_ref32").at("rms").get<double>();
  const auto runtime = load(golden(name) + ".gguf", 1, "cpu");
  const Difference difference = difference_from_reference(*runtime, facts, golden(name), 1u << 20);
  CAPTURE(difference.worst, difference.rms, reference_rms);
  CHECK(difference.rms <= 1.5 * reference_rms);
  check_greedy(*runtime, facts, difference.worst);
  const Difference one_by_one = difference_from_reference(*runtime, facts, golden(name), 1);
  CHECK(one_by_one.worst == difference.worst);  // the same bits however the prompt is cut
  CHECK(one_by_one.rms == difference.rms);
  return difference.rms / reference_rms;
}

}  // namespace

TEST_CASE("stories260K continues every prompt as the reference does") {
  const nlohmann::json facts = json_of(shared_folder + "/models/stories260K-greedy.json");
  for (const int threads : {1, 2}) {
    const auto runtime = load(shared_folder + "/models/" + facts.at("model").get<std::string>(), threads);
    REQUIRE(facts.at("rows").size() >= 8);
    for (const nlohmann::json& row : facts.at("rows")) {
      INFO(row.at("prompt").get<std::string>());
      const auto theirs = row.at("greedy_tokens").get<std::vector<int32_t>>();
      const auto ours = greedy(*runtime, row.at("prompt_tokens").get<std::vector<int32_t>>(), static_cast<int64_t>(theirs.size()));
      check_prefix(ours, theirs, certain_steps(row.at("top2_gap"), 0.002));
    }
  }
}

TEST_CASE("golden models of every architecture give the reference's logits and text") {
  for (const char* name : {"arch-llama", "arch-llama3-tied", "arch-qwen2", "arch-qwen3", "arch-qwen3moe", "arch-gpt-oss", "arch-qwen35",
                           "arch-qwen35moe"}) {
    check_golden(name);
  }
  check_golden("arch-gemma3", {5e-3, 5e-4});  // the reference looks GELU up by a half-precision index
}

TEST_CASE("golden weight types give the reference's logits and text") {
  const nlohmann::json index = json_of(shared_folder + "/golden/quant-dequant-index.json");
  REQUIRE(index.size() == 31);
  for (const auto& [name, entry] : index.items()) check_golden(name);
}

TEST_CASE("the fast path is as near to the reference as the reference's own rounding, and in the mean nearer") {
  const nlohmann::json index = json_of(shared_folder + "/golden/quant-dequant-index.json");
  double logarithms = 0;
  int rounded = 0;
  for (const auto& [name, entry] : index.items()) {
    if (name == "quant-F16" || name == "quant-BF16") {  // nothing is rounded
      check_golden(name, {}, "cpu");
      continue;
    }
    const double share = check_rounded_golden(name);
    std::printf("%-16s error %.2f of the reference's\n", name.c_str(), share);
    logarithms += std::log(share);
    ++rounded;
  }
  const double mean = std::exp(logarithms / rounded);
  std::printf("%d weight types, geometric mean %.2f\n", rounded, mean);
  CHECK(mean <= 1.0);
  for (const char* name : {"arch-llama", "arch-llama3-tied", "arch-qwen2", "arch-qwen3", "arch-qwen35"}) check_golden(name, {}, "cpu");
  check_golden("arch-gemma3", {5e-3, 5e-4}, "cpu");
}

TEST_CASE("golden rows dequantise to the bit") {
  const nlohmann::json index = json_of(shared_folder + "/golden/quant-dequant-index.json");
  int compared = 0;
  for (const auto& [name, entry] : index.items()) {
    const std::string path = shared_folder + "/golden/" + entry.at("model_file").get<std::string>();
    const auto source = gguf::open_pread(path);
    REQUIRE(source);
    const auto file = gguf::File::parse(**source);
    REQUIRE(file);
    for (const nlohmann::json& row : entry.at("tensors")) {
      const gguf::Tensor* tensor = file->tensor(row.at("tensor").get<std::string>());
      INFO(name << " " << row.at("tensor").get<std::string>());
      REQUIRE(tensor != nullptr);
      REQUIRE(compute::cpu::can_dequantise(tensor->type));
      const std::vector<float> expected = floats_of(shared_folder + "/golden/" + row.at("file").get<std::string>());
      const int64_t cols = tensor->cols(), rows = row.at("rows").get<int64_t>();
      REQUIRE(static_cast<int64_t>(expected.size()) == rows * cols);
      const uint64_t row_bytes = tensor->bytes / static_cast<uint64_t>(tensor->rows());
      std::vector<std::byte> bytes(row_bytes);
      std::vector<float> ours(static_cast<size_t>(cols));
      for (int64_t r = 0; r < rows; ++r) {
        REQUIRE((*source)->read(file->data_offset() + tensor->offset + static_cast<uint64_t>(r) * row_bytes, bytes));
        compute::cpu::dequantise_row(tensor->type, bytes.data(), cols, ours.data());
        CHECK(std::memcmp(ours.data(), expected.data() + r * cols, ours.size() * sizeof(float)) == 0);
      }
      ++compared;
    }
  }
  CHECK(compared == 62);  // 31 files, two tensors each
}
