// JSON (RFC 8259) as GBNF.
#include "server/text/json_rules.hpp"

namespace vigil::text {

// char: an escaped surrogate comes only as a pair, else the text would be no Unicode. number: 19 digits and exponents to 289 stay below the
// largest double.
std::string_view json_rules() {
  return R"gbnf(
lead ::= (" " | "\n" "\n"?)?
ws ::= (" " | "\n" [ \t]{0,64})?
value ::= object | array | string | number | boolean | "null"
object ::= "{" ws (member ("," ws member)*)? ws "}"
member ::= string ":" ws value
array ::= "[" ws (value ("," ws value)*)? ws "]"
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1F] | "\\" escape
escape ::= ["\\/bfnrt] | "u" ([0-9A-CE-Fa-ce-f] hex{3} | [Dd] [0-7] hex{2} | [Dd] [89ABab] hex{2} "\\u" [Dd] [C-Fc-f] hex{2})
hex ::= [0-9A-Fa-f]
integer ::= "-"? ("0" | [1-9] [0-9]{0,18})
number ::= integer ("." [0-9]{1,20})? ([eE] [-+]? ([0-9]{1,2} | "1" [0-9]{2} | "2" [0-8] [0-9]))?
boolean ::= "true" | "false"
)gbnf";
}

}  // namespace vigil::text
