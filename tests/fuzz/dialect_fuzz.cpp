// Bodies of messages, count_tokens, responses and embeddings through the real api, with a desk of its own and an engine that writes what the
// input says. Nothing is thrown, every request has one answer in valid UTF-8, every event is JSON under its name, a refusal names its field.
// First byte: route and stream; second: how many bytes of the body's end the engine writes. Not here: HTTP, templates, chat (json_fuzz.cpp).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api/api.hpp"
#include "server/json/json.hpp"
#include "server/text/utf8.hpp"
#include "server/turn/desk.hpp"
#include "tests/server/text/text_support.hpp"

namespace {

using namespace vigil;
using namespace vigil::api;
using json = nlohmann::ordered_json;

void require(bool holds, const char* what, const std::string& shown = "") {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s: %s\n", what, shown.substr(0, 2000).c_str());
  std::abort();
}

struct RecordingChannel final : Channel {
  void respond(Response r) override {
    require(!plan, "a stream is not answered by respond()");
    ++answers;
    response = std::move(r);
  }
  void plan_stream(StreamPlan p) override { plan = std::move(p); }
  void plan_later() override {}
  void plan_whole() override {}
  void write(std::string_view bytes) override {
    require(plan && answers == 0 && !bytes.empty(), "writes belong into an open stream");
    body += bytes;
  }
  void finish() override { ++answers; }
  void fail(Response plain, std::string_view event) override {
    ++answers;
    if (body.empty()) response = std::move(plain);
    else body += event;
  }
  std::optional<Response> response;
  std::optional<StreamPlan> plan;
  std::string body;
  int answers = 0;
};

struct ScriptedPort final : turn::TurnPort {
  void need_engine() override {}
  void start(turn::LeaseId id, const turn::Request& sent, int64_t) override {
    lease = id;
    embed = sent.embed.has_value();
    require(!sent.prompt.empty(), "a prompt has ids");
  }
  void cancel(turn::LeaseId) override {}
  void answered(turn::LeaseId) override {}
  void release(turn::LeaseId) override {}
  void pause_output(bool) override {}
  std::optional<turn::LeaseId> lease;
  bool embed = false;
};

struct QueuedWorkers final : Workers {
  void run(size_t, std::function<void()> job, std::function<void()> done) override { jobs.emplace_back(std::move(job), std::move(done)); }
  bool run_one() {
    if (jobs.empty()) return false;
    auto [job, done] = std::move(jobs.back());
    jobs.pop_back();
    job();
    done();
    return true;
  }
  std::vector<std::pair<std::function<void()>, std::function<void()>>> jobs;
};

const std::shared_ptr<const Model>& model() {
  static const std::shared_ptr<const Model> made = [] {
    auto fresh = std::make_shared<Model>();
    fresh->id = "tiny";
    fresh->vocabulary = text::test::make_vocabulary({{std::string(text::test::blank) + "there"}, {"hi", -1}});
    fresh->tokenizer = text::test::make_tokenizer_of(*fresh->vocabulary);
    fresh->output = text::output_format("<tool_call></tool_call><think></think>", *fresh->vocabulary);
    return fresh;
  }();
  return made;
}

void check_stream(std::string_view body) {
  while (!body.empty()) {
    const size_t end = body.find("\n\n");
    require(end != std::string_view::npos, "events end", std::string(body));
    const std::string_view event = body.substr(0, end);
    const size_t line = event.find('\n');
    require(event.starts_with("event: ") && line != std::string_view::npos && event.substr(line).starts_with("\ndata: "), "an event has name and data", std::string(event));
    require(json::parse(event.substr(line + 7)).at("type") == std::string(event.substr(7, line - 7)), "its name is its type", std::string(event));
    body.remove_prefix(end + 2);
  }
}

void check_error(const Response& response, bool messages) {
  const json body = json::parse(response.body);
  require(!messages || body.at("type") == "error", "Anthropic's shape", response.body);
  const json& error = body.at("error");
  require(!error.at("message").get<std::string>().empty(), "a message", response.body);
  if (response.status != 400 || error.at("code") != "invalid_request") return;
  require(error.contains("param") ? error.at("param").is_string() || error.at("message").get<std::string>().find("JSON object") != std::string::npos : messages,
          "a 400 names its field", response.body);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const Api::Handler handlers[] = {&Api::messages, &Api::responses, &Api::embeddings, &Api::count_tokens};
  const size_t route = data[0] & 3;
  std::string body(reinterpret_cast<const char*>(data + 2), size - 2);
  ScriptedPort port;
  QueuedWorkers workers;
  turn::Desk desk(turn::DeskLimits{}, port);
  const TimePoint now{};
  EngineStatus engine;
  engine.state = "ready";
  engine.context = 4096;
  Surroundings around{desk, workers, [&] { return now; }, [] { return int64_t{1750000000}; }, [] { return model(); }, [&] { return engine; },
                      [] { return std::string(); }, [] { return 1.0; }, Settings{}};
  Api api(std::move(around));
  turn::EngineView view;
  view.phase = turn::EnginePhase::ready;
  view.generation = 1;
  view.context = 4096;
  view.can_stop = view.can_logprobs = view.can_embed = true;
  desk.engine_changed(view, now);

  const auto channel = std::make_shared<RecordingChannel>();
  HttpRequest request;
  request.id = "r";
  request.client = "c";
  request.body = body;
  const auto exchange = (api.*handlers[route])(std::move(request), channel);
  if (channel->plan) {
    if (data[0] & 4) channel->body += channel->plan->keepalive();
  }
  const std::string said = body.substr(body.size() - std::min<size_t>(body.size(), data[1]));
  for (int round = 0; round < 64 && channel->answers == 0; ++round) {
    if (workers.run_one()) continue;
    require(port.lease.has_value(), "what is not answered is with the engine", body);
    const turn::LeaseId lease = *std::exchange(port.lease, std::nullopt);
    if (port.embed) {
      desk.on_line(lease, protocol::VectorPart{0, {1, 2, 3}}, now);
    } else {
      for (const char c : said) desk.on_line(lease, protocol::Token{text::test::byte_id(static_cast<unsigned char>(c)), {}, {}}, now);
      if (data[0] & 8) {
        desk.on_line(lease, protocol::EngineError{"it broke"}, now);
        desk.error_settled(lease, "", now);
        continue;
      }
    }
    protocol::Done done;
    done.finish = (data[0] & 16) ? "length" : "stop";
    desk.on_line(lease, done, now);
  }
  if (channel->answers == 0) return 0;  // a long list of texts to embed
  require(channel->answers == 1, "one answer", body);
  if (!channel->body.empty()) {
    require(text::valid_utf8(channel->body) == channel->body, "valid UTF-8", channel->body);
    check_stream(channel->body);
  } else {
    require(channel->response.has_value(), "an answer", body);
    require(text::valid_utf8(channel->response->body) == channel->response->body, "valid UTF-8", channel->response->body);
    if (channel->response->status == 200) require(json::parse(channel->response->body).is_object(), "an object", channel->response->body);
    else check_error(*channel->response, route == 0 || route == 3);
  }
  return 0;
}
