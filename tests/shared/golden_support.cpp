// Reading of the golden files, and runs of a model that are held against them.
#include "golden_support.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>

namespace vigil::testing {
namespace {

std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  INFO(path);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

nlohmann::json json_of(const std::string& path) { return nlohmann::json::parse(slurp(path)); }

std::vector<float> floats_of(const std::string& path) {
  const std::string bytes = slurp(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

std::unique_ptr<schedule::Runtime> load(const std::string& path, const compute::BackendOptions& backend, compute::KvType kv_type) {
  schedule::RuntimeOptions options;
  options.backend = backend;
  return load(path, std::move(options), kv_type);
}

std::unique_ptr<schedule::Runtime> load(const std::string& path, schedule::RuntimeOptions options, compute::KvType kv_type) {
  options.kv_type = kv_type;
  options.context = 512;
  options.outputs = 128;
  auto runtime = schedule::Runtime::load(path, options, [](double) { return true; });
  INFO(path << (runtime ? "" : ": " + runtime.error()));
  REQUIRE(runtime);
  return std::move(*runtime);
}

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

size_t check_greedy(schedule::Runtime& runtime, const nlohmann::json& facts, double worst, size_t most) {
  const nlohmann::json& reference = facts.at("ref32_greedy");
  const auto theirs = reference.at("tokens").get<std::vector<int32_t>>();
  const size_t certain = std::min(most, certain_steps(reference.at("gap"), 2 * worst));
  const auto ours = raw_greedy(runtime, facts.at("tokens").get<std::vector<int32_t>>(), certain);
  check_prefix(ours, theirs, certain);
  return certain;
}

std::string golden(const std::string& name) { return std::string(VIGIL_SHARED_DIR) + "/golden/" + name; }

}  // namespace vigil::testing
