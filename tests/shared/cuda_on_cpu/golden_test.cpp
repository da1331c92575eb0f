// The whole CUDA backend, on the emulated device or a real one, against the golden files, by the limits that hold for the CPU's fast backend: it rounds inputs of
// integer weights to eight bits as that does.
#include <catch2/catch.hpp>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/shared/cuda_on_cpu/device.hpp"
#include "tests/shared/golden_support.hpp"

using namespace vigil;
using namespace vigil::testing;

namespace {

schedule::RuntimeOptions whole() {
  schedule::RuntimeOptions options;
  options.backend = device_backend();
  return options;
}

void check_float(const std::string& name, const Limits& limits = {}, const schedule::RuntimeOptions& options = whole()) {
  INFO(name);
  const nlohmann::json facts = json_of(golden(name) + ".json");
  const auto runtime = load(golden(name) + ".gguf", options);
  const Difference difference = difference_from_reference(*runtime, facts, golden(name), 1u << 20);
  CAPTURE(difference.worst, difference.rms);
  CHECK(difference.worst <= limits.worst);
  CHECK(difference.rms <= limits.rms);
  CHECK(check_greedy(*runtime, facts, difference.worst, greedy_tokens()) >= 3);
}

// The error as a share of the reference's own, which rounds too.
double check_rounded(const std::string& name, const schedule::RuntimeOptions& options = whole()) {
  INFO(name);
  const nlohmann::json facts = json_of(golden(name) + ".json");
  const double reference_rms = facts.at("tolerance").at("file_vs_ref32").at("rms").get<double>();
  const auto runtime = load(golden(name) + ".gguf", options);
  const Difference difference = difference_from_reference(*runtime, facts, golden(name), 1u << 20);
  CAPTURE(difference.worst, difference.rms, reference_rms);
  CHECK(difference.rms <= 1.5 * reference_rms);
  check_greedy(*runtime, facts, difference.worst, greedy_tokens());
  std::printf("%-16s error %.2f of the reference's\n", name.c_str(), difference.rms / reference_rms);
  return difference.rms / reference_rms;
}

}  // namespace

TEST_CASE("dense golden models on the device give the reference's logits and text") {
  for (const char* name : {"arch-llama", "arch-llama3-tied", "arch-qwen2", "arch-qwen3"}) check_float(name);
}

TEST_CASE("golden models with windows, recurrent layers and halves on the device give the reference's logits and text") {
  for (const char* name : {"arch-qwen35", "quant-F16", "quant-BF16"}) check_float(name);
  check_float("arch-gemma3", {5e-3, 5e-4});  // the reference looks GELU up by a half-precision index
}

TEST_CASE("golden models with experts on the device are as near as the reference's own rounding") {
  for (const char* name : {"arch-qwen3moe", "arch-gpt-oss", "arch-qwen35moe"}) check_rounded(name);
}

TEST_CASE("golden models whose experts are in RAM, with copies of two of each layer on the device, are as near") {
  schedule::RuntimeOptions options = whole();
  options.gpu_experts = 2;
  for (const char* name : {"arch-qwen3moe", "arch-gpt-oss", "arch-qwen35moe"}) check_rounded(name, options);
}

TEST_CASE("golden weight types on the device are as near as the reference's own rounding, and in the mean nearer") {
  double logarithms = 0;
  int rounded = 0;
  // Every type that has kernels, and three of those that become halves.
  for (const char* type : {"Q4_0", "Q8_0", "Q4_K_M", "Q4_K_S", "Q5_K_M", "Q6_K", "IQ4_XS", "IQ3_XXS", "MXFP4", "Q5_1", "IQ2_S", "TQ1_0"}) {
    logarithms += std::log(check_rounded(std::string("quant-") + type));
    ++rounded;
  }
  CHECK(std::exp(logarithms / rounded) <= 1.0);
}

// Its tensor cores take halves of queries and weights too, where the CPU has only the cache's.
TEST_CASE("golden models with a smaller KV cache on the device are about as near as on the CPU") {
  for (const char* name : {"arch-llama", "arch-qwen3"}) {
    for (const compute::KvType type : {compute::KvType::f16, compute::KvType::q8_0}) {
      INFO(name << " with a cache of " << compute::name_of(type));
      const nlohmann::json facts = json_of(golden(name) + ".json");
      const auto error = [&](const compute::BackendOptions& backend) {
        return difference_from_reference(*load(golden(name) + ".gguf", backend, type), facts, golden(name), 1u << 20).rms;
      };
      const double ours = error(device_backend()), on_cpu = error({"cpu"});
      std::printf("%-16s %s: error %.2g, on the CPU %.2g\n", name, std::string(compute::name_of(type)).c_str(), ours, on_cpu);
      CHECK(ours <= 2 * on_cpu);
    }
  }
}

// In seven rows at once and in all: both forms of attention, of every type of cache, and of products.
TEST_CASE("on the device a prompt gives the same bits however it is cut") {
  for (const auto& [name, type] : {std::pair{"quant-Q4_K_M", compute::KvType::f16}, {"quant-F16", compute::KvType::q8_0}, {"arch-qwen35", compute::KvType::f16},
                                   {"arch-gpt-oss", compute::KvType::f32}, {"arch-llama", compute::KvType::q4_0}}) {
    INFO(name << " with a cache of " << compute::name_of(type));
    const nlohmann::json facts = json_of(golden(name) + ".json");
    const auto runtime = load(golden(name) + ".gguf", device_backend(), type);
    const Difference whole = difference_from_reference(*runtime, facts, golden(name), 1u << 20);
    const Difference cut = difference_from_reference(*runtime, facts, golden(name), 7);
    CHECK(whole.worst == cut.worst);
    CHECK(whole.rms == cut.rms);
  }
}

// Each placement in turn: that it makes no difference which one a model has is what split_test shows of every architecture.
TEST_CASE("golden models that are split between places are as near to the reference") {
  const std::vector<schedule::RuntimeOptions> placements = split_placements();
  size_t models = 0;
  const auto next = [&] { return placements[models++ % placements.size()]; };
  for (const char* name : {"arch-llama", "arch-qwen35"}) check_float(name, {}, next());
  check_float("arch-gemma3", {5e-3, 5e-4}, next());
  for (const char* name : {"arch-gpt-oss", "quant-Q4_K_M", "arch-qwen3moe"}) check_rounded(name, next());
}
