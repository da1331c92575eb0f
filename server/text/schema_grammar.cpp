// Grammars that need no schema, and the check of a user's own. JSON Schema: schema_compiler.
#include "server/text/schema_grammar.hpp"

#include "protocol/gbnf.hpp"
#include "server/text/json_rules.hpp"
#include "server/text/schema_compiler.hpp"

namespace vigil::text {

static_assert(max_grammar_bytes <= protocol::gbnf::max_text_bytes);

Result<std::string> schema_grammar(const Json& schema, Unenforceable unenforceable) {
  Result<std::string> rules = SchemaCompiler(schema, unenforceable).run();
  if (!rules) return rules;
  std::string text = "root ::= lead r0\n" + *rules + std::string(json_rules());
  if (text.size() > max_grammar_bytes) return Error{": the schema's grammar would be larger than " + std::to_string(max_grammar_bytes) + " bytes; split or simplify the schema"};
  const Result<protocol::gbnf::Grammar> parsed = protocol::gbnf::parse(text);
  if (parsed) return text;
  if (parsed.error().find("root can never end") != std::string::npos) return Error{": no JSON value satisfies this schema"};
  return Error{": the schema's grammar is not usable: " + parsed.error()};
}

std::string any_object_grammar() { return "root ::= lead object\n" + std::string(json_rules()); }

Result<void> check_grammar(std::string_view gbnf) {
  const Result<protocol::gbnf::Grammar> parsed = protocol::gbnf::parse(gbnf);
  if (!parsed) return Error{parsed.error()};
  return {};
}

}  // namespace vigil::text
