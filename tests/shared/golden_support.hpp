// The golden files of the shared suite (what another implementation computes), and models run against them.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/schedule/runtime.hpp"
#include "server/json/json.hpp"

namespace vigil::testing {

std::string golden(const std::string& name);  // its path without an ending
nlohmann::json json_of(const std::string& path);
std::vector<float> floats_of(const std::string& path);

// With a context of 512 and room for the scores of whole prompts; by default with a KV cache of floats.
std::unique_ptr<schedule::Runtime> load(const std::string& path, schedule::RuntimeOptions options, compute::KvType kv_type = compute::KvType::f32);
std::unique_ptr<schedule::Runtime> load(const std::string& path, const compute::BackendOptions& backend, compute::KvType kv_type = compute::KvType::f32);

// Greedy ids by steps alone, going on after end tokens as the reference did.
std::vector<int32_t> raw_greedy(schedule::Runtime& runtime, std::vector<int32_t> next, size_t count);
// How many leading steps are decided by more than `gap`.
size_t certain_steps(const nlohmann::json& gaps, double gap);
void check_prefix(const std::vector<int32_t>& ours, const std::vector<int32_t>& theirs, size_t count);

// What the float path may be off, about twice the reference's own noise.
struct Limits {
  double worst = 2e-4, rms = 2e-5;
};
struct Difference {
  double worst = 0, rms = 0;
};
// Of the scored positions' logits from the all-float reference; the prompt is read `chunk` tokens at a time.
Difference difference_from_reference(schedule::Runtime& runtime, const nlohmann::json& facts, const std::string& base, size_t chunk);
// Greedy text agrees, for at most `most` tokens, where the reference's choice is decided by more than twice the error. Returns how many were compared.
size_t check_greedy(schedule::Runtime& runtime, const nlohmann::json& facts, double worst, size_t most = std::numeric_limits<size_t>::max());

}  // namespace vigil::testing
