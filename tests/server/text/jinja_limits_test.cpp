// What hostile templates run into: named limits, in bounded time and memory. Not here: what good ones print (jinja_language_test.cpp).
#include <catch2/catch.hpp>

#include <string>

#include "server/json/json.hpp"

#include "server/text/jinja/heap.hpp"
#include "server/text/jinja/failure.hpp"
#include "server/text/jinja/template.hpp"

using namespace vigil::text::jinja;

namespace {

using Json = nlohmann::ordered_json;

std::string repeated(const std::string& text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

// The error of compiling or rendering; empty when it renders.
std::string error_of(const std::string& source, const Json& inputs = Json::object(), uint64_t steps = max_steps) {
  const auto compiled = Template::compile(source);
  if (!compiled) return "syntax: " + compiled.error();
  std::vector<Input> given;
  for (const auto& [name, value] : inputs.items()) given.push_back({name, &value});
  const auto result = (*compiled)->render(given, 0, steps);
  const auto* failure = std::get_if<RenderFailure>(&result);
  return failure ? failure->message : "";
}

bool names(const std::string& error, const std::string& limit) { return error.find(limit) != std::string::npos; }

}  // namespace

TEST_CASE("a template that works without end is stopped") {
  CHECK(names(error_of("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"), "max_"));
  CHECK(names(error_of("{% set n = namespace(i=0) %}{% for a in range(99999) %}{% for b in range(999) %}{% set n.i = n.i + 1 %}{% endfor %}{% endfor %}"), "max_steps"));
  CHECK(names(error_of("{{ range(10 ** 9) }}"), "MAX_RANGE"));
  CHECK(names(error_of("{% set a = [] %}{% for i in range(60000) %}{% if i in a %}{% endif %}{{ a.append(i) }}{% endfor %}"), "max_steps"));
  CHECK(names(error_of("{% set s = 'ab' * 500000 %}{% for i in range(90000) %}{% if 'c' in s %}{% endif %}{% endfor %}"), "max_steps"));
}

// Each template does much work in few evaluated nodes. It ends by max_steps when its work is counted, and renders when it is not: no clock is needed.
TEST_CASE("work inside one operation is counted too") {
  const std::string texts = "{% set s = 'x' * 1000 * 1000 %}{% set t = 'x' * 1000 * 1000 %}";
  const auto again = [&](const std::string& expression) { return texts + "{% for i in range(999) %}{% if " + expression + " %}{% endif %}{% endfor %}"; };
  std::string sets, parameters, arguments, fields;
  for (int i = 0; i < 4000; ++i) {
    const std::string name = "a" + std::to_string(i);
    sets += "{% set " + name + " = 1 %}";
    parameters += name + ", ";
    arguments = name + "=1, " + arguments;
    fields += "{a0}";
  }
  const std::string templates[] = {
      "{% for i in range(999) %}{% if false %}" + sets + "{% endif %}{% endfor %}",                     // places of a loop's own names are cleared at each turn
      "{% macro f(" + parameters + "z=1) %}{% endmacro %}{{ f(" + arguments + "z=1) }}",                  // names of arguments are looked for
      "{% set f = '" + fields + "' %}{{ f.format(" + arguments + "z=1) }}",
      texts + "{% set d = {s: 1} %}{% for i in range(999) %}{% if d[t] %}{% endif %}{% endfor %}",        // a key is read to be found
      texts + "{% set d = {s: 1} %}{% for i in range(999) %}{% if t in d or d.get(t) %}{% endif %}{% endfor %}",
      "{% macro f() %}{% set d = {varargs: 1} %}{% for i in range(99) %}{% if d[varargs] %}{% endif %}{% endfor %}{% endmacro %}{{ f(*range(20000)) }}",
      "{% set r = range(999)|list %}{% for i in r %}{% for j in r %}{% endfor %}{% endfor %}",            // turns of a loop that has nothing in it
      texts + "{% if [s] * 99 == [t] * 99 %}{% endif %}",                                                 // texts within lists are compared
      texts + "{% if ([s, t] * 99)|sort(case_sensitive=true) %}{% endif %}",
      texts + "{% if {'a': s} == {'a': t} and [{'a': s}] * 99 == [{'a': t}] * 99 %}{% endif %}",
      "{% if ('b' * 1000).strip('a' * 1000 * 200 + 'b') %}{% endif %}",
      again("'b'.strip(s)"), again("s.startswith(t)"), again("s.endswith(t)"), again("s.removeprefix(t)"), again("s is sameas t"), again("s|attr(t)"),
      again("{}|map(attribute=s)|list or [{}]|map(attribute=s)|list"), again("(s + 'y')|int"), again("s|float"), again("s.isascii()"),
      "{% set s = '\u00e9' * 1000 * 400 %}{% for i in range(999) %}{% if s.center(1) or s|truncate(1000000, end=s) %}{% endif %}{% endfor %}",
  };
  for (const std::string& source : templates) {
    INFO(source.substr(0, 300));
    CHECK(names(error_of(source, Json::object(), 200'000), "max_steps"));
  }
}

// Looking for a text that nearly stands everywhere: as many comparisons as both have bytes together, not their product, which would take an hour.
TEST_CASE("looking for a text takes linear time") {
  const std::string texts = "{% set s = 'a' * 3000 * 2000 %}{% set t = 'a' * 3000 * 1000 + 'b' %}{% set u = 'b' + 'a' * 3000 * 1000 %}";
  for (const std::string look : {"t in s", "s.find(t) == -1", "s.rfind(u) == -1", "s.count(t)", "s.split(t)", "s.rsplit(u)", "s.replace(t, '')", "s.partition(t)",
                                 "s.rpartition(u)", "s|replace(t, '')"}) {
    INFO(look);
    CHECK(error_of(texts + "{% if " + look + " %}{% endif %}") == "");
  }
}

TEST_CASE("a template that wants much memory is stopped") {
  CHECK(names(error_of("{{ 'x' * 10 ** 9 }}"), "max_heap_bytes"));
  CHECK(names(error_of("{{ 'x' * 40000000 }}"), "max_heap_bytes"));
  CHECK(names(error_of("{{ [0] * 10 ** 9 }}"), "max_heap_bytes"));
  CHECK(names(error_of("{% set n = namespace(s='x') %}{% for i in range(40) %}{% set n.s = n.s + n.s %}{% endfor %}"), "max_heap_bytes"));
  CHECK(names(error_of("{{ ('x' * 100000).replace('x', 'y' * 100000) }}"), "max_"));
  CHECK(names(error_of("{{ ('x' * 10000)|replace('', 'y' * 100000) }}"), "max_"));
  CHECK(names(error_of("{% set n = namespace(l=[0]) %}{% for i in range(60) %}{% set n.l = n.l + n.l %}{% endfor %}"), "max_"));
  CHECK(names(error_of("{% for i in range(99999) %}{{ x }}{% endfor %}", {{"x", std::string(1000, 'x')}}), "max_output_bytes"));
  CHECK(names(error_of("{{ 'x'.center(10 ** 12) }}"), "max_output_bytes"));
  CHECK(error_of("{{ '%99999999s' % 'a' }}") != "");
  CHECK(error_of("{{ [[[1]]]|tojson(indent=10 ** 9) }}") != "");
}

TEST_CASE("macros and values that lie in each other end") {
  CHECK(names(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), "max_call_depth"));
  CHECK(names(error_of("{% macro f(x) %}{{ f([x]) }}{% endmacro %}{{ f(1) }}"), "max_call_depth"));
  CHECK(names(error_of("{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}"), "max_call_depth"));
  CHECK(names(error_of("{% set n = namespace(l=1) %}{% for i in range(5000) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l }}"), "max_value_depth"));
  CHECK(names(error_of("{% set n = namespace(l=1) %}{% for i in range(5000) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l|tojson }}"), "max_value_depth"));
  CHECK(names(error_of("{% set a = [] %}{{ a.append(a) }}{{ a }}"), "max_value_depth"));
  CHECK(names(error_of("{% set a = [] %}{% set b = [] %}{% if a.append(b) or b.append(a) %}{% endif %}{{ a == b }}"), "max_value_depth"));
  // Two equal lists, each made of itself twice, thirty times over: comparing them looks at two to the thirtieth elements.
  CHECK(names(error_of("{% set n = namespace(a=[1], b=[1]) %}{% for i in range(30) %}{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}{% endfor %}{{ n.a == n.b }}"),
              "max_steps"));
}

TEST_CASE("sources are bounded") {
  CHECK(names(error_of(std::string(2u << 20, 'x')), "max_source_bytes"));
  CHECK(names(error_of("{{ " + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}"), "max_syntax_depth"));
  CHECK(names(error_of("{{ " + repeated("[", 5000) + repeated("]", 5000) + " }}"), "max_syntax_depth"));
  CHECK(names(error_of("{{ " + repeated("not ", 5000) + "1 }}"), "max_syntax_depth"));
  CHECK(names(error_of("{{ " + repeated("-", 5000) + "1 }}"), "max_syntax_depth"));
  CHECK(names(error_of("{{ 1" + repeated(" + 1", 5000) + " }}"), "max_syntax_depth"));
  CHECK(names(error_of("{{ a" + repeated(".a", 5000) + " }}"), "max_syntax_depth"));
  CHECK(names(error_of(repeated("{% if 1 %}", 5000) + repeated("{% endif %}", 5000)), "max_syntax_depth"));
  CHECK(names(error_of("{{ [" + repeated("1,", 450'000) + "] }}"), "max_"));
  CHECK(error_of("{{ 1" + repeated(" ~ 1", 5000) + " }}") == "");
  CHECK(error_of("{% if 0 %}" + repeated("{% elif 0 %}", 5000) + "{% endif %}") == "");
}

TEST_CASE("inputs nested too deep fail") {
  Json deep = 1;
  for (int i = 0; i < 250; ++i) deep = Json::array({deep});
  CHECK(names(error_of("{{ x }}", {{"x", deep}}), "max_value_depth"));
  CHECK(names(error_of("{{ x|from_json }}", {{"x", repeated("[", 100'000)}}), "from_json"));
  CHECK(names(error_of("{{ x|from_json }}", {{"x", repeated("[", 1000) + repeated("]", 1000)}}), "max_value_depth"));
}

TEST_CASE("a heap refuses what is over its limit and takes large pieces back") {
  Heap heap(4u << 20);
  for (int i = 0; i < 100; ++i) {
    void* piece = heap.take(1u << 20);
    heap.give_back(piece, 1u << 20);
  }
  CHECK(heap.used_bytes() == 0);
  CHECK_THROWS_AS(heap.take(5u << 20), Failure);
}
