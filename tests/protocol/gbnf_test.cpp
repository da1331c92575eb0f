// Reading GBNF: what is understood, and that every mistake is told with its place.
#include <catch2/catch.hpp>

#include "protocol/gbnf.hpp"

using namespace vigil;
using namespace vigil::protocol::gbnf;
using Kind = Expression::Kind;

namespace {

Grammar parsed(std::string_view text) {
  auto grammar = parse(text);
  INFO(text << (grammar ? "" : grammar.error()));
  REQUIRE(grammar.ok());
  return std::move(grammar).value();
}
std::string refused(std::string_view text) {
  const auto grammar = parse(text);
  INFO(text);
  REQUIRE_FALSE(grammar.ok());
  return grammar.error();
}
const Expression& root_of(const Grammar& grammar) { return grammar.expressions[grammar.rules[grammar.root].expression]; }
std::vector<Range> class_of(std::string_view text) {
  const Grammar grammar = parsed("root ::= " + std::string(text));
  REQUIRE(root_of(grammar).kind == Kind::characters);
  return root_of(grammar).ranges;
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("gbnf: rules, choices, groups and repetitions become a tree") {
  const Grammar grammar = parsed("# a comment\nroot ::= \"a\" (item | [0-9]+ )? # more\n  | \"\"\nitem ::= \"x\"{2,3} . root2*\nroot2 ::= \"y\"{4} \"z\"{5,} \"w\"{,6}\n");
  REQUIRE(grammar.rules.size() == 3);
  const Expression& root = root_of(grammar);
  REQUIRE(root.kind == Kind::choice);
  REQUIRE(root.parts.size() == 2);
  const Expression& first = grammar.expressions[root.parts[0]];
  REQUIRE(first.kind == Kind::sequence);
  CHECK(grammar.expressions[first.parts[0]].text == "a");
  const Expression& maybe = grammar.expressions[first.parts[1]];
  CHECK(maybe.kind == Kind::repeat);
  CHECK(maybe.min == 0);
  CHECK(maybe.max == 1);
  const Expression& inner = grammar.expressions[maybe.parts[0]];
  REQUIRE(inner.kind == Kind::choice);
  CHECK(grammar.rules[grammar.expressions[inner.parts[0]].rule].name == "item");
  const Expression& item = grammar.expressions[grammar.rules[1].expression];
  CHECK(grammar.expressions[item.parts[0]].min == 2);
  CHECK(grammar.expressions[item.parts[0]].max == 3);
  const Expression& last = grammar.expressions[grammar.rules[2].expression];
  CHECK(grammar.expressions[last.parts[0]].max == 4);
  CHECK(grammar.expressions[last.parts[1]].max == unbounded);
  CHECK(grammar.expressions[last.parts[2]].min == 0);
  CHECK(grammar.expressions[last.parts[2]].max == 6);
}

TEST_CASE("gbnf: classes are sorted, joined, turned around, and free of surrogates") {
  CHECK(class_of("[c-ea-b\\x41]") == std::vector<Range>{{'A', 'A'}, {'a', 'e'}});
  CHECK(class_of("[^a-y]") == std::vector<Range>{{0, '`'}, {'z', 0xD7FF}, {0xE000, 0x10FFFF}});
  CHECK(class_of(".") == std::vector<Range>{{0, 0xD7FF}, {0xE000, 0x10FFFF}});
  CHECK(class_of("[\\n\\r\\t\\]\\\\-]") == std::vector<Range>{{'\t', '\n'}, {'\r', '\r'}, {'-', '-'}, {'\\', ']'}});
  CHECK(class_of("[\\u00e9\xC3\xA8\\U0001F600]") == std::vector<Range>{{0xE8, 0xE9}, {0x1F600, 0x1F600}});
  CHECK(class_of("[a-]") == std::vector<Range>{{'-', '-'}, {'a', 'a'}});
  CHECK(class_of("[^^]").front() == Range{0, '^' - 1});
}

TEST_CASE("gbnf: escapes in literals are code points") {
  const Grammar grammar = parsed(R"(root ::= "\x41\u00e9\U0001F600\n\"\\\[")");
  CHECK(root_of(grammar).text == "A\xC3\xA9\xF0\x9F\x98\x80\n\"\\[");
}

TEST_CASE("gbnf: a token by its number") {
  const Grammar grammar = parsed("root ::= <[151668]> \"x\"");
  CHECK(grammar.expressions[root_of(grammar).parts[0]].token == 151668);
  CHECK(has(refused("root ::= <think>"), "line 1, column 10: a token is written <[id]>"));
}

TEST_CASE("gbnf: every mistake is told with line and column") {
  CHECK(has(refused(""), "no rule named root"));
  CHECK(has(refused("rot ::= \"a\""), "no rule named root"));
  CHECK(has(refused("root ::= \"a\n"), "line 1, column 12: a line break inside a literal"));
  CHECK(has(refused("root ::= \"a"), "line 1, column 10: this literal is never closed"));
  CHECK(has(refused("root ::= [a"), "line 1, column 10: this class is never closed"));
  CHECK(has(refused("root ::= (\"a\""), "line 1, column 10: this '(' is never closed"));
  CHECK(has(refused("root ::= \"a\")"), "line 1, column 13: ')' without '('"));
  CHECK(has(refused("root ::=\n  * \"a\""), "line 2, column 3: '*' has nothing before it"));
  CHECK(has(refused("root ::= \"\xC3\xA9\" nobody"), "line 1, column 14: rule nobody is not defined"));
  CHECK(has(refused("root ::= \"a\"\nroot ::= \"b\""), "line 2, column 1: rule root is defined twice (first in line 1)"));
  CHECK(has(refused("root ::= [z-a]"), "column 11: a range that ends before it begins"));
  CHECK(has(refused("root ::= \"\\q\""), "column 11: unknown escape"));
  CHECK(has(refused("root ::= \"\\u12\""), "column 11: this escape needs 4"));
  CHECK(has(refused("root ::= \"\\ud800\""), "no code point"));
  CHECK(has(refused("root ::= \"\xFF\""), "column 11: bytes that are not UTF-8"));
  CHECK(has(refused("root ::= \"\xC0\x80\""), "not UTF-8"));
  CHECK(has(refused("root ::= \"a\"{3,2}"), "most is below its least"));
  CHECK(has(refused("root ::= \"a\"{1000001}"), "a number above 1000000"));
  CHECK(has(refused("root ::= \"a\"{x}"), "a repetition is written"));
  CHECK(has(refused("root ::= \"a\"{}"), "a repetition is written"));
  CHECK(has(refused("root = \"a\""), "column 1: a rule is expected here"));
  CHECK(has(refused("root ::= \"a\" & \"b\""), "column 14: an element is expected"));
}

TEST_CASE("gbnf: left recursion is refused however it hides") {
  CHECK(has(refused("root ::= root \"a\" | \"b\""), "rule root begins with itself (root -> root)"));
  CHECK(has(refused("root ::= a\na ::= b \"x\"\nb ::= \"\" c?\nc ::= a \"y\" | \"z\""), "rule a begins with itself (a -> b -> c -> a)"));
  CHECK(has(refused("root ::= \"p\" a\na ::= \"x\"* [0-9]? a | \"q\""), "rule a begins with itself"));
  parsed("root ::= \"a\" root | \"b\"");
  parsed("root ::= a\na ::= (\"x\" | \"y\") a | \"\"");
}

TEST_CASE("gbnf: a root that cannot end is refused, an unused dead end elsewhere is not") {
  CHECK(has(refused("root ::= \"a\" root"), "root can never end"));
  CHECK(has(refused("root ::= [] \"a\""), "root can never end"));
  const Grammar grammar = parsed("root ::= \"a\" dead | \"b\"\ndead ::= \"x\" dead");
  CHECK_FALSE(grammar.productive[grammar.rules[1].expression]);
}

TEST_CASE("gbnf: limits hold, and large input is read in linear time") {
  CHECK(has(refused(std::string(max_text_bytes + 1, ' ')), "at most 262144"));
  std::string deep = "root ::= " + std::string(max_depth + 1, '(') + "\"a\"" + std::string(max_depth + 1, ')');
  CHECK(has(refused(deep), "groups inside each other deeper than 64"));
  CHECK(has(refused("root ::= \"a\"" + std::string(5000, '*')), "deeper than 64"));
  CHECK(has(refused("root ::= (\"a\"*){300}"), "may be the empty text"));
  std::string many;
  for (size_t i = 0; i <= max_rules; ++i) many += "r" + std::to_string(i) + "::=\"\"\n";
  CHECK(has(refused(many), "more than 16384 rules"));
  std::string ranges = "root ::= [";
  for (size_t i = 0; i <= max_ranges; ++i) ranges += 'a';
  CHECK(has(refused(ranges + "]"), "more than 32768 characters"));
  // Rules that become nullable one after the other, all named by one: quadratic where facts are recomputed.
  std::string chain = "root ::= \"x\"";
  for (int i = 0; i < 8000; ++i) chain += " r" + std::to_string(i);
  chain += "\n";
  for (int i = 0; i < 8000; ++i) chain += "r" + std::to_string(i) + "::=" + (i + 1 < 8000 ? "r" + std::to_string(i + 1) : "\"\"") + "\n";
  CHECK(parsed(chain).nullable[0] == false);
}
