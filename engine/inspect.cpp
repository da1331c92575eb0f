// A model is bound to the reference backend, which reads no weights and takes no memory until it computes, so the report's figures are those of a load.
#include "engine/inspect.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include "engine/model/model.hpp"
#include "engine/schedule/memory.hpp"
#include "engine/schedule/model_source.hpp"
#include "engine/schedule/runtime.hpp"

namespace vigil::engine {
namespace {

constexpr int64_t step_rows = 512;  // as a load plans with

std::string row(const char* name, const std::string& value) {
  char text[32];
  std::snprintf(text, sizeof text, "%-14s", name);
  return text + value + "\n";
}

std::string mib(uint64_t bytes) { return std::to_string((bytes + (1u << 20) - 1) >> 20) + " MiB"; }

std::string in_millions(double count) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f million", count / 1e6);
  return text;
}

std::string text_of(const gguf::File& file, std::string_view key) {
  const Result<std::string> value = file.string_or(key, "");
  return value && !value->empty() ? *value : "(not said)";
}

std::string vocabulary_line(const gguf::File& file) {
  const Result<std::vector<std::string>> pieces = file.strings("tokenizer.ggml.tokens");
  std::string line = text_of(file, "tokenizer.ggml.model");
  const Result<std::string> pre = file.string_or("tokenizer.ggml.pre", "");
  if (pre && !pre->empty()) line += ", pre-tokenizer " + *pre;
  return line + ", " + (pieces ? std::to_string(pieces->size()) + " pieces" : "no pieces");
}

std::string weight_table(const model::Files& files) {
  struct Sum {
    int64_t tensors = 0, elements = 0;
    uint64_t bytes = 0;
  };
  std::map<std::string, Sum> types;
  uint64_t all = 0;
  for (const model::FilePart& part : files.parts()) {
    for (const gguf::Tensor& tensor : part.file->tensors()) {
      const auto info = gguf::type_info(tensor.type);
      Sum& sum = types[info ? std::string(info->name) : "unknown"];
      ++sum.tensors;
      sum.elements += tensor.elements();
      sum.bytes += tensor.bytes;
      all += tensor.bytes;
    }
  }
  std::vector<std::pair<std::string, Sum>> order(types.begin(), types.end());
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::string table;
  for (const auto& [name, sum] : order) {
    char text[96];
    std::snprintf(text, sizeof text, "  %-10s %6lld tensors %10s %5.1f %%\n", name.c_str(), static_cast<long long>(sum.tensors), mib(sum.bytes).c_str(),
                  100 * static_cast<double>(sum.bytes) / static_cast<double>(std::max<uint64_t>(1, all)));
    table += text;
  }
  return table;
}

std::string memory_table(const model::Model& model, uint64_t available) {
  const model::Config& config = model.config();
  const compute::StateShape states = model.state_shape();
  const uint64_t fixed = model.weight_bytes() + model.scratch_bytes() + 2 * states.slot_bytes();
  const int64_t windowed = schedule::window_blocks_needed(model, {});
  std::vector<int64_t> contexts;
  for (int64_t context = 4096; context < config.trained_context; context *= 4) contexts.push_back(context);
  contexts.push_back(config.trained_context);
  std::string table = row("memory", "weights " + mib(model.weight_bytes()) + ", scratch " + mib(model.scratch_bytes()) + ", KV cache by context:");
  for (const int64_t context : contexts) {
    char text[32];
    std::snprintf(text, sizeof text, "  %9lld", static_cast<long long>(context));
    table += text;
    for (const compute::KvType type : {compute::KvType::f16, compute::KvType::q8_0, compute::KvType::q4_0}) {
      if (compute::is_quantised(type) && config.head_dim % 32 != 0) continue;
      const int64_t blocks = (context + compute::kv_block_positions - 1) / compute::kv_block_positions;
      const uint64_t bytes = model.kv_shape(type, blocks).bytes() + model.window_kv_shape(type, std::min(blocks, windowed)).bytes();
      std::snprintf(text, sizeof text, "  %5s %9s", std::string(compute::name_of(type)).c_str(), mib(bytes).c_str());
      table += text;
    }
    table += "\n";
  }
  if (available == 0) return table;
  schedule::MemoryNeed need{fixed, 0, model.kv_shape(compute::KvType::f16, 1).bytes()};
  need.window = {model.window_kv_shape(compute::KvType::f16, 1).bytes(), windowed};
  const Result<int64_t> fits = schedule::fit_context(0, config.trained_context, need, available);
  return table + row("fits", fits ? "a context of " + std::to_string(*fits) + " (f16) into " + std::to_string(schedule::memory_percent) + " % of the available " + mib(available)
                                  : fits.error());
}

}  // namespace

Result<std::string> inspect(const std::string& path, uint64_t available_bytes) {
  const Result<schedule::ModelSource> source = schedule::ModelSource::open(path);
  if (!source) return Error{source.error()};
  const model::Files files = source->files();
  const gguf::File& file = files.metadata();
  double parameters = 0;
  uint64_t bytes = 0;
  for (const model::FilePart& part : files.parts()) {
    bytes += part.bytes.size();
    for (const gguf::Tensor& tensor : part.file->tensors()) parameters += static_cast<double>(tensor.elements());
  }
  const size_t parts = files.parts().size();
  std::string report = row("file", path + " (" + mib(bytes) + (parts > 1 ? ", " + std::to_string(parts) + " parts" : "") + ")");
  report += row("name", text_of(file, "general.name"));
  report += row("licence", text_of(file, "general.license"));
  report += row("architecture", text_of(file, "general.architecture"));
  report += row("parameters", in_millions(parameters));
  report += row("vocabulary", vocabulary_line(file));
  const Result<std::string> chat_template = file.string_or("tokenizer.chat_template", "");
  report += row("chat template", chat_template && !chat_template->empty() ? std::to_string(chat_template->size()) + " bytes" : "none");
  report += row("weights", "") + weight_table(files);

  Result<std::unique_ptr<compute::Backend>> backend = compute::make_backend({"reference", 1});
  if (!backend) return Error{backend.error()};
  const Result<std::unique_ptr<model::Model>> model = model::make_model(files, **backend, {step_rows, 1, 1, 0});
  if (!model) return report + row("runs", "no: " + model.error());
  const model::Config& config = (*model)->config();
  const int64_t windows = (*model)->window_layers();
  report += row("context", std::to_string(config.trained_context) + " (trained)");
  report += row("layers", std::to_string(config.layers) + ", " + std::to_string((*model)->kv_layers() + windows) + " with attention: " + std::to_string(config.heads) + " heads of " +
                              std::to_string(config.head_dim) + ", " + std::to_string(config.kv_heads) + " for K and V" +
                              (windows > 0 ? "; " + std::to_string(windows) + " see the last " + std::to_string(config.window) + " positions" : std::string()));
  if (config.experts.count > 0) report += row("experts", std::to_string(config.experts.count) + ", " + std::to_string(config.experts.used) + " for a token");
  return report + memory_table(**model, available_bytes) + row("runs", "yes");
}

}  // namespace vigil::engine
