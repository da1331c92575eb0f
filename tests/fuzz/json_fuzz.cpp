// Bodies of chat, completions, tokenize and detokenize through the real api, with a desk of its own and an engine that answers three tokens.
// Nothing is thrown, every request has one ending in valid UTF-8, a refusal says where, and what reaches the engine is within its ranges.
// First byte: route and state of the engine; second: what the engine answers. Not here: HTTP, the templates, the engine.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/lines.hpp"
#include "server/api/api.hpp"
#include "server/api/generation.hpp"
#include "server/api/parameters.hpp"
#include "server/json/json.hpp"
#include "server/text/utf8.hpp"
#include "server/turn/desk.hpp"
#include "tests/server/text/text_support.hpp"

namespace {

using namespace vigil;
using namespace vigil::api;
using json = nlohmann::ordered_json;

constexpr int64_t kContext = 1024;

void require(bool holds, const char* what, const std::string& shown = "") {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s: %s\n", what, shown.substr(0, 2000).c_str());
  std::abort();
}

bool within(const std::optional<double>& value, double min, double max) { return !value || (*value >= min && *value <= max); }

struct RecordingChannel final : Channel {
  void respond(Response r) override {
    require(!streaming, "a stream is not answered by respond()");
    ++answers;
    response = std::move(r);
  }
  void plan_stream(StreamPlan) override {
    require(!streaming && answers == 0, "one plan, before the answer");
    streaming = true;
  }
  void plan_later() override {}
  void plan_whole() override {}
  void write(std::string_view bytes) override {
    require(streaming && answers == 0 && !bytes.empty(), "writes belong into an open stream");
    body += bytes;
  }
  void finish() override { ++answers; }
  void fail(Response plain, std::string_view event) override {
    require(streaming, "fail() is for streams");
    ++answers;
    if (body.empty()) response = std::move(plain);
    else body += event;
  }
  std::optional<Response> response;
  std::string body;
  bool streaming = false;
  int answers = 0;
};

struct ScriptedPort final : turn::TurnPort {
  void need_engine() override { ++needed; }
  struct Start {
    turn::LeaseId lease;
    turn::Request request;
    int64_t max_new;
  };
  void start(turn::LeaseId id, const turn::Request& sent, int64_t room) override { starts.push_back({id, sent, room}); }
  void cancel(turn::LeaseId) override { ++cancels; }
  void answered(turn::LeaseId) override {}
  void release(turn::LeaseId) override {}
  void pause_output(bool) override {}
  int needed = 0, cancels = 0;
  std::vector<Start> starts;
};

// Jobs come back later, as they do in the daemon: never from inside a sink.
struct HeldWorkers final : Workers {
  void run(size_t, std::function<void()> job, std::function<void()> done) override { jobs.emplace_back(std::move(job), std::move(done)); }
  void run_all() {
    while (!jobs.empty()) {
      auto [job, done] = std::move(jobs.front());
      jobs.pop_front();
      job();
      done();
    }
  }
  std::deque<std::pair<std::function<void()>, std::function<void()>>> jobs;
};

const std::shared_ptr<const Model>& model() {
  static const std::shared_ptr<const Model> made = [] {
    auto fresh = std::make_shared<Model>();
    fresh->id = "tiny";
    fresh->aliases = {"M", "maker/tiny:1"};
    fresh->vocabulary = text::test::make_vocabulary({{std::string(text::test::blank) + "there"}, {"hi", -1},
                                                     {"<think>", 0, gguf::TokenKind::user_defined}, {"</think>", 0, gguf::TokenKind::user_defined}});
    fresh->output = text::output_format("", *fresh->vocabulary);
    fresh->tokenizer = text::test::make_tokenizer_of(*fresh->vocabulary);
    fresh->longest_token_bytes = 8;
    return fresh;
  }();
  return made;
}

void check_error(const json& error, int status, std::string_view body) {
  const std::string code = error.at("code"), message = error.at("message");
  require(!message.empty() && message.size() < 2000, "a message of sane length", message);
  if (status == 413) require(code == "request_too_large", "413 is about size", code);
  if (status == 404) require(code == "model_not_found" && error.at("param") == "model", "404 is about the model", code);
  if (status != 400) return;
  if (code == "invalid_json") {
    require(message.find(" at byte ") != std::string::npos, "invalid_json says where", message);
    const long position = std::atol(message.c_str() + message.find(" at byte ") + 9);
    require(position >= 1 && position <= static_cast<long>(body.size()) + 1, "inside the body", message);
  } else {
    require(error.at("param").is_string() || message.find("must be a JSON object") != std::string::npos, "a 400 names its field", error.dump());
  }
}

void check_whole(const Response& response, std::string_view body) {
  require(text::valid_utf8(response.body) == response.body, "valid UTF-8");
  const json answer = json::parse(response.body);  // strict
  const int status = response.status;
  require(status == 200 || status == 400 || status == 404 || status == 413 || status == 503, "an expected status", response.body);
  require((status != 200) == answer.contains("error"), "an error or an answer", response.body);
  if (status != 200) check_error(answer.at("error"), status, body);
}

void check_stream(const std::string& events) {
  require(text::valid_utf8(events) == events, "valid UTF-8");
  for (size_t at = 0; at < events.size();) {
    const size_t end = events.find("\n\n", at);
    require(end != std::string::npos && events.compare(at, 6, "data: ") == 0, "framed events", events);
    const std::string event = events.substr(at + 6, end - at - 6);
    require(event.find('\n') == std::string::npos, "one line each", event);
    if (event != "[DONE]") require(json::accept(event), "an event is JSON", event);
    at = end + 2;
  }
}

// What the engine would be sent: within the ranges that docs/api.md promises, and a line that survives its way.
void check_sent(const turn::Request& request, int64_t max_new, int64_t context) {
  const protocol::Sampling& s = request.sampling;
  const int32_t size = model()->vocabulary->size();
  require(!request.prompt.empty() && request.prompt.size() <= max_prompt_tokens, "a prompt within its cap");
  for (const auto id : request.prompt) require(id >= 0 && id < size, "ids of the vocabulary");
  require(context == 0 || static_cast<int64_t>(request.prompt.size()) + max_new <= context, "prompt and answer fit the context");
  require(max_new >= 1, "room for an answer");
  require(s.temperature && within(s.temperature, 0, max_temperature) && within(s.top_p, 0, 1) && within(s.min_p, 0, 1), "temperature, top_p, min_p");
  require(within(s.penalty_freq, -2, 2) && within(s.penalty_present, -2, 2) && within(s.penalty_repeat, 0.01, 100), "penalties");
  require(!s.top_k || *s.top_k >= 0, "top_k");
  require(!s.penalty_last_n || *s.penalty_last_n >= -1, "penalty_last_n");
  require(!s.logprobs || (*s.logprobs >= 0 && *s.logprobs <= protocol::max_logprobs), "logprobs");
  for (const auto& [id, bias] : s.logit_bias) require(id >= 0 && id < size && bias >= -100 && bias <= 100, "logit_bias");
  require(request.client.size() <= max_client_name_bytes + 16, "a client's name within its cap");
  protocol::Generate line;
  line.max_new = max_new;
  line.sampling = s;
  line.ids = request.prompt;
  std::string text = protocol::encode(line);
  require(!text.empty() && text.back() == '\n' && text.find('\n') == text.size() - 1, "one line", text);
  text.pop_back();
  const auto again = protocol::parse_engine_command(text);
  require(again.ok(), "a GEN line", again.ok() ? "" : again.error());
  require(std::get<protocol::Generate>(again.value()) == line, "that says the same", text);
}

struct World {
  World(bool ready, bool grammar) : desk(turn::DeskLimits{}, port) {
    engine.state = ready ? "ready" : "unloaded";
    engine.context = ready ? kContext : 0;
    engine.can_logprobs = true;
    engine.can_grammar = grammar;
    Settings settings;
    settings.inline_body_bytes = 512;  // so that both ways of reading are taken
    settings.inline_text_bytes = 256;
    settings.repeat_stop_tokens = 2;
    api.emplace(Surroundings{desk, workers, [] { return TimePoint{}; }, [] { return int64_t{1}; }, [] { return model(); }, [this] { return engine; },
                             [] { return std::string(); }, [] { return 0.0; }, settings});
    if (ready) make_ready();
  }
  void make_ready() {
    turn::EngineView view;
    view.phase = turn::EnginePhase::ready;
    view.generation = 1;
    view.context = kContext;
    view.can_stop = view.can_logprobs = true;
    view.can_grammar = engine.can_grammar;
    desk.engine_changed(view, {});
  }
  ScriptedPort port;
  HeldWorkers workers;
  EngineStatus engine;
  turn::Desk desk;
  std::optional<Api> api;
};

// Three tokens of any bytes, an end.
void answer(World& world, const ScriptedPort::Start& start, uint8_t choice) {
  const turn::LeaseId lease = start.lease;
  for (int i = 0; i < 3; ++i) {
    protocol::Token token;
    token.id = static_cast<protocol::TokenId>((choice * 7 + i * 61) % model()->vocabulary->size());
    if (start.request.sampling.logprobs) token.logprob = -0.5;
    world.desk.on_line(lease, token, {});
  }
  protocol::Done done;
  done.generated = 3;
  done.finish = (choice & 1) != 0 ? "stop" : "length";
  world.desk.on_line(lease, done, {});
}

void collect(json& value, std::vector<json*>& out) {
  out.push_back(&value);
  if (out.size() > 1000) return;
  if (value.is_structured())
    for (json& inner : value) collect(inner, out);
}

// One change that leaves the body JSON: bytes changed at random nearly always break it before any field is read.
void change(json& body, std::mt19937& random) {
  const auto pick = [&](size_t below) { return static_cast<size_t>(random()) % below; };
  std::vector<json*> all;
  collect(body, all);
  json& value = *all[pick(all.size())];
  const json other = *all[pick(all.size())];
  static const json strange[] = {nullptr, true, false, -1, 0, 1, 2, 0.5, -0.0, 1e300, 16.0, 257, 262, 2147483648, INT64_MAX, INT64_MIN, UINT64_MAX,
                                 "", "a", "none", "auto", "text", "\xF0\x9F\x98\x8A", "</s>", json::array(), json::object(), {{"type", "text"}}};
  switch (pick(6)) {
    case 0: value = strange[pick(std::size(strange))]; break;
    case 1: value = other; break;
    case 2:
      if (value.is_array()) value.push_back(other);
      else if (value.is_string()) value = value.get<std::string>() + "x y";
      else if (value.is_number()) value = value.get<double>() * 1000;
      break;
    case 3:
      if (value.is_object()) value[std::to_string(random() % 600)] = other;
      else if (value.is_number()) value = static_cast<int64_t>(random() % 600) - 100;
      break;
    case 4:
      if (value.is_object() && !value.empty()) value.erase(std::next(value.begin(), static_cast<std::ptrdiff_t>(pick(value.size()))));
      else if (value.is_array() && !value.empty()) value.erase(pick(value.size()));
      break;
    default: {  // another name for a field, of any object
      std::erase_if(all, [](const json* one) { return !one->is_object() || one->empty(); });
      if (all.empty()) return;
      json& object = *all[pick(all.size())];
      const auto field = std::next(object.begin(), static_cast<std::ptrdiff_t>(pick(object.size())));
      const json moved = *field;
      std::string name = field.key();
      object.erase(field);
      if (name.find_first_not_of("0123456789") == std::string::npos) name = std::to_string(random() % 600);
      else name.back() = static_cast<char>('a' + random() % 26);
      object[name] = moved;
    }
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  std::mt19937 random(seed);
  if (size > 2 && random() % 2 == 0) {
    json body = json::parse(data + 2, data + size, nullptr, false);
    if (!body.is_discarded()) {
      change(body, random);
      const std::string text = body.dump(-1, ' ', false, json::error_handler_t::replace);
      if (text.size() + 2 <= max_size) {
        std::copy(text.begin(), text.end(), data + 2);
        return text.size() + 2;
      }
    }
  }
  return LLVMFuzzerMutate(data, size, max_size);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  constexpr Api::Handler handlers[] = {&Api::chat_completions, &Api::completions, &Api::tokenize, &Api::detokenize};
  const std::string body(reinterpret_cast<const char*>(data + 2), size - 2);
  const bool ready = (data[0] & 4) == 0;
  World world(ready, (data[0] & 8) != 0);
  HttpRequest request;
  request.id = "req-1";
  request.client = "connection-1";
  request.body = body;
  const auto channel = std::make_shared<RecordingChannel>();
  const auto exchange = ((*world.api).*handlers[data[0] % 4])(std::move(request), channel);
  require((exchange == nullptr) == (channel->answers == 1), "null means answered");
  world.workers.run_all();
  if (channel->answers == 0) {
    if (!ready) {
      require(world.port.needed >= 1, "an engine is asked for");
      world.make_ready();
    }
    require(channel->answers == 1 || !world.port.starts.empty(), "the engine has it, or it was refused once the context was known");
  }
  // One start a choice, and one more for each whose thinking was ended; what was stopped is answered too.
  for (size_t i = 0; i < world.port.starts.size(); ++i) {
    const ScriptedPort::Start start = world.port.starts[i];
    check_sent(start.request, start.max_new, kContext);
    answer(world, start, data[1]);
    world.workers.run_all();
  }
  require(channel->answers == 1, "exactly one ending");
  require(world.desk.idle(), "nothing is left");
  if (channel->response) check_whole(*channel->response, body);
  else check_stream(channel->body);
  return 0;
}
