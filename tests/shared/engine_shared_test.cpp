// The engine against what another implementation computes: greedy tokens of stories260K, logits and dequantised rows of the golden files.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "engine/compute/cpu/dequantise.hpp"
#include "engine/gguf/byte_source.hpp"
#include "engine/schedule/scheduler.hpp"
#include "golden_support.hpp"

using namespace vigil;
using namespace vigil::testing;

namespace {

const std::string shared_folder = VIGIL_SHARED_DIR;

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

// The float path.
void check_golden(const std::string& name, const Limits& limits = {}, const std::string& backend = "reference") {
  INFO(name << " on " << backend);
  const nlohmann::json facts = json_of(golden(name) + ".json");
  const auto runtime = load(golden(name) + ".gguf", {backend, 1});
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
  const auto runtime = load(golden(name) + ".gguf", {"cpu", 1});
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
    const auto runtime = load(shared_folder + "/models/" + facts.at("model").get<std::string>(), {"auto", threads});
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
