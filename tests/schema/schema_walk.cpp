// Schemas in, texts out: for each line of JSON on stdin, {"schema", "strict", "samples", "walks", "seed"}, one line with what the grammar's masks
// let through ("outputs": random walks from token to token) and which samples they would let through ("accepted"), or the "error".
// Not here: whether any of that is right; run.py asks another validator.
#include <cstdint>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/sample/grammar_masks.hpp"
#include "protocol/gbnf.hpp"
#include "server/json/json.hpp"
#include "server/text/schema_grammar.hpp"

namespace {

using namespace vigil;
using text::Json;

constexpr size_t close_after = 120, give_up_after = 4000;  // tokens

std::shared_ptr<const sample::TokenTrie> make_trie() {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.push_back(std::string(1, static_cast<char>(byte)));
  for (const char* text : {"{\"", "\":", "\": ", "\",", "\", \"", "},", "}]", "[{", "true", "false", "null", "12", "00", "2024", "-0", "1.", ".5", "e+", "\\u", "\\\"", "\\n", " the",
                           "an", "er", "in", "ab", "cd", "\xC3\xA9", "\xE4\xB8", "\xAD", "\xF0\x9F\x98", "\x8A", "name", "value", "id", "x-", "_a", "@", ".com", "\n  ", "  ", "[]", "{}"}) {
    texts.push_back(text);
  }
  return std::make_shared<const sample::TokenTrie>(std::move(texts));
}

// One text that the masks let through; nothing when it does not come to an end.
bool walk(sample::GrammarMasks& masks, const sample::TokenTrie& trie, std::mt19937_64& random, std::string& out) {
  sample::GrammarMasks::Cursor cursor(masks);
  for (size_t step = 0; step < give_up_after; ++step) {
    if (cursor.accepts() && (!cursor.reads() || step > close_after || random() % 3 == 0)) return true;
    const auto mask = cursor.mask();
    if (!mask || (*mask)->allowed == 0) return false;
    int32_t chosen = -1;
    // Towards an end: what closes is chosen more often, and always once the text is long.
    if (step > close_after || random() % 5 == 0) {
      for (const char c : {'"', '}', ']'}) {
        if (chosen < 0 && (*mask)->has(static_cast<unsigned char>(c))) chosen = static_cast<unsigned char>(c);
      }
    }
    for (int tries = 0; chosen < 0 && step > close_after && tries < 30; ++tries) {  // nothing that opens more
      const auto id = static_cast<int32_t>(random() % trie.size());
      const char first = trie.text(id).front();
      if ((*mask)->has(id) && first != '{' && first != '[' && first != ',' && first != ' ' && first != '\n') chosen = id;
    }
    for (size_t nth = chosen < 0 ? random() % (*mask)->allowed : 0, id = 0; chosen < 0; ++id) {
      if ((*mask)->has(static_cast<int32_t>(id)) && nth-- == 0) chosen = static_cast<int32_t>(id);
    }
    out += trie.text(chosen);
    const auto taken = cursor.accept(chosen);
    if (!taken || !*taken) {
      std::cerr << "a token that the mask allowed was not accepted\n";
      std::exit(1);
    }
  }
  return false;
}

Json answer(const Json& task, const std::shared_ptr<const sample::TokenTrie>& trie) {
  const auto strict = task.value("strict", true) ? text::Unenforceable::refuse : text::Unenforceable::ignore;
  const Result<std::string> text = text::schema_grammar(task.at("schema"), strict);
  if (!text) return {{"error", text.error()}};
  const auto grammar = protocol::gbnf::parse(*text);
  const auto program = grammar ? sample::make_program(*grammar) : Result<std::shared_ptr<const sample::Program>>(Error{grammar.error()});
  if (!program) return {{"error", "broken grammar: " + program.error()}};
  sample::GrammarMasks masks(*program, trie);
  Json out = {{"outputs", Json::array()}, {"unfinished", 0}, {"accepted", Json::array()}, {"bytes", text->size()}};
  if (task.value("show", false)) out["grammar"] = *text;
  std::mt19937_64 random(task.value("seed", uint64_t{1}));
  int unfinished = 0;
  for (int i = 0; i < task.value("walks", 0); ++i) {
    std::string one;
    if (walk(masks, *trie, random, one)) out["outputs"].push_back(one);
    else ++unfinished;
  }
  out["unfinished"] = unfinished;
  for (const auto& sample : task.value("samples", Json::array())) {
    sample::GrammarMasks::Cursor cursor(masks);
    bool fits = true;
    for (const char c : sample.get<std::string>()) {
      const auto taken = fits ? cursor.accept(static_cast<unsigned char>(c)) : Result<bool>(false);
      fits = taken && *taken;
    }
    out["accepted"].push_back(fits && cursor.accepts());
  }
  return out;
}

}  // namespace

int main() {
  const auto trie = make_trie();
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << answer(Json::parse(line), trie).dump(-1, ' ', false, Json::error_handler_t::strict) << std::endl;
  }
}
