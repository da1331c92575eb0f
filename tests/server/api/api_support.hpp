// An Api with a real Desk, a scripted engine port, workers that run when told, and channels that record. For the tests of server/api.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/api/api.hpp"
#include "server/json/json.hpp"
#include "server/text/chat_template.hpp"
#include "server/turn/desk.hpp"
#include "tests/server/text/text_support.hpp"

namespace vigil::api::test {

using nlohmann::json;

class RecordingChannel final : public Channel {
 public:
  void respond(Response response) override;
  void plan_stream(StreamPlan plan) override;
  void plan_later() override { plan_is_open = true; }
  void plan_whole() override {
    plan_is_open = false;
    if (on_plan_whole) on_plan_whole();
  }
  void write(std::string_view bytes) override;
  void finish() override;
  void fail(Response plain, std::string_view event) override;

  // What a client saw.
  std::optional<Response> response;
  std::optional<StreamPlan> plan;
  bool plan_is_open = false;
  std::function<void()> on_plan_whole;
  std::string body;
  bool finished = false;
  int writes = 0;
  int answers = 0;  // ends of any kind; more than one is a fault

  json answer() const { return json::parse(response.value().body); }
  json error() const { return answer().at("error"); }
  std::vector<std::string> events() const;   // the text behind each "data: "; fails the test when the framing is wrong
  std::vector<json> chunks() const;          // the events that are JSON
};

class ScriptedPort final : public turn::TurnPort {
 public:
  struct Start {
    turn::LeaseId lease;
    turn::Request request;
    int64_t max_new;
  };
  void need_engine() override { ++needed; }
  void start(turn::LeaseId lease, const turn::Request& request, int64_t max_new) override { starts.push_back({lease, request, max_new}); }
  void cancel(turn::LeaseId lease) override { cancels.push_back(lease); }
  void answered(turn::LeaseId) override {}
  void release(turn::LeaseId) override {}
  void pause_output(bool paused) override { pauses.push_back(paused); }

  int needed = 0;
  std::vector<Start> starts;
  std::vector<turn::LeaseId> cancels;
  std::vector<bool> pauses;
};

class HeldWorkers final : public Workers {
 public:
  void run(size_t, std::function<void()> job, std::function<void()> done) override { jobs.emplace_back(std::move(job), std::move(done)); }
  void run_all();
  std::deque<std::pair<std::function<void()>, std::function<void()>>> jobs;
};

// Ids: the byte tokens, then these.
inline constexpr gguf::TokenId there = text::test::first_own, was = there + 1, hi = there + 2;

struct World {
  explicit World(std::vector<text::test::Piece> pieces = {}, text::test::AddBos add_bos = text::test::AddBos::yes);

  // The engine becomes ready with this context; 0 = it was never started.
  void engine_ready(int64_t context = 256);
  struct Call {
    std::shared_ptr<RecordingChannel> channel;
    std::unique_ptr<Exchange> exchange;
    RecordingChannel* operator->() const { return channel.get(); }
  };
  Call call(Api::Handler handler, std::string body, const std::function<void(HttpRequest&)>& change = {});
  // CHAT(x) of the cases; `more` begins with a comma.
  Call chat(const std::string& more = "") { return call(&Api::chat_completions, R"({"messages":[{"role":"user","content":"hi"}])" + more + "}"); }
  Call complete(const std::string& more = "") { return call(&Api::completions, R"({"prompt":"hi")" + more + "}"); }

  // The engine works on the last request that it was given.
  turn::LeaseId lease() const { return port.starts.back().lease; }
  const ScriptedPort::Start& sent() const { return port.starts.back(); }
  void token(gguf::TokenId id);
  void tokens(std::string_view bytes);  // one byte token each
  void done(const std::string& finish = "stop");
  void engine_error(const std::string& text);
  void engine_dies(turn::ErrorCode code, const std::string& message);

  TimePoint now{};
  std::shared_ptr<Model> model;
  EngineStatus engine;
  int slots = 1;                // above 1: the engine tags its lines
  bool grammar = false;         // its READY carries the word
  ScriptedPort port;
  HeldWorkers workers;
  std::vector<std::string> log;
  turn::Desk desk;
  std::unique_ptr<Api> api;
};

}  // namespace vigil::api::test
