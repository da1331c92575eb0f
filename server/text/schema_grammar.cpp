// Grammars that need no schema, and the check of a user's own. JSON Schema: schema_compiler.
#include "server/text/schema_grammar.hpp"

#include "protocol/gbnf.hpp"
#include "server/text/json_rules.hpp"

namespace vigil::text {

static_assert(max_grammar_bytes <= protocol::gbnf::max_text_bytes);

Result<std::string> schema_grammar(const Json&, Unenforceable) { return Error{": JSON Schema is not enforced by this version yet"}; }

std::string any_object_grammar() { return "root ::= lead object\n" + std::string(json_rules()); }

Result<void> check_grammar(std::string_view gbnf) {
  const Result<protocol::gbnf::Grammar> parsed = protocol::gbnf::parse(gbnf);
  if (!parsed) return Error{parsed.error()};
  return {};
}

}  // namespace vigil::text
