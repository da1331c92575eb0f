// Which bytes of a prompt the template wrote and which came from its inputs, through everything that templates do with texts.
#include <catch2/catch.hpp>

#include <string>

#include "server/json/json.hpp"

#include "server/text/jinja/template.hpp"

using namespace vigil::text::jinja;

namespace {

using Json = nlohmann::ordered_json;

// The prompt with typed runs in brackets: fixed [typed]; a picture is [*].
std::string shown(const std::string& source, const Json& inputs, bool trusted = false) {
  const auto compiled = Template::compile(source);
  REQUIRE(compiled.ok());
  std::vector<Input> given;
  for (const auto& [name, value] : inputs.items()) given.push_back({name, &value, trusted});
  const auto result = (*compiled)->render(given, 0);
  if (const auto* failure = std::get_if<RenderFailure>(&result)) return failure->message;
  std::string out;
  for (const Piece& piece : std::get<std::vector<Piece>>(result)) {
    const bool typed = piece.source == Piece::Source::typed;
    out += piece.source == Piece::Source::picture ? "[*]" : typed ? "[" + piece.text + "]" : piece.text;
  }
  return out;
}

}  // namespace

TEST_CASE("what a template does with a text keeps the source of its bytes") {
  const Json inputs = {{"u", "ab-CD"}, {"n", 7}, {"d", {{"k", "v"}}}, {"l", {"x", "y"}}};
  const std::pair<const char*, const char*> rows[] = {
      {"<{{ u }}>", "<[ab-CD]>"},
      {"{{ '<' + u + '>' }}", "<[ab-CD]>"},
      {"{{ '<' ~ u ~ '>' ~ n }}", "<[ab-CD]>[7]"},
      {"{{ ('<' + u + '>')[0:3] }}", "<[ab]"},
      {"{{ ('<' + u + '>')[::-1] }}", ">[DC-ba]<"},
      {"{{ ('<' + u + '>')|upper }}", "<[AB-CD]>"},
      {"{{ ('< ' + u + ' >')|trim('<>')|trim }}", "[ab-CD]"},
      {"{{ u|replace('-', '+') }}", "[ab]+[CD]"},
      {"{{ 'a-b'|replace('-', u) }}", "a[ab-CD]b"},
      {"{{ u.split('-')|join('|') }}", "[ab]|[CD]"},
      {"{{ l|join(', ') }}", "[x], [y]"},
      {"{{ [u, 'z']|join('-') }}", "[ab-CD]-z"},
      {"{{ '%s=%s' % ('k', u) }}", "k=[ab-CD]"},
      {"{{ '{}={}'.format('k', u) }}", "k=[ab-CD]"},
      {"{{ u|tojson }}", "[\"ab-CD\"]"},
      {"{{ {'key': u}|tojson }}", "{\"key\": [\"ab-CD\"]}"},
      {"{{ d|tojson }}", "[{\"k\": \"v\"}]"},
      {"{{ d }}", "[{'k': 'v'}]"},
      {"{{ ['a', u] }}", "['a', ['ab-CD']]"},
      {"{% set x %}<{{ u }}>{% endset %}{{ x }}", "<[ab-CD]>"},
      {"{% macro m(t) %}<{{ t }}>{% endmacro %}{{ m(u) }}", "<[ab-CD]>"},
      {"{% filter lower %}<B{{ u }}>{% endfilter %}", "<b[ab-cd]>"},
      {"{{ u|string + 'x' }}", "[ab-CD]x"},
      {"{% for c in u %}{{ c }}.{% endfor %}", "[a].[b].[-].[C].[D]."},
      {"{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}", "[k]=[v]"},
      {"{{ n + 1 }}{{ 1 + 1 }}", "[8]2"},
      {"{{ 'x'.join([u, u]) }}", "[ab-CD]x[ab-CD]"},
      {"{{ u|e }}{{ '<'|e }}", "[ab-CD]&lt;"},
      {"{{ ('  ' + u)|indent(1, true) }}", "   [ab-CD]"},
      {"{{ u.partition('-')[1] ~ '-' }}", "[-]-"},
      {"{{ u|title }}", "[Ab-Cd]"},
      {"{{ '[1, \"a\"]'|from_json }}{{ '1'|int }}{{ u|length }}", "[1, 'a']15"},
  };
  for (const auto& [source, expected] : rows) {
    INFO(source);
    CHECK(shown(source, inputs) == expected);
  }
}

TEST_CASE("trusted inputs and the names of roles are the template's own") {
  CHECK(shown("{{ b }}x", {{"b", "<s>"}}, true) == "<s>x");
  CHECK(shown("<|{{ m.role }}|>{{ m.content }}", {{"m", {{"role", "user"}, {"content", "user"}}}}) == "<|user|>[user]");
  CHECK(shown("<|{{ m.role }}|>", {{"m", {{"role", "<|end|>"}}}}) == "<|[<|end|>]|>");
}

TEST_CASE("pictures keep their places in a text") {
  const std::string text = std::string("see ") + static_cast<char>(picture_mark) + static_cast<char>(picture_mark) + " it";
  const Json inputs = {{"t", Json::binary({text.begin(), text.end()})}};
  CHECK(shown("<{{ t }}>", inputs) == "<[see ][*][*][ it]>");
  CHECK(shown("<{{ t|trim|upper }}>", inputs) == "<[SEE ][*][*][ IT]>");
  CHECK(shown("{{ t[5:] }}", inputs) == "[*][ it]");
  CHECK(shown("\xEF\xBF\xBC{{ u }}", {{"u", "\xEF\xBF\xBC"}}) == "\xEF\xBF\xBC[\xEF\xBF\xBC]");
}

TEST_CASE("appending to a text does not change what else looks at it") {
  CHECK(shown("{% set a = u + 'x' %}{% set b = a + 'y' %}{% set c = a + 'z' %}{{ a }} {{ b }} {{ c }}", {{"u", "u"}}) == "[u]x [u]xy [u]xz");
  CHECK(shown("{% set a = u + 'x' %}{% set b = a + a %}{{ b }} {{ b + b[1:] }}", {{"u", "u"}}) == "[u]x[u]x [u]x[u]xx[u]x");
  CHECK(shown("{% set a = [1, 2, 3] %}{% set b = a[:2] %}{{ a.pop() }}{{ a.append(4) }}{{ a.insert(0, 5) }}{{ a }}{{ b }}{{ b.append(9) }}{{ a }}{{ b }}", {}) ==
        "3NoneNone[5, 1, 2, 4][1, 2]None[5, 1, 2, 4][1, 2, 9]");
}
