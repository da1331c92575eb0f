// Chat templates of the field against what Jinja2 makes of them: every row of shared/templates. Not here: our own templates (tests/server/text).
#include <catch2/catch.hpp>

#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "server/json/json.hpp"
#include "server/text/chat_template.hpp"
#include "server/text/jinja/template.hpp"
#include "tests/server/text/text_support.hpp"
#include "tests/shared/vocabulary_support.hpp"

using namespace vigil::text::jinja;

namespace {

using Json = nlohmann::ordered_json;
using Source = Piece::Source;

const std::string folder = std::string(VIGIL_SHARED_DIR) + "/templates/";

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

int64_t unix_seconds(int year, unsigned month, unsigned day) {
  const std::chrono::sys_days date = std::chrono::year(year) / static_cast<int>(month) / static_cast<int>(day);
  return std::chrono::duration_cast<std::chrono::seconds>(date.time_since_epoch()).count();
}

Options options_of(const std::string& env) {
  Options out;
  out.mutable_values = env == "hf+mutable";
  out.from_json = env == "hf+from_json";
  return out;
}

std::vector<Input> inputs_of(const Json& row) {
  std::vector<Input> out;
  for (const auto& [name, value] : row.items()) out.push_back({name, &value, name == "bos_token" || name == "eos_token"});
  return out;
}

// Every string in the input that has some length: what the template wrote must not hold any of it.
void collect(const Json& json, std::vector<std::string>& out) {
  if (json.is_string() && json.get_ref<const std::string&>().size() >= 12) out.push_back(json.get<std::string>());
  if (json.is_structured()) {
    for (const auto& one : json) collect(one, out);
  }
}

struct Outcome {
  std::string text, failure;
  bool refused = false;
  std::vector<Piece> pieces;
};

Outcome render(const Template& what, const Json& inputs, int64_t now) {
  const auto result = what.render(inputs_of(inputs), now);
  Outcome out;
  if (const auto* failure = std::get_if<RenderFailure>(&result)) {
    out.failure = failure->message;
    out.refused = failure->kind == RenderFailure::Kind::refusal;
    return out;
  }
  out.pieces = std::get<std::vector<Piece>>(result);
  for (const Piece& piece : out.pieces) out.text += piece.text;
  return out;
}

// What the rows of one template show of it: texts of the conversations that stand in some rendering.
struct Shown {
  bool system = false, tools = false, calls = false, results = false, thoughts = false;
  std::map<std::string, std::string> thinking;  // enable_thinking -> the text

  void add(const std::string& kind, const std::string& text) {
    const auto has = [&](const char* words) { return text.find(words) != std::string::npos; };
    if (kind == "b-system-user") system = has("You are a careful assistant.");
    if (kind.starts_with("e-tools")) tools = tools || has("search_notes");
    if (kind.starts_with("f-tool-result") || kind == "f-null-content-obj") {
      calls = calls || has("a b");
      results = results || has("light wind");
    }
    if (kind.starts_with("h-think-") && kind != "h-think-inline") thoughts = thoughts || has("Two plus two.") || has("I need the tool.");
    if (kind == "h-think-true" || kind == "h-think-false") thinking[kind] = text;
  }
  bool thinking_changes() const { return thinking.size() == 2 && thinking.begin()->second != thinking.rbegin()->second; }
};

std::map<std::string, Shown> shown_by_rows() {
  std::map<std::string, Shown> out;
  std::ifstream rows(folder + "cases.jsonl");
  REQUIRE(rows);
  for (std::string line; std::getline(rows, line);) {
    const Json row = Json::parse(line);
    if (row.contains("expect")) out[row["template"]].add(row["case"], row["expect"]);
  }
  return out;
}

}  // namespace

TEST_CASE("what a template can do is found out as the data says") {
  const auto vocabulary = vigil::text::test::make_vocabulary({});
  const auto shown = shown_by_rows();
  std::ifstream lines(folder + "templates.jsonl");
  REQUIRE(lines);
  std::map<std::string, size_t> forms;
  for (std::string line; std::getline(lines, line);) {
    const Json facts = Json::parse(line);
    const std::string name = facts["template"], form = facts["arguments_form"];
    INFO(name << ", arguments: " << form);
    const auto compiled = vigil::text::ChatTemplate::compile(read_file(folder + name), *vocabulary);
    REQUIRE(compiled.ok());
    const vigil::text::TemplateTraits& traits = (*compiled)->traits();
    const Shown& rows = shown.at(name);
    CHECK(traits.system == rows.system);
    CHECK(traits.tools == rows.tools);
    CHECK(traits.tool_calls == (rows.calls || form != "ignored-or-unclear"));  // some print calls only of messages without content, which no row with a text has
    CHECK(traits.tool_results == rows.results);
    if (form == "object") CHECK(traits.arguments_object);
    if (form == "string") CHECK_FALSE(traits.arguments_object);
    if (rows.thoughts) CHECK(traits.reasoning);
    if (rows.thinking_changes()) CHECK(traits.enable_thinking);
    ++forms[form];
  }
  CHECK(forms == std::map<std::string, size_t>{{"both", 14}, {"ignored-or-unclear", 5}, {"object", 29}, {"string", 2}});
}

TEST_CASE("D5 templates of the public cases are equal to the byte, or refused as they say") {
  const std::string script = std::string(VIGIL_SOURCE_DIR) + "/tests/shared/make_d5.py";
  std::istringstream rows(vigil::gguf::test::output_of("python3 '" + script + "' '" + VIGIL_SHARED_DIR + "'"));
  std::map<std::string, size_t> count;
  for (std::string line; std::getline(rows, line);) {
    const Json row = Json::parse(line);
    INFO(row.dump());
    const auto compiled = Template::compile(row["template"].get<std::string>());
    REQUIRE(compiled.ok());
    const std::string now = row.value("now", "2025-03-09T08:07:06");
    REQUIRE(now == "2025-03-09T08:07:06");
    const Outcome got = render(**compiled, row["context"], unix_seconds(2025, 3, 9) + 8 * 3600 + 7 * 60 + 6);
    if (row["id"] == "refuses") {
      CHECK(got.refused);
      CHECK(got.failure == row["expect_error"].get<std::string>());
      ++count["refused"];
    } else if (row.contains("expect_error")) {
      CHECK_FALSE(got.refused);
      CHECK(got.failure.find("(max_") != std::string::npos);
      ++count["stopped by a limit"];
    } else {
      CHECK(got.failure == "");
      CHECK(got.text == row["expect"].get<std::string>());
      ++count["equal"];
    }
  }
  CHECK(count == std::map<std::string, size_t>{{"equal", 27}, {"refused", 1}, {"stopped by a limit", 1}});
}

TEST_CASE("every rendering of the field's templates is equal to the byte") {
  std::map<std::string, std::shared_ptr<const Template>> templates;
  std::map<std::string, std::string> sources;
  std::ifstream rows(folder + "cases.jsonl");
  REQUIRE(rows);
  size_t count = 0, equal = 0, errors = 0, refusals = 0;
  for (std::string line; std::getline(rows, line);) {
    const Json row = Json::parse(line);
    const std::string name = row["template"], env = row["env"];
    auto& compiled = templates[name + env];
    if (!compiled) {
      auto made = Template::compile(sources[name] = read_file(folder + name), options_of(env));
      INFO(name << " " << (made.ok() ? "" : made.error()));
      REQUIRE(made.ok());
      compiled = *made;
    }
    ++count;
    const Outcome got = render(*compiled, row["inputs"], unix_seconds(2026, 1, 2));
    INFO(name << " " << row["case"] << " " << env << " failure: " << got.failure);
    if (row.contains("error")) {
      CHECK(!got.failure.empty());
      const bool refusal = row["error_kind"] == "raise_exception";
      CHECK(got.refused == refusal);
      if (refusal) CHECK(got.failure == row["error"].get<std::string>());
      ++(refusal ? refusals : errors);
      continue;
    }
    CHECK(got.failure == "");
    CHECK(got.text == row["expect"].get<std::string>());
    equal += got.text == row["expect"].get<std::string>();
    // No text of a message, tool or document is among what the template wrote, unless the template has it too.
    std::vector<std::string> typed;
    collect(row["inputs"], typed);
    for (const Piece& piece : got.pieces) {
      if (piece.source != Source::fixed) continue;
      for (const std::string& text : typed) {
        if (piece.text.find(text) != std::string::npos && sources[name].find(text) == std::string::npos) FAIL("fixed: " << piece.text << " holds " << text);
      }
    }
  }
  WARN("templates: " << count << " rows: " << equal << " texts equal, " << refusals << " refusals, " << errors << " errors");
  CHECK(count == 1862);
  CHECK(equal == 1689);
}
