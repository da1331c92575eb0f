// Schemas of users: each ends as a grammar that reads back, or as an error that begins with a place; patterns likewise.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "protocol/gbnf.hpp"
#include "server/text/regex.hpp"
#include "server/text/schema_grammar.hpp"

namespace {

using namespace vigil;

void require(bool holds, const char* what, const std::string& shown = "") {
  if (holds) return;
  std::fprintf(stderr, "property broken: %s: %s\n", what, shown.substr(0, 2000).c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  static_cast<void>(text::parse_regex(input));
  const text::Json schema = text::Json::parse(input, nullptr, false);
  if (schema.is_discarded()) return 0;
  for (const auto mode : {text::Unenforceable::refuse, text::Unenforceable::ignore}) {
    const auto grammar = text::schema_grammar(schema, mode);
    if (grammar) {
      require(grammar->size() <= text::max_grammar_bytes && protocol::gbnf::parse(*grammar).ok(), "a grammar that reads back", *grammar);
    } else {
      require(grammar.error().find(": ") != std::string::npos, "an error with a place", grammar.error());
      require(grammar.error().find("is not usable") == std::string::npos, "no grammar of ours is broken", grammar.error());
    }
  }
  return 0;
}
