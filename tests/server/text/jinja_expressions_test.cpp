// Expressions of templates: what Jinja2 3.1 with the settings of the model hub prints for each. Not here: tags (jinja_statements_test.cpp).
#include <catch2/catch.hpp>

#include "jinja_support.hpp"

using namespace vigil::text::test;

TEST_CASE("expressions have the values that Python gives them") {
  const std::pair<const char*, const char*> rows[] = {
      {"{{ s|upper  }}", "ABC DÉF"}, {"{{ s|title }}", "Abc Déf"}, {"{{ s|capitalize }}", "Abc déf"}, {"{{ s|length }}", "7"}, {"{{ s|first }}", "a"},
      {"{{ s|last }}", "f"}, {"{{ s|reverse }}", "féd cba"}, {"{{ s|list }}", "['a', 'b', 'c', ' ', 'd', 'é', 'f']"}, {"{{ s[::-1] }}", "féd cba"},
      {"{{ s[1:3] }}", "bc"}, {"{{ s[-2:] }}", "éf"}, {"{{ s[10:] }}", ""}, {"{{ s[::2] }}", "acdf"}, {"{{ s[5:1:-2] }}", "é "}, {"{{ s[4] }}", "d"},
      {"{{ s[40] }}", ""}, {"{{ 'a,b,,c'.split(',') }}", "['a', 'b', '', 'c']"}, {"{{ '  a b  c '.split() }}", "['a', 'b', 'c']"},
      {"{{ ' a b c '.split(None,1) }}", "['a', 'b c ']"}, {"{{ ' a b c '.rsplit(None,1) }}", "[' a b', 'c']"},
      {"{{ 'a,b,c'.rsplit(',',1) }}", "['a,b', 'c']"}, {"{{ 'a\\nb\\r\\nc\\x0bd'.splitlines() }}", "['a', 'b', 'c', 'd']"},
      {"{{ 'x'.center(4) }}", " x  "}, {"{{ 'ab'.center(5,'*') }}", "**ab*"}, {"{{ '7'.zfill(3) }}", "007"}, {"{{ '-7'.zfill(4) }}", "-007"},
      {"{{ 'abc'.replace('b','XX') }}", "aXXc"}, {"{{ 'aaa'.replace('a','b',2) }}", "bba"}, {"{{ 'abc'.replace('','-') }}", "-a-b-c-"},
      {"{{ 'abcabc'.find('c') }}", "2"}, {"{{ 'abcabc'.rfind('c') }}", "5"}, {"{{ 'abcabc'.count('bc') }}", "2"},
      {"{{ 'abc'.startswith(('x','a')) }}", "True"}, {"{{ 'abc'.endswith('c') }}", "True"}, {"{{ 'a-b'.partition('-') }}", "('a', '-', 'b')"},
      {"{{ 'a-b-c'.rpartition('-') }}", "('a-b', '-', 'c')"}, {"{{ 'ab'.partition('-') }}", "('ab', '', '')"},
      {"{{ 'ab'.rpartition('-') }}", "('', '', 'ab')"}, {"{{ 'ß'.upper() }}", "SS"}, 
      {"{{ 'hello world'.title() }}", "Hello World"}, {"{{ \"they're bill's\".title() }}", "They'Re Bill'S"}, {"{{ 'x'.isalpha() }}", "True"},
      {"{{ ''.isalpha() }}", "False"}, {"{{ '1²'.isdigit() }}", "True"}, {"{{ '٣'.isdecimal() }}", "True"}, {"{{ 'a b'.isspace() }}", "False"},
      {"{{ ' \\t'.isspace() }}", "True"}, {"{{ 'aB'.swapcase() }}", "Ab"}, {"{{ 'Ab Cd'.istitle() }}", "True"}, {"{{ 'ab'.islower() }}", "True"},
      {"{{ 'AB1'.isupper() }}", "True"}, {"{{ '%s-%05.2f-%d-%x' % ('a',3.14159,42,255) }}", "a-03.14-42-ff"}, {"{{ '%(a)s' % {'a':1} }}", "1"},
      {"{{ '%-5s|' % 'ab' }}", "ab   |"}, {"{{ '%5s|' % 'ab' }}", "   ab|"}, {"{{ '{0}-{1}'.format(1,2) }}", "1-2"},
      {"{{ '{a:>5}|{b:05d}'.format(a='x',b=3) }}", "    x|00003"}, {"{{ '{:,}'.format(1234567) }}", "1,234,567"},
      {"{{ '{:.2%}'.format(0.1234) }}", "12.34%"}, {"{{ '{!r}'.format('a') }}", "'a'"}, {"{{ '{:^7}'.format('ab') }}", "  ab   "},
      {"{{ 1.0 }}", "1.0"}, {"{{ 1e16 }}", "1e+16"}, {"{{ 1e15 }}", "1000000000000000.0"}, {"{{ 1.5e300 }}", "1.5e+300"}, {"{{ 1e-5 }}", "1e-05"},
      {"{{ 0.0001 }}", "0.0001"}, {"{{ 123456789.123 }}", "123456789.123"}, {"{{ -0.0 }}", "-0.0"}, {"{{ 1/3 }}", "0.3333333333333333"},
      {"{{ 7//2 }}", "3"}, {"{{ -7//2 }}", "-4"}, {"{{ 7%3 }}", "1"}, {"{{ -7%3 }}", "2"}, {"{{ 7.5%2 }}", "1.5"}, {"{{ -7.5//2 }}", "-4.0"},
      {"{{ 2**10 }}", "1024"}, {"{{ 2**-1 }}", "0.5"}, {"{{ 2**0.5 }}", "1.4142135623730951"}, {"{{ 1+True }}", "2"}, {"{{ True+True }}", "2"},
      {"{{ 1_000 }}", "1000"}, {"{{ 0x1f }}", "31"}, {"{{ 0b101 }}", "5"}, {"{{ 0o17 }}", "15"}, {"{{ 10/2 }}", "5.0"}, {"{{ 1e3 }}", "1000.0"},
      {"{{ 1.e3 is defined }}", "False"}, {"{{ 'a'*3 }}", "aaa"}, {"{{ 3*'a' }}", "aaa"}, {"{{ [1]*3 }}", "[1, 1, 1]"}, {"{{ [1]+[2] }}", "[1, 2]"},
      {"{{ (1,)+(2,) }}", "(1, 2)"}, {"{{ undefined_x }}", ""}, {"{{ undefined_x|length }}", "0"}, {"{{ undefined_x|default('d') }}", "d"},
      {"{{ n|default('d') }}", "None"}, {"{{ n|default('d',true) }}", "d"}, {"{{ ''|default('d',boolean=true) }}", "d"},
      {"{{ undefined_x|list }}", "[]"}, {"{{ undefined_x ~ 'a' }}", "a"}, {"{{ undefined_x == undefined_x }}", "True"},
      {"{{ undefined_x == none }}", "False"}, {"{{ undefined_x is none }}", "False"}, {"{{ undefined_x is defined }}", "False"},
      {"{{ not undefined_x }}", "True"}, {"{{ 1 in undefined_x }}", "False"}, {"{{ undefined_x|upper }}", ""}, {"{{ undefined_x|join(',') }}", ""},
      {"{{ undefined_x|first }}", ""}, {"{{ undefined_x|string|length }}", "0"}, {"{{ p }}", "{'type': 'object', 'b': 2, 'A': 1, 'items': {'x': 1}}"},
      {"{{ p.type }}", "object"}, {"{{ p.items() }}", "dict_items([('type', 'object'), ('b', 2), ('A', 1), ('items', {'x': 1})])"},
      {"{{ p|items|list }}", "[('type', 'object'), ('b', 2), ('A', 1), ('items', {'x': 1})]"}, {"{{ p.b }}", "2"}, {"{{ p['b'] }}", "2"},
      {"{{ p['items'] }}", "{'x': 1}"}, {"{{ p.keys() }}", "dict_keys(['type', 'b', 'A', 'items'])"},
      {"{{ p.values()|list }}", "['object', 2, 1, {'x': 1}]"}, {"{{ p|length }}", "4"}, {"{{ p|list }}", "['type', 'b', 'A', 'items']"},
      {"{{ p|dictsort }}", "[('A', 1), ('b', 2), ('items', {'x': 1}), ('type', 'object')]"},
      {"{{ p|dictsort(true) }}", "[('A', 1), ('b', 2), ('items', {'x': 1}), ('type', 'object')]"}, {"{{ p.get('zz') }}", "None"},
      {"{{ p.get('zz',5) }}", "5"}, {"{{ p.get('b') }}", "2"}, {"{{ p['zz'] }}", ""}, {"{{ p.zz }}", ""}, {"{{ p.zz is defined }}", "False"},
      {"{{ 'b' in p }}", "True"}, {"{{ 'q' not in p }}", "True"},
      {"{{ p|tojson }}", "{\"type\": \"object\", \"b\": 2, \"A\": 1, \"items\": {\"x\": 1}}"},
      {"{{ p|tojson(indent=2) }}", "{\n  \"type\": \"object\",\n  \"b\": 2,\n  \"A\": 1,\n  \"items\": {\n    \"x\": 1\n  }\n}"},
      {"{{ p|tojson(separators=(',', ':')) }}", "{\"type\":\"object\",\"b\":2,\"A\":1,\"items\":{\"x\":1}}"},
      {"{{ p|tojson(sort_keys=true) }}", "{\"A\": 1, \"b\": 2, \"items\": {\"x\": 1}, \"type\": \"object\"}"},
      {"{{ p|tojson(ensure_ascii=true) }}", "{\"type\": \"object\", \"b\": 2, \"A\": 1, \"items\": {\"x\": 1}}"},
      {"{{ s|tojson(ensure_ascii=true) }}", "\"abc d\\u00e9f\""}, {"{{ s|tojson }}", "\"abc déf\""}, {"{{ f|tojson }}", "1e+20"},
      {"{{ n|tojson }}", "null"}, {"{{ t|tojson }}", "true"}, {"{{ e|tojson }}", "[]"}, {"{{ {}|tojson }}", "{}"},
      {"{{ '\\x7f\\x00\\x1f\"\\\\/'|tojson }}", "\"\177\\u0000\\u001f\\\"\\\\/\""}, {"{{ '😀'|tojson(true) }}", "\"\\ud83d\\ude00\""},
      {"{{ [1,[2,{'a':3}]]|tojson(indent=2) }}", "[\n  1,\n  [\n    2,\n    {\n      \"a\": 3\n    }\n  ]\n]"},
      {"{{ {1:2,true:3,none:4}|tojson }}", "{\"1\": 3, \"null\": 4}"}, {"{{ (1,2)|tojson }}", "[1, 2]"}, {"{{ l|sort }}", "[1, 2, 3]"},
      {"{{ l|sort(reverse=true) }}", "[3, 2, 1]"}, {"{{ users|sort(attribute='n')|map(attribute='n')|list }}", "['al', 'Bob', 'Bob']"},
      {"{{ users|sort(attribute='n,a')|map(attribute='a')|list }}", "[1, 2, 3]"}, {"{{ users|map(attribute='n')|unique|list }}", "['Bob', 'al']"},
      {"{{ users|map(attribute='n')|map('upper')|join('-') }}", "BOB-AL-BOB"}, {"{{ users|selectattr('a','gt',1)|list|length }}", "2"},
      {"{{ users|selectattr('n','equalto','Bob')|map(attribute='a')|sum }}", "5"},
      {"{{ users|rejectattr('n','in',['Bob'])|list }}", "[{'n': 'al', 'a': 1}]"}, {"{{ l|select('odd')|list }}", "[3, 1]"},
      {"{{ l|reject('even')|list }}", "[3, 1]"}, {"{{ [0,1,none,'']|select|list }}", "[1]"}, {"{{ l|max }}", "3"}, {"{{ l|min }}", "1"},
      {"{{ e|max }}", ""}, {"{{ users|max(attribute='a') }}", "{'n': 'Bob', 'a': 3}"}, {"{{ ['B','a']|min }}", "a"}, {"{{ l|sum }}", "6"},
      {"{{ l|batch(2)|list }}", "[[3, 1], [2]]"}, {"{{ l|batch(2,'x')|list }}", "[[3, 1], [2, 'x']]"}, {"{{ l|slice(2)|list }}", "[[3, 1], [2]]"},
      {"{{ l|slice(2,'x')|list }}", "[[3, 1], [2, 'x']]"}, {"{{ l|reverse|list }}", "[2, 1, 3]"}, {"{{ l|first }}", "3"}, {"{{ e|first }}", ""},
      {"{{ l|last }}", "2"}, {"{{ e|last }}", ""},
      {"{{ users|groupby('n')|list }}", "[('al', [{'n': 'al', 'a': 1}]), ('Bob', [{'n': 'Bob', 'a': 3}, {'n': 'Bob', 'a': 2}])]"},
      {"{{ users|groupby('n')|map('last')|map('length')|list }}", "[1, 2]"}, {"{{ users|join(',',attribute='n') }}", "Bob,al,Bob"},
      {"{{ l|join }}", "312"}, {"{{ l|join(', ') }}", "3, 1, 2"}, {"{{ nested|map('first')|list }}", "[1, 2]"},
      {"{{ nested|map('last')|join }}", "ab"}, {"{{ users|map(attribute='zz')|list }}", "[Undefined, Undefined, Undefined]"},
      {"{{ users|map(attribute='zz',default='d')|list }}", "['d', 'd', 'd']"}, {"{{ users|sum(attribute='a') }}", "6"},
      {"{{ l|unique|list }}", "[3, 1, 2]"}, {"{{ ['a','A','b']|unique|list }}", "['a', 'b']"}, {"{{ ['b','A','c']|sort }}", "['A', 'b', 'c']"},
      {"{{ ['b','A','c']|sort(case_sensitive=true) }}", "['A', 'b', 'c']"}, {"{{ users|selectattr('zz')|list }}", "[]"},
      {"{{ users|selectattr('a')|list|length }}", "3"}, {"{{ l|map('string')|list }}", "['3', '1', '2']"}, {"{{ l[0] }}", "3"}, {"{{ l[-1] }}", "2"},
      {"{{ l[9] }}", ""}, {"{{ l[1:] }}", "[1, 2]"}, {"{{ l[::-1] }}", "[2, 1, 3]"}, {"{{ l['a'] }}", ""}, {"{{ l.a }}", ""},
      {"{{ messages[0].role }}", "system"}, {"{{ messages[-1]['content'] }}", "<think>\nplan\n</think>\n\nA1"}, {"{{ messages[1:]|length }}", "2"},
      {"{{ messages[0]['content'][0] }}", "S"}, {"{{ range(5) }}", "range(0, 5)"}, {"{{ range(1,5)|list }}", "[1, 2, 3, 4]"},
      {"{{ range(5,1,-2)|list }}", "[5, 3]"},
  };
  for (const auto& [source, expected] : rows) {
    INFO(source);
    CHECK(rendered(source) == expected);
  }
}

TEST_CASE("operations without a meaning fail") {
  const char* const sources[] = {
       "{{ i/0 }}", "{{ i//0 }}", "{{ i%0 }}", "{{ 1+'a' }}", "{{ 'a'+1 }}", "{{ [1]+(2,) }}", "{{ none+1 }}",
      "{{ undefined_x+1 }}", "{{ undefined_x.foo }}", "{{ undefined_x['a'] }}", "{{ undefined_x < 1 }}", "{{ undefined_x|tojson }}",
      "{{ undefined_x|int }}", "{{ undefined_x() }}", "{{ p|dictsort(by='value') }}", "{{ range(3)|tojson }}", "{{ p.keys()|tojson }}",
      "{{ [1,'a']|sort }}", "{{ l|map('nope')|list }}",
  };
  for (const char* source : sources) {
    INFO(source);
    CHECK(fails(source));
  }
}
