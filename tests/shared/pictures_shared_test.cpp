// Pictures in prompts of the engine against another implementation: the scores behind the golden prompts and the tokens that follow, with its
// embeddings and with those of our own vision child.
#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <unistd.h>
#include <vector>

#include "engine/schedule/pictures.hpp"
#include "engine/schedule/runtime.hpp"
#include "server/json/json.hpp"
#include "vision/picture_encoder.hpp"

using namespace vigil;

namespace {

const std::string golden = std::string(VIGIL_SHARED_DIR) + "/golden/";

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  INFO(path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<float> floats_of(const std::string& path) {
  const std::string bytes = slurp(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

struct TemporaryFile {
  explicit TemporaryFile(const std::string& bytes) {
    static int counter = 0;
    path = (std::filesystem::temp_directory_path() / ("vigil_shared_" + std::to_string(::getpid()) + "_" + std::to_string(counter++))).string();
    std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  ~TemporaryFile() { std::filesystem::remove(path); }
  TemporaryFile(const TemporaryFile&) = delete;
  std::string path;
};

// The golden prompt: ids, an id that it does not use once for each row, and the records.
struct Prompt {
  std::vector<int32_t> ids;
  std::string records;
  int32_t image = 0;
};

void add_record(std::string& to, int32_t rows, int32_t columns, int32_t lines, int32_t width, const float* values) {
  to += "SVE1";
  for (const int32_t number : {rows, columns, lines, width}) to.append(reinterpret_cast<const char*>(&number), sizeof number);
  to.append(reinterpret_cast<const char*>(values), static_cast<size_t>(rows * width) * sizeof(float));
}

Prompt prompt_of(const nlohmann::json& about, const std::vector<float>& embeddings) {
  Prompt prompt;
  std::vector<int32_t> used;
  for (const auto& chunk : about["chunks"]) {
    if (chunk["type"] == "text") used.insert(used.end(), chunk["tokens"].begin(), chunk["tokens"].end());
  }
  while (std::find(used.begin(), used.end(), prompt.image) != used.end()) ++prompt.image;
  for (const auto& chunk : about["chunks"]) {
    if (chunk["type"] == "text") {
      prompt.ids.insert(prompt.ids.end(), chunk["tokens"].begin(), chunk["tokens"].end());
      continue;
    }
    const auto rows = chunk["n_tokens"].get<int32_t>();
    int32_t columns = rows, lines = 1;
    if (chunk.contains("rel_pos_txy")) {
      columns = chunk["rel_pos_txy"].back()[1].get<int32_t>() + 1;
      lines = chunk["rel_pos_txy"].back()[2].get<int32_t>() + 1;
    }
    const auto width = about["width"].get<int32_t>();
    add_record(prompt.records, rows, columns, lines, width, embeddings.data() + chunk["embd_offset_rows"].get<int64_t>() * width);
    prompt.ids.insert(prompt.ids.end(), static_cast<size_t>(rows), prompt.image);
  }
  return prompt;
}

std::unique_ptr<schedule::Runtime> load(const std::string& path, const std::string& backend) {
  schedule::RuntimeOptions options;
  options.backend.backend = backend;
  options.backend.threads = 1;
  options.kv_type = compute::KvType::f32;
  options.context = 512;
  auto runtime = schedule::Runtime::load(path, options, [](double) { return true; });
  INFO(path << (runtime ? "" : ": " + runtime.error()));
  REQUIRE(runtime);
  return std::move(*runtime);
}

struct Run {
  std::vector<float> scores;  // behind the prompt
  std::vector<int32_t> greedy;
};

// The prompt in parts of about `chunk` tokens, then 16 tokens.
Run run(schedule::Runtime& runtime, const Prompt& prompt, int64_t chunk) {
  const TemporaryFile file(prompt.records);
  const model::Model& model = runtime.model();
  const auto read = schedule::Pictures::read(file.path, prompt.ids, prompt.image, model.config().width, model.picture_rule(), "");
  INFO((read ? std::string() : read.error()));
  REQUIRE(read);
  cache::Sequence sequence(runtime.pool());
  Run out;
  out.scores.resize(static_cast<size_t>(model.vocabulary()));
  std::vector<float> row(out.scores.size());
  const auto step = [&](std::span<const int32_t> tokens) {
    REQUIRE(sequence.reserve(static_cast<int64_t>(tokens.size())));
    schedule::Part part{&sequence, tokens, read->pictures.get(), 1};
    REQUIRE(runtime.step(std::span(&part, 1)) == compute::RunOutcome::finished);
    sequence.commit(tokens);
    runtime.read_scores(0, row);
  };
  const auto total = static_cast<int64_t>(read->ids.size());
  for (int64_t at = 0; at < total;) {
    const int64_t count = read->pictures->whole(at, std::min(chunk, total - at));
    step(std::span(read->ids).subspan(static_cast<size_t>(at), static_cast<size_t>(count)));
    at += count;
  }
  out.scores = row;
  while (out.greedy.size() < 16) {
    out.greedy.push_back(static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin()));
    step(std::span(&out.greedy.back(), 1));
  }
  return out;
}

struct Difference {
  double rms = 0, max = 0;
};

Difference compare(const std::vector<float>& got, const std::vector<float>& wanted) {
  REQUIRE(got.size() == wanted.size());
  Difference out;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - wanted[i]);
    out.rms += error * error / static_cast<double>(got.size());
    out.max = std::max(out.max, error);
  }
  out.rms = std::sqrt(out.rms);
  return out;
}

size_t certain_steps(const nlohmann::json& gaps, double gap) {
  size_t steps = 0;
  while (steps < gaps.size() && gaps[steps].get<double>() >= gap) ++steps;
  return steps;
}

void check_projector(const std::string& name, const std::string& model_path) {
  const auto about = nlohmann::json::parse(slurp(golden + "mmproj-" + name + ".json"));
  const auto runtime = load(model_path, "reference");
  const auto fast = load(model_path, "auto");
  // What the golden README allows: gemma3's own GELU moves it more.
  const double most = name == "gemma3" ? 5e-3 : 1e-3;
  for (const auto& [image, wanted] : about["images"].items()) {
    const Prompt prompt = prompt_of(wanted, floats_of(golden + wanted["ref32_embd_file"].get<std::string>()));
    const std::vector<float> scores = floats_of(golden + wanted["ref32_logits_file"].get<std::string>());
    const Run ours = run(*runtime, prompt, 500);
    const Difference difference = compare(ours.scores, scores);
    CAPTURE(name, image, difference.rms, difference.max);
    WARN(name << " " << image << ": scores differ by RMS " << difference.rms << ", at most " << difference.max);
    CHECK(difference.max <= most);
    const size_t certain = certain_steps(wanted["ref32_greedy_gap"], 4 * most);
    const auto greedy = wanted["ref32_greedy"].get<std::vector<int32_t>>();
    CHECK(certain > 0);
    CHECK(std::equal(greedy.begin(), greedy.begin() + static_cast<std::ptrdiff_t>(certain), ours.greedy.begin()));
    for (const int64_t chunk : {1, 7, 20}) CHECK(run(*runtime, prompt, chunk).scores == ours.scores);  // to the bit
    // The fast backend rounds inputs to eight bits where weights are integers; these are F16.
    CHECK(compare(run(*fast, prompt, 500).scores, scores).max <= 0.05);
    CHECK(run(*fast, prompt, 7).scores == run(*fast, prompt, 500).scores);
  }
}

}  // namespace

TEST_CASE("Golden prompts with pictures: scores and tokens behind them") {
  for (const std::string name : {"gemma3", "llava", "idefics3", "qwen3vl"}) {
    const auto about = nlohmann::json::parse(slurp(golden + "mmproj-" + name + ".json"));
    check_projector(name, golden + about["text_model_file"].get<std::string>());
  }
}

// Its text model is not stored: `made_with` of arch-qwen2vl.json makes it (needs numpy).
TEST_CASE("Golden prompts with pictures: qwen2vl", "[.][qwen2vl]") {
  const char* path = std::getenv("VIGIL_ARCH_QWEN2VL");
  REQUIRE(path != nullptr);
  check_projector("qwen25vl", path);
}

TEST_CASE("Golden pictures through our own encoder give the golden tokens") {
  for (const std::string name : {"gemma3", "llava", "idefics3", "qwen3vl"}) {
    const auto about = nlohmann::json::parse(slurp(golden + "mmproj-" + name + ".json"));
    const std::string model_path = golden + about["text_model_file"].get<std::string>();
    const auto runtime = load(model_path, "reference");
    auto encoder = vision::PictureEncoder::load(golden + "mmproj-" + name + ".gguf", model_path, 1, {});
    INFO((encoder ? std::string() : encoder.error()));
    REQUIRE(encoder);
    size_t certain_of_all = 0;  // of some pictures the first token is already undecided
    for (const auto& [image, wanted] : about["images"].items()) {
      CAPTURE(name, image);
      const std::string bytes = slurp(golden + "img-" + image + ".png");
      const auto encoded = (*encoder)->encode({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, {});
      REQUIRE(encoded);
      // What stands around the picture; between tiles the rows hold their own marks.
      Prompt prompt;
      const auto before = wanted["chunks"].front()["tokens"].get<std::vector<int32_t>>(), after = wanted["chunks"].back()["tokens"].get<std::vector<int32_t>>();
      const size_t marks = name == "idefics3" ? 1 : 0;  // the place of the first tile belongs to the picture too
      prompt.ids.assign(before.begin(), before.end() - static_cast<std::ptrdiff_t>(marks));
      while (std::find(before.begin(), before.end(), prompt.image) != before.end() || std::find(after.begin(), after.end(), prompt.image) != after.end()) ++prompt.image;
      prompt.ids.insert(prompt.ids.end(), static_cast<size_t>(encoded->shape.rows), prompt.image);
      prompt.ids.insert(prompt.ids.end(), after.begin(), after.end());
      add_record(prompt.records, static_cast<int32_t>(encoded->shape.rows), static_cast<int32_t>(encoded->shape.columns_of_grid),
                 static_cast<int32_t>(encoded->shape.rows_of_grid), static_cast<int32_t>(encoded->shape.width), encoded->values.data());
      const Run ours = run(*runtime, prompt, 500);
      const auto greedy = wanted["ref32_greedy"].get<std::vector<int32_t>>();
      const size_t certain = certain_steps(wanted["ref32_greedy_gap"], 0.05);
      certain_of_all += certain;
      CHECK(std::equal(greedy.begin(), greedy.begin() + static_cast<std::ptrdiff_t>(certain), ours.greedy.begin()));
      CHECK(compare(ours.scores, floats_of(golden + wanted["ref32_logits_file"].get<std::string>())).max <= 0.05);
    }
    CHECK(certain_of_all > 0);
  }
}
