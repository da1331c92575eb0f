// Grammars of users, and texts that follow them: reading ends in a value or an error with its place; what is read compiles; the masks and the
// token-by-token answer agree. Up to the first NUL byte the input is the grammar, behind it the tokens to try.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sample/grammar_masks.hpp"
#include "protocol/gbnf.hpp"

namespace {

using namespace vigil;

void require(bool holds, const char* what, const std::string& shown = "") {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s: %s\n", what, shown.substr(0, 500).c_str());
  std::abort();
}

const std::shared_ptr<const sample::TokenTrie>& trie() {
  static const auto made = [] {
    std::vector<std::string> texts;
    for (int byte = 0; byte < 256; ++byte) texts.push_back(std::string(1, static_cast<char>(byte)));
    for (const char* text : {"ab", "abc", "aa", "\"a", "{\"", "\xC3\xA9", "\xA9"}) texts.push_back(text);
    return std::make_shared<const sample::TokenTrie>(std::move(texts));
  }();
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), input.size());
  const auto grammar = protocol::gbnf::parse(input.substr(0, end));
  if (!grammar) {
    require(grammar.error().starts_with("grammar") || grammar.error().starts_with("the grammar"), "an error says what it is about", grammar.error());
    return 0;
  }
  for (const auto& expression : grammar->expressions) require(expression.depth <= 3 * protocol::gbnf::max_depth, "depth is bounded");
  const auto program = sample::make_program(*grammar);
  if (!program) return 0;
  sample::GrammarMasks masks(*program, trie());
  sample::GrammarMasks::Cursor cursor(masks);
  for (const char c : input.substr(std::min(end + 1, input.size())).substr(0, 64)) {
    const auto id = static_cast<int32_t>(static_cast<unsigned char>(c));
    const auto alone = cursor.allows(id);
    const auto mask = cursor.mask();
    if (!alone || !mask) return 0;  // too ambiguous
    require((*mask)->has(id) == *alone, "mask and single answer agree");
    require(cursor.accepts() || cursor.reads(), "no state without a future");
    const auto taken = cursor.accept(id);
    if (!taken) return 0;
    require(*taken == *alone, "what is allowed is taken");
  }
  return 0;
}
