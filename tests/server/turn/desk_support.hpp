// A desk on a bench: a recording port and encoder, sinks that remember, time moved by hand.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/turn/desk.hpp"

namespace vigil::turn {

using namespace std::chrono_literals;

struct Port final : TurnPort {
  std::vector<LeaseId> started, cancelled;
  std::vector<LeaseId> answers, released;
  std::vector<int64_t> max_new;
  std::vector<std::vector<TokenId>> prompts;
  int needed = 0;
  std::vector<bool> pauses;
  void need_engine() override { ++needed; }
  void start(LeaseId lease, const Request& request, int64_t max) override {
    started.push_back(lease);
    prompts.push_back(request.prompt);
    max_new.push_back(max);
  }
  void cancel(LeaseId lease) override { cancelled.push_back(lease); }
  void answered(LeaseId lease) override { answers.push_back(lease); }
  void release(LeaseId lease) override { released.push_back(lease); }
  void pause_output(bool paused) override { pauses.push_back(paused); }
};

struct Record {
  std::vector<int> tokens;
  std::vector<float> vector;
  std::vector<Ending> endings;
  std::optional<size_t> stop_after;
  const RequestError& error() const { return std::get<Failed>(endings.at(0).how).error; }
  ErrorCode code() const { return error().code; }
  Finish finish() const { return std::get<Finished>(endings.at(0).how).finish; }
  bool cancelled() const { return std::holds_alternative<Cancelled>(endings.at(0).how); }
};

struct Sink final : ReplySink {
  explicit Sink(Record& record) : record_(record) {}
  Verdict on_token(const protocol::Token& token) override {
    record_.tokens.push_back(token.id);
    return record_.stop_after && record_.tokens.size() >= *record_.stop_after ? Verdict::stop : Verdict::more;
  }
  bool on_vector(const protocol::VectorPart& part) override {
    if (part.offset != static_cast<int64_t>(record_.vector.size())) return false;
    record_.vector.insert(record_.vector.end(), part.values.begin(), part.values.end());
    return true;
  }
  void on_end(const Ending& ending) override { record_.endings.push_back(ending); }
  Record& record_;
};

struct Encoder final : EncoderPort {
  std::vector<RequestKey> asked, abandoned;
  void encode(RequestKey key, const std::vector<Picture>&) override { asked.push_back(key); }
  void abandon(RequestKey key) override { abandoned.push_back(key); }
};

struct Rows final : Embeddings {
  Rows(std::vector<int64_t> counts, int& alive) : alive_(alive) {
    rows = std::move(counts);
    path = "file";
    ++alive_;
  }
  ~Rows() override { --alive_; }
  int& alive_;
};

struct Bench {
  DeskLimits limits;
  Port port;
  std::vector<std::string> logs;
  std::unique_ptr<Desk> desk;
  std::vector<std::unique_ptr<Record>> records;
  TimePoint now = TimePoint{} + 1h;
  EngineView view;

  explicit Bench(DeskLimits with = {}) : limits(with) {
    if (limits.queue_wait == Duration{}) limits.queue_wait = 600s;
    DeskObserver observer;
    observer.log = [this](const std::string& line) { logs.push_back(line); };
    desk = std::make_unique<Desk>(limits, port, observer);
  }
  ~Bench() { desk.reset(); }
  void ready(int slots = 0, int64_t context = 4096) {
    view = {EnginePhase::ready, view.generation + 1, 0, context, std::max(1, slots), slots > 0, true, false, "", 0};
    desk->engine_changed(view, now);
  }
  void phase(EnginePhase phase) {
    view.phase = phase;
    desk->engine_changed(view, now);
  }
  std::pair<RequestKey, Record*> submit(int64_t max_new = 16, size_t prompt = 4, uint64_t fingerprint = 0, const std::string& client = "c") {
    Request request;
    request.id = "r" + std::to_string(records.size());
    request.client = client;
    request.prompt.assign(prompt, 5);
    request.max_new = max_new;
    request.end_ids = {2};
    request.fingerprint = fingerprint;
    records.push_back(std::make_unique<Record>());
    Record* record = records.back().get();
    return {desk->submit(std::move(request), std::make_unique<Sink>(*record), now), record};
  }
  std::pair<RequestKey, Record*> submit_embed(size_t prompt = 4) {
    Request request;
    request.id = "r" + std::to_string(records.size());
    request.client = "c";
    request.prompt.assign(prompt, 5);
    request.embed = protocol::Pooling::mean;
    records.push_back(std::make_unique<Record>());
    Record* record = records.back().get();
    return {desk->submit(std::move(request), std::make_unique<Sink>(*record), now), record};
  }
  std::pair<RequestKey, Record*> submit_with_pictures(size_t pictures) {
    Request request;
    request.id = "r" + std::to_string(records.size());
    request.client = "c";
    request.prompt = {5};
    for (size_t n = 0; n < pictures; ++n) {
      request.prompt.insert(request.prompt.end(), {9, 5});
      request.pictures.push_back({std::make_shared<const std::string>("bytes"), "messages[0].content[" + std::to_string(n) + "]"});
    }
    request.image_token = 9;
    request.max_new = 16;
    records.push_back(std::make_unique<Record>());
    Record* record = records.back().get();
    return {desk->submit(std::move(request), std::make_unique<Sink>(*record), now), record};
  }
  void line(LeaseId lease, const std::string& text) { desk->on_line(lease, protocol::parse_engine_line(text)->event, now); }
};

}  // namespace vigil::turn
