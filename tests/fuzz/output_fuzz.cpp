// What a model wrote, through the output parser of every family. Events come in their order, complete calls have a JSON object as arguments and a
// name that may be called, nothing is said twice, the result does not depend on how the text was cut, and where nothing has a meaning nothing is
// lost. First byte: the family; second: options; third: how the text is cut; then the text. Not here: how tokens become text (text rooms' tests).
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "server/json/json.hpp"
#include "server/text/output_families.hpp"
#include "server/text/output_parser.hpp"
#include "server/text/utf8.hpp"

namespace {

using namespace vigil::text;

constexpr families::Form forms[] = {
    families::hermes, families::minimax_m1, families::llama, families::functionary_tags, families::functionary_lines, families::functools,
    families::mistral_list, families::mistral_arguments, families::harmony, families::deepseek_fenced, families::deepseek, families::kimi_k2,
    families::granite_list, families::cohere_action, families::cohere_plain, families::toolcall_list, families::apertus, families::apriel,
    families::gigachat, families::solar, families::qwen_xml, families::seed, families::dsml, families::glm, families::hunyuan, families::kimi_k3,
    families::minimax_m2, families::minimax_m3, families::muse, families::minicpm, families::gemma, families::lfm};

void require(bool holds, const char* what, std::string_view shown = "") {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s: %.*s\n", what, static_cast<int>(std::min<size_t>(shown.size(), 2000)), shown.data());
  std::abort();
}

struct Call {
  std::string name, arguments;
  bool ended = false;
  bool operator==(const Call&) const = default;
};

struct Sink : OutputSink {
  std::string text, thinking;
  std::vector<Call> calls;
  bool open = false;

  void content(std::string_view piece) override {
    require(!open && !piece.empty(), "content inside a call, or empty");
    text += piece;
  }
  void reasoning(std::string_view piece) override {
    require(!open && !piece.empty(), "thinking inside a call, or empty");
    thinking += piece;
  }
  void call_begin(size_t index, std::string_view name) override {
    require(!open && index == calls.size() && !name.empty(), "a call begins out of order");
    calls.push_back({std::string(name), "", false});
    open = true;
  }
  void call_arguments(size_t index, std::string_view json) override {
    require(open && index + 1 == calls.size() && !json.empty(), "arguments out of order");
    calls.back().arguments += json;
  }
  void call_end(size_t index) override {
    require(open && index + 1 == calls.size(), "a call ends out of order");
    calls.back().ended = true;
    open = false;
    const auto parsed = nlohmann::json::parse(calls.back().arguments, nullptr, false);
    require(parsed.is_object(), "arguments are no JSON object", calls.back().arguments);
  }
};

std::string valid(std::string_view bytes) {
  std::string text;
  append_valid_utf8(text, bytes);
  return text;
}

Sink read(const std::shared_ptr<const OutputFormat>& format, const OutputParser::Options& options, std::string_view text, OutputParser::End end,
          unsigned seed, bool controls) {
  Sink sink;
  OutputParser parser(format, options, sink);
  std::minstd_rand random(seed + 1);
  while (!text.empty()) {
    size_t length = seed == 0 ? text.size() : std::min<size_t>(1 + random() % (seed % 2 == 1 ? 2 : 40), text.size());
    while (length < text.size() && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) ++length;
    parser.push(text.substr(0, length), controls && random() % 4 == 0 ? OutputParser::Source::control : OutputParser::Source::text);
    text.remove_prefix(length);
  }
  parser.finish(end);
  require(parser.calls() == sink.calls.size(), "the number of calls");
  return sink;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 3) return 0;
  const auto format = std::make_shared<const OutputFormat>(forms[data[0] % std::size(forms)]());
  const uint8_t flags = data[1];
  const std::string text = valid({reinterpret_cast<const char*>(data + 3), size - 3});
  OutputParser::Options options{.thinking_open = (flags & 1) != 0, .split_thinking = (flags & 2) == 0, .parallel_calls = (flags & 4) == 0};
  if ((flags & 8) == 0) {
    options.tools = {{.name = "f", .parameters = Json::parse(R"({"properties":{"a":{"type":"string"},"b":{"type":"array"}}})")}, {.name = "get", .parameters = Json()}};
  }
  const auto end = (flags & 16) != 0 ? OutputParser::End::cut : OutputParser::End::complete;
  const Sink whole = read(format, options, text, end, 0, false);
  const Sink cut = read(format, options, text, end, data[2] + 1u, false);
  require(whole.text == cut.text, "content depends on the cuts", whole.text + "\n--\n" + cut.text);
  require(whole.thinking == cut.thinking, "thinking depends on the cuts", whole.thinking + "\n--\n" + cut.thinking);
  require(whole.calls == cut.calls, "calls depend on the cuts");
  for (const Call& call : whole.calls) {
    const bool offered = format->name == "llama" || format->name == "functionary-tags";  // by the template itself
    require(call.name == "f" || call.name == "get" || offered, "an undeclared name", call.name);
  }
  require(options.tools.empty() ? whole.calls.empty() : true, "a call without tools");
  require(whole.text.size() + whole.thinking.size() <= text.size() + format->thinking.lead.size() + 4096, "said twice");
  if (options.tools.empty() && !options.split_thinking && format->headers == Headers::none && format->dropped.empty() && format->wrapper_open.empty()) {
    require(whole.text == text, "something is lost", text + "\n--\n" + whole.text);
  }
  (void)read(format, options, text, end, data[2] + 1u, true);
  return 0;
}
