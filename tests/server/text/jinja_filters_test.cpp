// More expressions, filters and methods above all: what Jinja2 3.1 with the settings of the model hub prints for each.
#include <catch2/catch.hpp>

#include "jinja_support.hpp"

using namespace vigil::text::test;

TEST_CASE("filters, tests and methods do what Jinja2 and Python do") {
  const std::pair<const char*, const char*> rows[] = {
      {"{{ range(3)[1] }}", "1"}, {"{{ range(0)|list }}", "[]"}, {"{{ dict(a=1,b=2) }}", "{'a': 1, 'b': 2}"},
      {"{{ dict({'a':1},b=3) }}", "{'a': 1, 'b': 3}"}, {"{{ namespace(a=1) }}", "<Namespace {'a': 1}>"}, {"{{ namespace(a=1).a }}", "1"},
      {"{{ namespace(a=1).b }}", ""}, {"{{ namespace(a=1)['a'] }}", "1"}, {"{{ (1,2) }}", "(1, 2)"}, {"{{ (1,) }}", "(1,)"}, {"{{ () }}", "()"},
      {"{{ [] }}", "[]"}, {"{{ {} }}", "{}"}, {"{{ [1,2,] }}", "[1, 2]"}, {"{{ {'a':1,} }}", "{'a': 1}"}, {"{{ (1,2)[0] }}", "1"},
      {"{{ 1,2 }}", "(1, 2)"}, {"{{ 'a' 'b' }}", "ab"}, {"{{ \"a\\\"b\" }}", "a\"b"},
      {"{{ 'a\\\\b\\n\\t\\x41\\u00e9\\U0001F600\\101' }}", "a\\b\n\tAé😀A"}, {"{{ 'a\\qb' }}", "a\\qb"}, {"{{ 1 if t else 2 }}", "1"},
      {"{{ 1 if not t }}", ""}, {"{{ (1 if not t) is undefined }}", "True"}, {"{{ 1 if t else 2 if n else 3 }}", "1"}, {"{{ t and n }}", "None"},
      {"{{ t or n }}", "True"}, {"{{ n or 'x' }}", "x"}, {"{{ not t }}", "False"}, {"{{ not n }}", "True"}, {"{{ 1<2<3 }}", "True"},
      {"{{ 1<3<2 }}", "False"}, {"{{ 1==1.0 }}", "True"}, {"{{ 1==true }}", "True"}, {"{{ '1'==1 }}", "False"}, {"{{ [1]==[1] }}", "True"},
      {"{{ (1,)==[1] }}", "False"}, {"{{ {'a':1}=={'a':1.0} }}", "True"}, {"{{ 1!=2 }}", "True"}, {"{{ 'a'<'b' }}", "True"},
      {"{{ [1,2]<[1,3] }}", "True"}, {"{{ 1 in l }}", "True"}, {"{{ 4 in l }}", "False"}, {"{{ 'b' in s }}", "True"}, {"{{ not 1 in l }}", "False"},
      {"{{ 1 not in l }}", "False"}, {"{{ 1 is odd }}", "True"}, {"{{ 2 is even }}", "True"}, {"{{ 4 is divisibleby 2 }}", "True"},
      {"{{ 4 is divisibleby(3) }}", "False"}, {"{{ 1 is number }}", "True"}, {"{{ true is number }}", "True"}, {"{{ true is integer }}", "False"},
      {"{{ 1 is integer }}", "True"}, {"{{ 1.0 is float }}", "True"}, {"{{ s is string }}", "True"}, {"{{ p is mapping }}", "True"},
      {"{{ l is sequence }}", "True"}, {"{{ s is sequence }}", "True"}, {"{{ p is sequence }}", "True"}, {"{{ 5 is sequence }}", "False"},
      {"{{ l is iterable }}", "True"}, {"{{ 5 is iterable }}", "False"}, {"{{ n is none }}", "True"}, {"{{ t is true }}", "True"},
      {"{{ t is sameas true }}", "True"}, {"{{ 1 is sameas true }}", "False"}, {"{{ s is lower }}", "True"}, {"{{ 'ABC' is upper }}", "True"},
      {"{{ s is callable }}", "False"}, {"{{ range is callable }}", "True"}, {"{{ p.items is callable }}", "True"}, {"{{ 1 is eq 1 }}", "True"},
      {"{{ 1 is ne 2 }}", "True"}, {"{{ 2 is gt 1 }}", "True"}, {"{{ 1 is lt 2 }}", "True"}, {"{{ 1 is in l }}", "True"},
      {"{{ 1 is not in l }}", "False"}, {"{{ 1 is not none }}", "True"}, {"{{ 'a' is in 'abc' }}", "True"}, {"{{ x is not defined }}", "True"},
      {"{{ 'upper' is filter }}", "True"}, {"{{ 'zz' is filter }}", "False"}, {"{{ 'odd' is test }}", "True"}, {"{{ -1|abs }}", "1"},
      {"{{ -(1)|abs }}", "1"}, {"{{ - 1.5|abs }}", "1.5"}, {"{{ 3.7|int }}", "3"}, {"{{ '12'|int }}", "12"}, {"{{ 'x'|int }}", "0"},
      {"{{ 'x'|int(5) }}", "5"}, {"{{ '0x1f'|int(0,16) }}", "31"}, {"{{ ' 5 '|int }}", "5"}, {"{{ '1.9'|int }}", "1"}, {"{{ '1e2'|int }}", "100"},
      {"{{ n|int }}", "0"}, {"{{ '1.5'|float }}", "1.5"}, {"{{ 'x'|float }}", "0.0"}, {"{{ 'x'|float(2.5) }}", "2.5"}, {"{{ 3|float }}", "3.0"},
      {"{{ 2.5|round }}", "2.0"}, {"{{ 3.5|round }}", "4.0"}, {"{{ 2.567|round(2) }}", "2.57"}, {"{{ 2.1|round(method='ceil') }}", "3.0"},
      {"{{ 2.9|round(0,'floor') }}", "2.0"}, {"{{ 25|round(-1) }}", "20"}, {"{{ 1234.5|round(-2) }}", "1200.0"}, {"{{ i|string ~ 'x' }}", "7x"},
      {"{{ t|string }}", "True"}, {"{{ n|string }}", "None"}, {"{{ l|string }}", "[3, 1, 2]"}, {"{{ 'a b'|wordcount }}", "2"},
      {"{{ 'a/b c?d=é'|urlencode }}", "a/b%20c%3Fd%3D%C3%A9"}, {"{{ 'foo bar baz qux'|truncate(9) }}", "foo..."},
      {"{{ 'foo bar baz qux'|truncate(9,true) }}", "foo ba..."}, {"{{ 'foo bar baz qux'|truncate(11,False,'..',0) }}", "foo bar.."},
      {"{{ 'a\\nb\\n\\nc'|indent }}", "a\n    b\n\n    c"}, {"{{ 'a\\nb\\n\\nc'|indent(2,true,true) }}", "  a\n  b\n  \n  c"},
      {"{{ 'a\\nb\\n'|indent(width='> ') }}", "a\n> b\n"}, {"{{ 'x'|center(5) }}", "  x  "}, {"{{ '  x '|trim }}", "x"},
      {"{{ 'xxaxx'|trim('x') }}", "a"}, {"{{ 'a'|replace('a',1) }}", "1"}, {"{{ [1,2]|replace('1','x') }}", "[x, 2]"},
      {"{{ 'Hello World'|lower }}", "hello world"}, {"{{ 'hello-world (foo)'|title }}", "Hello-World (Foo)"}, {"{{ 'HELLO'|capitalize }}", "Hello"},
      {"{{ '%s'|format('x') }}", "x"}, {"{{ '%s-%s'|format(1,2) }}", "1-2"}, {"{{ '<a>'|escape }}", "&lt;a&gt;"}, {"{{ '<a>'|e }}", "&lt;a&gt;"},
      {"{{ '<a>'|safe }}", "<a>"}, {"{{ ('<a>'|safe)+'<b>' }}", "<a>&lt;b&gt;"}, {"{{ '<b>'+('<a>'|safe) }}", "&lt;b&gt;<a>"},
      {"{{ ('<a>'|safe)~'<b>' }}", "<a><b>"}, {"{{ ('<a>'|escape)|escape }}", "&lt;a&gt;"}, {"{{ ('<a>'|escape)|forceescape }}", "&amp;lt;a&amp;gt;"},
      {"{{ ['<a>'|safe,'<b>']|join('<') }}", "<a><<b>"}, {"{{ ('<a>'|safe)|upper }}", "<A>"}, {"{{ ('<a>'|safe).replace('<','&') }}", "&amp;a>"},
      {"{{ ('<a>'|safe)[0]+'<' }}", "<&lt;"}, {"{{ ('%s'|safe)%'<' }}", "&lt;"}, {"{{ ('a'|safe) is escaped }}", "True"},
      {"{{ ('x'|safe).join(['<','>']) }}", "&lt;x&gt;"}, {"{{ [('<'|safe)] }}", "[Markup('<')]"}, {"{{ ('<a>'|safe)|trim + '&' }}", "<a>&amp;"},
      {"{{ ('<a>'|safe)|string + '&' }}", "<a>&amp;"}, {"{{ p|attr('b') }}", ""},
      {"{{ users|tojson|safe }}", "[{\"n\": \"Bob\", \"a\": 3}, {\"n\": \"al\", \"a\": 1}, {\"n\": \"Bob\", \"a\": 2}]"}, {"{{ loop }}", ""},
      {"{{ cycler('a','b').next() }}", "a"}, {"{{ joiner(',')() }}", ""}, 
      {"{{ strftime_now('%Z%z|%f|%s')|length > 3 }}", "True"}, {"{{ caller is defined }}", "False"}, 
      {"{{ ''.join(['a','b']) }}", "ab"}, {"{{ 'a'.join('xyz') }}", "xayaz"}, {"{{ s.foo }}", ""}, {"{{ n.split }}", ""},
      {"{{ l.append(4) }}", "None"}, {"{{ p.update({'z':1}) }}", "None"}, {"{{ p.pop('b') }}", "2"}, {"{{ s.__class__ }}", ""},
      {"{{ s['upper']() }}", "ABC DÉF"}, {"{{ p['type'][0:3] }}", "obj"}, {"{{ (s)[0] }}", "a"}, {"{{ s . upper ( ) }}", "ABC DÉF"},
      {"{{ s|upper|lower|title }}", "Abc Déf"}, {"{{ (1,2)|first }}", "1"}, {"{{ {'a':[1,2]}.a[0] }}", "1"}, {"{{ {'b':1}['b'] }}", "1"},
      {"{{ messages|selectattr('role','equalto','user')|list|first|tojson }}", "{\"role\": \"user\", \"content\": \"Hé <b>&'\\\"\\n x \"}"},
      {"{{ messages[0:2]|map(attribute='role')|join(',') }}", "system,user"},
      {"{{ messages|map(attribute='content')|map('length')|list }}", "[1, 13, 25]"}, {"{{ messages|length - 1 }}", "2"},
      {"{{ messages|length-1 }}", "2"}, {"{{ 3 - -1 }}", "4"}, {"{{ 2+3*4**2//5%3 }}", "2"}, {"{{ 'a'~1~n~t }}", "a1NoneTrue"}, {"{{ 1~2 }}", "12"},
      {"{{ \"a\"~\"b\"|upper }}", "aB"}, {"{{ 'x' if 1 in [1] else 'y' }}", "x"}, {"{{ l|length > 2 and s|length > 2 }}", "True"},
      {"{{ i is divisibleby 7 and t }}", "True"}, {"{{ not n and t }}", "True"}, {"{{ l.index(1) }}", "1"}, {"{{ l.count(3) }}", "1"},
      {"{{ p.copy() }}", "{'type': 'object', 'b': 2, 'A': 1, 'items': {'x': 1}}"}, {"{{ l.copy() }}", "[3, 1, 2]"}, {"{{ (1,2).index(2) }}", "1"},
      {"{{ {'a': {'b': 1}}.a.b }}", "1"}, {"{{ 1|nofilter if n else 2 }}", "2"}, {"{{ s }}", "abc déf"}, {"{{ '\\n' }}", "\n"},
      {"{{ dict(**p) }}", "{'type': 'object', 'b': 2, 'A': 1, 'items': {'x': 1}}"},
      {"{{ messages[0]|tojson(indent=4) }}", "{\n    \"role\": \"system\",\n    \"content\": \"S\"\n}"},
      {"{{ [1,2,3][1:]|join(',') if t else '' }}", "2,3"}, {"{{ 'a' in 'abc' and 'd' not in 'abc' }}", "True"},
      {"{{ [1.0, 'a\\'b', \"q\\\"\", none, true, {'x': (1,)}] }}", "[1.0, \"a'b\", 'q\"', None, True, {'x': (1,)}]"},
      {"{{ 1 if 1 else raise_exception('x') }}", "1"}, {"{{ messages[0].foo }}|", "|"},
  };
  for (const auto& [source, expected] : rows) {
    INFO(source);
    CHECK(rendered(source) == expected);
  }
}

TEST_CASE("what filters and methods cannot do fails") {
  const char* const sources[] = {
      "{{ range(1000000) }}", "{{ 'a'<1 }}", "{{ 1 in s }}", "{{ n in s }}", "{{ 1 is foo }}", "{{ raise_exception('no ' ~ i) }}",
      "{{ ','.join(l) }}", "{{ ''.join(l) }}", "{{ s.foo() }}", "{{ n.split('x') }}", "{{ p.a.b }}", "{{ -messages|length }}", "{{ [x for x in l] }}",
      "{{ 1 + }}", "{{ (1 }}", "{{ a b }}", "{{ }}", "{{ x|nofilter }}", "{{ m(*l) }}", "{{ \"a\\", "{{ loop.index }}",
      "{{ raise_exception('a' + \"b'c\") }}", "{{ messages[0].foo.bar }}", "{{ messages[9].foo }}",
  };
  for (const char* source : sources) {
    INFO(source);
    CHECK(fails(source));
  }
}
