// Schemas to grammars: what is refused and where it says so, limits, and shapes that the random walks of tests/schema do not name.
#include <catch2/catch.hpp>

#include "protocol/gbnf.hpp"
#include "server/text/output_format.hpp"
#include "server/text/regex.hpp"
#include "server/text/schema_grammar.hpp"
#include "server/text/schema_numbers.hpp"
#include "server/text/string_automaton.hpp"
#include "server/text/tool_grammar.hpp"

using namespace vigil;
using namespace vigil::text;

namespace {

std::string refused(const std::string& schema, Unenforceable mode = Unenforceable::refuse) {
  const auto grammar = schema_grammar(Json::parse(schema), mode);
  INFO(schema << (grammar ? *grammar : ""));
  REQUIRE_FALSE(grammar.ok());
  return grammar.error();
}
std::string made(const std::string& schema, Unenforceable mode = Unenforceable::refuse) {
  const auto grammar = schema_grammar(Json::parse(schema), mode);
  INFO(schema << (grammar ? "" : grammar.error()));
  REQUIRE(grammar.ok());
  return *grammar;
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool fits(const std::string& pattern, const std::string& text) {
  const auto regex = parse_regex(pattern);
  INFO(pattern << (regex ? "" : regex.error()));
  REQUIRE(regex.ok());
  StringLimits limits;
  limits.matches = {&*regex};
  StringCheck check(limits);
  return *check.keeps(text);
}

}  // namespace

TEST_CASE("schema: errors begin with the place in the schema") {
  CHECK(refused(R"({"type":"object","properties":{"x":{"items":{"type":"strin"}}}})") ==
        ".properties.x.items: type must be null, boolean, object, array, string, number or integer, or a list of these");
  CHECK(has(refused(R"({"$ref":"http://example.com/x"})"), ": $ref 'http://example.com/x' leads out of this schema"));
  CHECK(has(refused(R"({"anyOf":[{"$ref":"#/$defs/no"}]})"), ".anyOf[0]: $ref '#/$defs/no' leads nowhere"));
  CHECK(has(refused(R"({"$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"})"), "refers to itself without anything in between"));
  CHECK(has(refused(R"({"properties":{"p":{"type":"string","pattern":"(?=a)b"}}})"), ".properties.p: the pattern at byte 2: lookaround"));
  CHECK(has(refused(R"({"properties":[1]})"), ": properties must be an object"));
  CHECK(has(refused(R"([])"), ": a schema is an object, true or false"));
  CHECK(has(refused(R"({"anyOf":[]})"), ": anyOf must be a list of at least one schema"));
  CHECK(has(refused(R"({"type":"string","minLength":-1})"), ": minLength must be a whole number, 0 or more"));
}

TEST_CASE("schema: what cannot be enforced is refused when strict and left out when not") {
  for (const char* schema : {R"({"type":"integer","not":{"const":3}})", R"({"type":"array","uniqueItems":true})", R"({"type":"number","multipleOf":0.1})",
                             R"({"type":"object","if":{},"then":{}})", R"({"type":"object","minProperties":2})"}) {
    CHECK(has(refused(schema), "cannot be enforced"));
    made(schema, Unenforceable::ignore);
  }
}

TEST_CASE("schema: one that nothing satisfies is said to be one") {
  for (const char* schema : {"false", R"({"type":"integer","minimum":5,"maximum":4})", R"({"type":"object","properties":{"a":false},"required":["a"]})",
                             R"({"enum":[1,2],"type":"string"})", R"({"type":"string","pattern":"^a$","minLength":2})", R"({"type":"array","minItems":2,"maxItems":1})",
                             R"({"$defs":{"n":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}},"required":["n"]}},"$ref":"#/$defs/n"})"}) {
    CHECK(has(refused(schema), "no JSON value satisfies this schema"));
  }
}

TEST_CASE("schema: pathological ones are refused in bounded time") {
  std::string many = R"({"type":"object","properties":{)";
  for (int i = 0; i < 20000; ++i) many += (i ? ",\"p" : "\"p") + std::to_string(i) + R"(":{"type":"integer"})";
  CHECK(has(refused(many + "}}"), "more than 2000 properties"));
  std::string wide = R"({"type":"object","allOf":[{})";
  for (size_t i = 0; i < max_schema_set; ++i) wide += R"(,{"minProperties":0})";
  CHECK(has(refused(wide + "]}"), "more than 1000 subschemas"));
  std::string large = R"({"enum":["")";
  for (int i = 0; i < 3000; ++i) large += ",\"" + std::string(100, 'a') + std::to_string(i) + "\"";
  CHECK(has(refused(large + "]}"), "larger than 262144 bytes"));
  std::string values = "[0";
  for (size_t i = 0; i < max_schema_values; ++i) values += ",0";
  CHECK(has(refused("{\"enum\":" + values + "]}"), "more than 50000 values"));
  std::string product = "{\"allOf\":[";
  for (int i = 0; i < 20; ++i) product += std::string(i ? "," : "") + R"({"anyOf":[{"minLength":)" + std::to_string(i) + R"(},{"maxLength":)" + std::to_string(100 + i) + "}]}";
  CHECK(has(refused(product + "]}"), "ways through anyOf and oneOf"));
  std::string chain = R"({"$ref":"#/$defs/d0","$defs":{)";
  for (int i = 0; i < 1000; ++i) chain += (i ? ",\"d" : "\"d") + std::to_string(i) + R"(":{"$ref":"#/$defs/d)" + std::to_string(i + 1) + "\"}";
  CHECK(has(refused(chain + R"(,"d1000":{}}})"), "deeper than 200"));
  CHECK(has(refused(R"({"type":"string","pattern":"^(a|b)*a(a|b){15}$","maxLength":5000})"), "need more than 2000 states"));
  CHECK(has(refused(R"x({"type":"string","pattern":"((((a{1,1000}){1,1000}){1,1000}){1,1000})","minLength":1})x"), "need more than 2000 states"));
}

TEST_CASE("schema: optional properties cost a fixed number of rules each") {
  const auto size_with = [](int count) {
    std::string schema = R"({"type":"object","properties":{)";
    for (int i = 0; i < count; ++i) schema += (i ? ",\"p" : "\"p") + std::to_string(1000 + i) + R"(":{"type":"integer"})";
    return made(schema + "}}").size();
  };
  const size_t a = size_with(100), b = size_with(200), c = size_with(300);
  CHECK(c - b < (b - a) * 11 / 10);
}

TEST_CASE("schema: listed names are all there are, and lengths of arrays are counted") {
  const std::string silent = made(R"({"type":"object","properties":{"a":{"type":"null"}}})");
  CHECK(silent == made(R"({"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":false})"));
  CHECK(silent != made(R"({"type":"object","properties":{"a":{"type":"null"}},"additionalProperties":true})"));
  CHECK(has(made(R"({"type":"array","items":{"type":"null"},"minItems":2,"maxItems":4})"), "{1,3}"));
  CHECK(has(made(R"({"type":"array","items":{"type":"null"},"maxItems":4})"), "{0,3}"));
}

TEST_CASE("schema: any object, and grammars of users") {
  CHECK(check_grammar(any_object_grammar()).ok());
  CHECK(check_grammar("root ::= \"a\"").ok());
  CHECK(has(check_grammar("root ::= a").error(), "line 1, column 10"));
}

TEST_CASE("regex: the subset that patterns use") {
  CHECK(fits("b", "abc"));
  CHECK_FALSE(fits("^b", "abc"));
  CHECK(fits("^a|c$", "xc"));
  CHECK_FALSE(fits("^a|c$", "xcx"));
  CHECK(fits("(^a|b$)", "ax"));
  CHECK(fits("^$", ""));
  CHECK_FALSE(fits("^$", "a"));
  CHECK(fits("^[^a-c\\d]+$", "xyz"));
  CHECK_FALSE(fits("^[^a-c\\d]+$", "x1"));
  CHECK(fits("^\\u00e9{2,3}?$", "\xC3\xA9\xC3\xA9"));
  CHECK(fits("^(?<year>\\d{4})-(?:0[1-9]|1[0-2])$", "2024-12"));
  CHECK_FALSE(fits("^(?<year>\\d{4})-(?:0[1-9]|1[0-2])$", "2024-13"));
  CHECK(fits("a.c", "xa-cx"));
  CHECK_FALSE(fits("^a.c$", "a\nc"));
  CHECK(fits("^[\\]\\-\\\\]{3}$", "]-\\"));
  for (const char* wrong : {"(", ")", "a{2,1}", "[b-a]", "a**", "\\b", "(?i)a", "\\1", "[a", "a{", "\\", "a++"}) {
    INFO(wrong);
    CHECK_FALSE(parse_regex(wrong).ok());
  }
}

TEST_CASE("numbers: decimals are exact") {
  CHECK(*to_decimal("-1.50e3") == Decimal{true, "1500", ""});
  CHECK(*to_decimal("1.25e-3") == Decimal{false, "0", "00125"});
  CHECK(*to_decimal("-0.0") == Decimal{});
  CHECK_FALSE(to_decimal("1e300"));
  CHECK(compare(*to_decimal("-2"), *to_decimal("-1.5")) < 0);
  CHECK(compare(*to_decimal("0.10"), *to_decimal("0.1")) == 0);
  CHECK(compare(*to_decimal("100"), *to_decimal("99.9")) > 0);
}

TEST_CASE("tool grammar: calls as the family writes them") {
  OutputFormat format;
  ToolDefinition tool;
  tool.name = "get_weather";
  tool.parameters = Json::parse(R"({"properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]})");
  const ToolChoice required{ToolChoice::Kind::required, ""}, other{ToolChoice::Kind::named, "other"};
  CHECK(has(tool_call_grammar(format, {tool}, required, true).error(), "cannot be described"));
  format.form = {.arguments = CallForm::Arguments::json, .before_name = "<call>{\"name\": \"", .after_name = "\", \"arguments\": ", .after_arguments = "}</call>"};
  CHECK(has(tool_call_grammar(format, {tool}, {}, true).error(), "no tool call was demanded"));
  CHECK(has(tool_call_grammar(format, {tool}, other, true).error(), "no tool named other"));
  const auto json = tool_call_grammar(format, {tool}, required, false);
  REQUIRE(json.ok());
  CHECK(has(*json, R"("<call>{\"name\": \"get_weather\", \"arguments\": " t0r0 "}</call>")"));
  CHECK_FALSE(has(*json, "{0,15}"));
  CHECK(has(*tool_call_grammar(format, {tool}, required, true), "{0,15}"));
  tool.parameters["properties"]["days"]["type"] = "day";
  CHECK(has(tool_call_grammar(format, {tool}, required, true).error(), "tools[0].function.parameters.properties.days: type must be"));
  tool.parameters["properties"]["days"]["type"] = "integer";
  format.form = {.arguments = CallForm::Arguments::xml, .before_name = "<f=", .after_name = ">", .after_arguments = "</f>", .before_key = "<p=", .after_key = ">", .after_value = "</p>"};
  const auto xml = tool_call_grammar(format, {tool}, required, false);
  REQUIRE(xml.ok());
  CHECK(has(*xml, R"(t0a0 ::= "<p=" "city" ">" raw0 "</p>" t0a1)"));
  CHECK(has(*xml, "t0a1 ::= \"<p=\" \"days\" \">\" t0a1r0 \"</p>\" t0a2 | t0a2"));
}
