// See serving_support.hpp.
#include "serving_support.hpp"

namespace vigil::testing {

protocol::RequestTag Serving::push(schedule::Request request) {
  request.tag = ++last_tag_;
  REQUIRE(queue.push(std::move(request)) == schedule::RequestQueue::Added::queued);
  return last_tag_;
}

protocol::RequestTag Serving::push(std::vector<int32_t> ids, int64_t max_new, sample::Settings settings) {
  return push(schedule::Request{std::nullopt, max_new, std::move(ids), std::move(settings)});
}

void Serving::step() {
  ++steps;
  scheduler.step();
}

void Serving::finish() {
  constexpr int64_t most_steps = 100'000;  // only a fault reaches it
  do step();
  while ((!scheduler.idle() || !queue.tags().empty()) && steps < most_steps);
  REQUIRE(steps < most_steps);
  for (const auto& [tag, outcome] : said) CHECK(outcome.endings == 1);
}

Outcome Serving::run(std::vector<int32_t> ids, int64_t max_new, sample::Settings settings, Watch with) {
  const protocol::RequestTag tag = push(std::move(ids), max_new, std::move(settings));
  watch = std::move(with);
  finish();
  watch = {};
  return said[tag];
}

void Serving::hear(protocol::RequestTag tag, protocol::EngineEvent event) {
  Outcome& outcome = said[tag];
  CHECK(outcome.endings == 0);
  if (watch) watch(tag, event);
  if (auto* token = std::get_if<protocol::Token>(&event)) {
    if (outcome.ids.empty()) outcome.first_step = steps;
    outcome.ids.push_back(token->id);
    outcome.tokens.push_back(*token);
  }
  if (auto* chunk = std::get_if<protocol::PromptProgress>(&event)) outcome.chunks.push_back(*chunk);
  if (auto* resume = std::get_if<protocol::Resume>(&event)) {
    CHECK(outcome.resumed == 0);
    CHECK(outcome.chunks.empty());
    outcome.resumed = resume->tokens;
  }
  if (auto* part = std::get_if<protocol::VectorPart>(&event)) {
    CHECK(part->offset == static_cast<int64_t>(outcome.vector.size()));
    outcome.vector.insert(outcome.vector.end(), part->values.begin(), part->values.end());
  }
  if (auto* done = std::get_if<protocol::Done>(&event)) outcome.done = *done, ++outcome.endings;
  if (auto* error = std::get_if<protocol::EngineError>(&event)) outcome.error = error->text, ++outcome.endings;
}

std::vector<std::byte> random_file(const tools::RandomModel& model, const std::function<void(gguf::Writer&)>& edit, const std::string& tokenizer) {
  gguf::Writer writer;
  const Result<void> added = tools::add_random_model(model, writer);
  if (!added) FAIL(added.error());
  writer.put_string("tokenizer.ggml.model", tokenizer);
  if (edit) edit(writer);
  return writer.bytes();
}

LoadedModel load_random_pair(const tools::RandomModel& model, const tools::RandomModel& draft, const schedule::RuntimeOptions& options) {
  LoadedModel loaded{random_file(model), nullptr, random_file(draft)};
  auto runtime = try_load_pair(loaded.bytes, loaded.draft_bytes, options);
  if (!runtime) FAIL(runtime.error());
  loaded.runtime = std::move(*runtime);
  return loaded;
}

LoadedModel load_random(const tools::RandomModel& model, const schedule::RuntimeOptions& options) {
  LoadedModel loaded{random_file(model), nullptr};
  auto runtime = try_load(loaded.bytes, options);
  if (!runtime) FAIL(runtime.error());
  loaded.runtime = std::move(*runtime);
  return loaded;
}

std::vector<std::string> architectures(bool recurrent) {
  std::vector<std::string> names;
  for (const std::string& name : tools::random_architectures()) {
    if ((name.starts_with("qwen35") || name == "qwen3next") == recurrent) names.push_back(name);
  }
  return names;
}

std::vector<int32_t> joined(std::vector<int32_t> first, const std::vector<int32_t>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace vigil::testing
