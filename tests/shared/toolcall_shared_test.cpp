// Outputs of 50 model families with the parse that is expected of them, from the shared data: each row read whole, one character at a time, and
// in random cuts.
#include <catch2/catch.hpp>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "engine/gguf/file.hpp"
#include "engine/gguf/writer.hpp"
#include "server/json/json.hpp"
#include "tests/server/text/output_support.hpp"

using namespace vigil::text;
using namespace vigil::text::test;

namespace {

const std::filesystem::path shared = VIGIL_SHARED_DIR;

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

// What stands for the text of templates that are not part of the data: marks that their families' models write.
std::string marks_of(const std::string& family) {
  static const std::map<std::string, std::string> marks = {
      {"seed-oss", "<seed:think> <seed:tool_call><function="},
      {"firefunction-2", "functools[{"},
      {"minimax-m1", "<tool_calls>\n"},
      {"cohere2-moe", "<|START_THINKING|><|END_THINKING|><|START_ACTION|><|START_TEXT|>"},
      {"nemotron-nano-2", "<think></think><TOOLCALL>"},
      {"lfm2", "<|tool_list_start|>"},
      {"gigachat-3.1", "<|function_call|>"},
      {"hunyuan-3", "<tool_calls:opensource>"},
      {"solar-open", "<|think|><|tool_call:begin|>"},
  };
  return marks.at(family);
}

vigil::gguf::Vocabulary empty_vocabulary() {
  vigil::gguf::Writer writer;
  writer.put_string("tokenizer.ggml.model", "llama");
  writer.put_strings("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>"});
  writer.put_f32s("tokenizer.ggml.scores", {0, 0, 0});
  writer.put_i32s("tokenizer.ggml.token_type", {2, 3, 3});
  auto file = vigil::gguf::File::parse(*vigil::gguf::from_memory(writer.bytes()));
  if (!file) throw std::runtime_error(file.error());
  return vigil::gguf::Vocabulary::from(*file).value();
}

std::string trim(std::string text) {
  constexpr const char* white = " \t\r\n";
  text.erase(text.find_last_not_of(white) + 1);
  return text.erase(0, std::min(text.find_first_not_of(white), text.size()));
}

// What a reading says, in the form of a row's `expect`.
Json told(const Reading& reading) {
  Json calls = Json::array();
  for (const ReadCall& call : reading.calls) {
    const Json arguments = call.ended ? Json::parse(call.arguments, nullptr, false) : Json();
    calls.push_back({{"name", call.name}, {"arguments", arguments.is_discarded() ? Json("not JSON: " + call.arguments) : arguments}});
  }
  if (!reading.cut_call.empty()) calls.push_back({{"name", reading.cut_call}, {"arguments", nullptr}});
  return {{"content", trim(reading.text)}, {"reasoning_content", trim(reading.thinking)}, {"tool_calls", calls}};
}

}  // namespace

TEST_CASE("Every output of every family is parsed as expected, however it is cut", "[toolcalls]") {
  std::vector<ToolDefinition> tools;
  for (const Json& tool : Json::parse(content_of(shared / "toolcalls/tools.json"))) {
    tools.push_back({.name = tool["function"]["name"], .parameters = tool["function"]["parameters"]});
  }
  REQUIRE(tools.size() == 5);
  const auto vocabulary = empty_vocabulary();
  std::mt19937 random(4);
  std::map<std::string, std::shared_ptr<const OutputFormat>> formats;
  std::istringstream lines(content_of(shared / "toolcalls/cases.jsonl"));
  size_t rows = 0, equal = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json row = Json::parse(line);
    const auto expect = nlohmann::json::parse(row["expect"].dump());  // the order of members says nothing
    ++rows;
    const std::string family = row["family"], output = row["output"];
    auto& format = formats[family];
    if (!format) {
      const std::string source = row["template_included"].get<bool>() ? content_of(shared / "templates" / row["template"].get<std::string>()) : marks_of(family);
      format = output_format(source, vocabulary);
    }
    const OutputParser::Options options{.tools = tools, .thinking_open = prompt_opens_thinking(*format, row["prompt_tail"].get<std::string>())};
    const auto end = row["finished"].get<bool>() ? OutputParser::End::complete : OutputParser::End::cut;
    std::vector<Cutter> cutters{whole, one_byte};
    for (int i = 0; i < 3; ++i) cutters.push_back([&](size_t) { return 1 + random() % 12; });
    bool good = true;
    for (size_t cutter = 0; cutter < cutters.size(); ++cutter) {
      const auto found = nlohmann::json::parse(told(read_output(*format, options, output, end, cutters[cutter])).dump());
      if (found == expect) continue;
      if (good) {
        FAIL_CHECK(family << " " << row["id"] << " (" << format->name << ", feed " << cutter << ")\n  output " << Json(output) << "\n  expect "
                          << row["expect"] << "\n  found  " << found);
      }
      good = false;
    }
    equal += good;
  }
  CHECK(formats.size() == 50);
  CHECK(rows == 528);
  CHECK(equal == rows);
  WARN("Tool-call rows equal: " << equal << " of " << rows);
}
