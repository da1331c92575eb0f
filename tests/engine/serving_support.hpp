// A scheduler driven by a test: requests pushed, steps taken one by one, everything that was said kept by request.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/schedule/scheduler.hpp"
#include "model_support.hpp"
#include "tools/random_model.hpp"

namespace vigil::testing {

struct Outcome {
  std::vector<int32_t> ids;
  std::vector<protocol::Token> tokens;
  std::vector<protocol::PromptProgress> chunks;
  std::vector<float> vector;
  int64_t resumed = 0;
  std::optional<protocol::Done> done;
  std::string error;
  int endings = 0;
  int64_t first_step = -1;  // in which its first token came
};

class Serving {
 public:
  using Watch = std::function<void(protocol::RequestTag, const protocol::EngineEvent&)>;
  explicit Serving(LoadedModel loaded, double step_ms = 1e9)
      : model(std::move(loaded)), queue(1000),
        scheduler(*model.runtime, queue, step_ms, [this] { return time += std::chrono::milliseconds(1); },
                  [this](std::optional<protocol::RequestTag> tag, protocol::EngineEvent event) { hear(*tag, std::move(event)); }) {
    queue.abort_by(model.runtime->backend().control().abort);
  }
  explicit Serving(TinyLlama tiny, const schedule::RuntimeOptions& options = {}, double step_ms = 1e9) : Serving(load_tiny(tiny, options), step_ms) {}

  protocol::RequestTag push(schedule::Request request);
  protocol::RequestTag push(std::vector<int32_t> ids, int64_t max_new, sample::Settings settings = {});
  void stop(protocol::RequestTag tag) { queue.stop(tag); }
  void step();
  // Until nothing runs and nothing waits.
  void finish();
  // One request from beginning to end.
  Outcome run(std::vector<int32_t> ids, int64_t max_new, sample::Settings settings = {}, Watch watch = {});

  LoadedModel model;
  TimePoint time{};
  schedule::RequestQueue queue;
  schedule::Scheduler scheduler;
  std::map<protocol::RequestTag, Outcome> said;
  Watch watch;
  int64_t steps = 0;

 private:
  void hear(protocol::RequestTag tag, protocol::EngineEvent event);
  protocol::RequestTag last_tag_ = 0;
};

LoadedModel load_random(const tools::RandomModel& model, const schedule::RuntimeOptions& options = {});
// With a model that guesses for it.
LoadedModel load_random_pair(const tools::RandomModel& model, const tools::RandomModel& draft, const schedule::RuntimeOptions& options);
// A file of it in memory, without a vocabulary but for what `edit` adds.
std::vector<std::byte> random_file(const tools::RandomModel& model, const std::function<void(gguf::Writer&)>& edit = {}, const std::string& tokenizer = "none");
// Names of random models by whether they have recurrent layers.
std::vector<std::string> architectures(bool recurrent);
std::vector<int32_t> joined(std::vector<int32_t> first, const std::vector<int32_t>& second);

}  // namespace vigil::testing
