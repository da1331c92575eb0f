// The table of architectures.
#include "engine/model/model.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "engine/model/architectures.hpp"

namespace vigil::model {
namespace {

constexpr struct {
  std::string_view name;  // general.architecture
  Maker* make;
} architectures[] = {
    {"llama", make_llama},       {"qwen2", make_qwen2},     {"qwen2vl", make_qwen2}, {"qwen3", make_qwen3},     {"qwen3moe", make_qwen3moe},
    {"gemma3", make_gemma3},     {"gpt-oss", make_gpt_oss}, {"qwen35", make_qwen35}, {"qwen35moe", make_qwen35}, {"qwen3next", make_qwen3next},
};

const auto* find_architecture(std::string_view name) {
  const auto* found = std::find_if(std::begin(architectures), std::end(architectures), [&](const auto& entry) { return entry.name == name; });
  return found == std::end(architectures) ? nullptr : found;
}

}  // namespace

compute::KvShape Model::kv_shape(compute::KvType type, int64_t blocks) const {
  return {type, kv_layers(), config_.kv_heads, config_.head_dim, blocks, compute::BlockTable::whole};
}

compute::KvShape Model::window_kv_shape(compute::KvType type, int64_t blocks) const {
  return {type, window_layers(), config_.kv_heads, config_.head_dim, blocks, compute::BlockTable::window};
}

Result<void> check_architecture(const gguf::File& file) {
  Result<std::string> name = file.string("general.architecture");
  if (!name) return Error{name.error()};
  if (find_architecture(*name) != nullptr) return {};
  std::string known;
  for (const auto& entry : architectures) known += (known.empty() ? "" : ", ") + std::string(entry.name);
  return Error{"general.architecture '" + *name + "' is not known here; this version runs: " + known};
}

Result<int64_t> vocabulary_size(const Files& files) {
  const gguf::Tensor* embedding = files.find("token_embd.weight");
  if (embedding == nullptr) return Error{"tensor 'token_embd.weight' is missing"};
  const int64_t rows = embedding->rows();
  if (rows > INT32_MAX) return Error{"tensor 'token_embd.weight' has " + std::to_string(rows) + " rows, more than ids can name"};
  return rows;
}

Result<std::unique_ptr<Model>> make_model(const Files& files, compute::Backend& backend, const compute::StepLimits& limits) {
  if (Result<void> known = check_architecture(files.metadata()); !known) return Error{known.error()};
  return find_architecture(*files.metadata().string("general.architecture"))->make(files, backend, limits);
}

}  // namespace vigil::model
