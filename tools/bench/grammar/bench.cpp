// What a mask costs at a vocabulary of the usual size: cold (a state met for the first time) and warm, along texts that fit each grammar.
//   bench_grammar [VOCABULARY.gguf]      without a file: 150,000 made-up tokens
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "engine/gguf/byte_source.hpp"
#include "engine/gguf/file.hpp"
#include "engine/gguf/vocabulary.hpp"
#include "engine/sample/constraint.hpp"
#include "engine/sample/grammar_masks.hpp"
#include "engine/sample/random.hpp"
#include "protocol/gbnf.hpp"
#include "server/text/schema_grammar.hpp"

namespace {

using namespace vigil;
using Clock = std::chrono::steady_clock;

double us_since(Clock::time_point start) { return std::chrono::duration<double, std::micro>(Clock::now() - start).count(); }

std::vector<std::string> made_up() {
  sample::Random random(1);
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.push_back(std::string(1, static_cast<char>(byte)));
  const std::string letters = "etaoinshrdlucmfwypvbgkjqxz";
  while (texts.size() < 150'000) {
    std::string text = random.next() % 2 == 0 ? " " : "";
    for (uint64_t length = 2 + random.next() % 9; length > 0; --length) text += letters[(random.next() % 26) * (random.next() % 26) / 26];
    if (random.next() % 40 == 0) text = "\",\n  "[random.next() % 5] + text;
    texts.push_back(text);
  }
  return texts;
}

std::vector<std::string> from_file(const char* path) {
  auto source = gguf::open_pread(path);
  if (!source) return std::fprintf(stderr, "%s\n", source.error().c_str()), std::vector<std::string>();
  auto file = gguf::File::parse(**source);
  if (!file) return std::fprintf(stderr, "%s\n", file.error().c_str()), std::vector<std::string>();
  auto vocabulary = gguf::Vocabulary::from(*file);
  if (!vocabulary) return std::fprintf(stderr, "%s\n", vocabulary.error().c_str()), std::vector<std::string>();
  std::vector<std::string> texts;
  for (int32_t id = 0; id < vocabulary->size(); ++id) texts.push_back(vocabulary->bytes(id));
  return texts;
}

struct Row {
  const char* name;
  const char* schema;  // "" = any object
  const char* text;
};
const Row rows[] = {
    {"any object", "", R"({"name": "x", "list": [1, 2.5, {"deep": [true, null, "text with é and \" quotes"]}], "more": {"a": {"b": {"c": "d"}}}})"},
    {"tool arguments", R"({"type":"object","properties":{"path":{"type":"string"},"offset":{"type":"integer","minimum":0},"mode":{"enum":["read","write","append"]}},"required":["path"]})",
     R"({"path": "/home/user/file.txt", "offset": 1200, "mode": "append"})"},
    {"list of records",
     R"({"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},)"
     R"("tags":{"type":"array","items":{"type":"string","maxLength":20}},"score":{"type":"number","minimum":0,"maximum":1}},"required":["id","tags","score"]}})",
     R"([{"id": 1, "tags": ["one", "two words"], "score": 0.25}, {"id": 22, "tags": [], "score": 1}])"},
    {"bounded string", R"({"type":"string","maxLength":2000})", R"("A text that may be two thousand characters long, and counts each of them on its way to the end.")"},
    {"pattern", R"({"type":"string","pattern":"^[A-Z]{2}[0-9]{4}(-[a-z]+)*$","maxLength":40})", R"("AB1234-some-more-words")"},
};

void measure(const Row& row, const std::shared_ptr<const sample::TokenTrie>& trie) {
  const Result<std::string> text = *row.schema == 0 ? Result<std::string>(text::any_object_grammar()) : text::schema_grammar(text::Json::parse(row.schema));
  const auto start = Clock::now();
  const auto grammar = protocol::gbnf::parse(*text);
  const auto program = sample::make_program(*grammar);
  const double compile_us = us_since(start);
  sample::GrammarMasks masks(*program, trie);
  std::vector<double> cold, warm, apply;
  std::vector<float> scores(trie->size());
  for (int round = 0; round < 3; ++round) {
    sample::GrammarMasks::Cursor cursor(masks);
    for (const char* c = row.text; *c != 0; ++c) {
      const auto before = Clock::now();
      const size_t known = masks.kept_masks();
      const auto mask = cursor.mask();
      const double us = us_since(before);
      if (!mask) return static_cast<void>(std::printf("%s: %s\n", row.name, mask.error().c_str()));
      (masks.kept_masks() > known ? cold : warm).push_back(us);
      int32_t id = 0;
      while (trie->text(id) != std::string_view(c, 1)) ++id;
      if (const auto taken = cursor.accept(id); !taken || !*taken) return static_cast<void>(std::printf("%s: the text does not fit at %s\n", row.name, c));
    }
  }
  // A whole warm token as the sampler asks for it: mask, scores, step.
  sample::ConstraintPlan plan;
  plan.program = *program;
  plan.trie = trie;
  const auto shared = std::make_shared<sample::GrammarMasks>(*program, trie);
  for (int round = 0; round < 4; ++round) {
    sample::Constraint constraint(plan, shared, {});
    for (const char* c = row.text; *c != 0; ++c) {
      int32_t id = 0;
      while (trie->text(id) != std::string_view(c, 1)) ++id;
      std::fill(scores.begin(), scores.end(), 1.0f);
      const auto before = Clock::now();
      static_cast<void>(constraint.narrow(scores));
      static_cast<void>(constraint.accept(id));
      if (round > 0) apply.push_back(us_since(before));
    }
  }
  const auto at = [](std::vector<double>& list, double share) {
    std::sort(list.begin(), list.end());
    return list.empty() ? 0.0 : list[static_cast<size_t>(share * static_cast<double>(list.size() - 1))];
  };
  std::printf("| %s | %.0f | %zu | %.0f | %.0f | %.1f | %.1f | %.0f |\n", row.name, compile_us, cold.size(), at(cold, 0.5), at(cold, 1), at(apply, 0.5), at(apply, 0.99),
              static_cast<double>(masks.bytes()) / 1024);
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::string> texts = count > 1 ? from_file(arguments[1]) : made_up();
  if (texts.empty()) return 1;
  const auto start = Clock::now();
  const auto trie = std::make_shared<const sample::TokenTrie>(std::move(texts));
  std::printf("%zu tokens, %zu trie nodes, made in %.0f ms\n\n", trie->size(), trie->nodes().size(), us_since(start) / 1000);
  std::printf("| grammar | compile us | cold masks | cold us, median | cold us, most | warm token us, median | warm token us, 99 %% | kept KiB |\n|---|---|---|---|---|---|---|---|\n");
  for (const Row& row : rows) measure(row, trie);
}
