// Pre-tokenizers: where each pattern cuts, on words written out by hand from the expressions in docs/tokenizers.md; no piece lost; linear time.
#include <catch2/catch.hpp>

#include <numeric>
#include <set>

#include "engine/gguf/pre_tokenizer.hpp"

using namespace vigil::gguf;

namespace {

using Words = std::vector<std::string>;

Words cut(std::string_view pre, std::string_view text) {
  const PreTokenizer* pre_tokenizer = find_pre_tokenizer(pre);
  REQUIRE(pre_tokenizer);
  const auto characters = characters_of(text);
  Words words;
  size_t character = 0, start = 0;
  for (const uint32_t end : split_words(*pre_tokenizer, characters)) {
    REQUIRE(end > character);
    size_t bytes = 0;
    for (; character < end; ++character) bytes += characters[character].bytes();
    words.emplace_back(text.substr(start, bytes));
    start += bytes;
  }
  CHECK(start == text.size());
  return words;
}

// A repeatable stream of numbers.
struct Numbers {
  uint64_t state = 1;
  size_t below(size_t limit) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % limit;
  }
};

Words all_names() {
  Words names;
  const std::string list = known_pre_tokenizers();
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find(", ", at), list.size());
    names.push_back(list.substr(at, end - at));
    at = end + 2;
  }
  return names;
}

}  // namespace

TEST_CASE("characters: classes, and bytes that are no UTF-8") {
  using namespace char_class;
  const auto characters = characters_of("a\xC3\x89\xCC\x81 1\xE2\x82\xAC!\r\xFF\xE3\x80\x80\xF0\x9F\x98\x80");
  REQUIRE(characters.size() == 11);
  CHECK((characters[0].is(letter) && characters[0].is(lower) && !characters[0].is(upper)));
  CHECK((characters[1].code() == 0xc9 && characters[1].is(upper) && characters[1].bytes() == 2));
  CHECK(characters[2].is(mark));
  CHECK((characters[3].is(space) && !characters[3].is(newline)));
  CHECK(characters[4].is(number));
  CHECK((characters[5].is(symbol) && characters[5].bytes() == 3));
  CHECK(characters[6].is(punctuation));
  CHECK((characters[7].is(newline) && characters[7].is(space)));
  CHECK((characters[8].is(invalid) && characters[8].bytes() == 1 && !characters[8].is_char('\xFF' & 0x7f)));
  CHECK(characters[9].is(space));
  CHECK((characters[10].code() == 0x1f600 && characters[10].bytes() == 4));
}

TEST_CASE("GPT-2 and its kin") {
  CHECK(cut("gpt-2", "I'll pay 12345 (it's OK)  \n\tnow ") ==
        Words{"I", "'ll", " pay", " 12345", " (", "it", "'s", " OK", ")", "  \n", "\t", "now", " "});
  CHECK(cut("gpt-2", "I'LL") == Words{"I", "'", "LL"});  // capitals are no contraction here
  CHECK(cut("starcoder", "a 123") == Words{"a", " ", "1", "2", "3"});
  CHECK(cut("falcon", "a+b 12345 `x`") == Words{"a", "+", "b", " ", "123", "45", " ", "`", "x", "`"});
  CHECK(cut("default", "a+b 1234`") == Words{"a", "+", "b", " ", "123", "4", "`"});
}

TEST_CASE("Llama 3, Qwen and their kin") {
  CHECK(cut("llama-bpe", "It'S 12345 (x)\n\n  y  ") == Words{"It", "'S", " ", "123", "45", " (", "x", ")\n\n", " ", " y", "  "});
  CHECK(cut("qwen2", "a12 \n \n b") == Words{"a", "1", "2", " \n \n", " b"});
  CHECK(cut("qwen2", "\tx $y -z") == Words{"\tx", " $", "y", " -", "z"});
  CHECK(cut("qwen2", "e\xCC\x81x") == Words{"e", "\xCC\x81x"});    // a mark is no letter here
  CHECK(cut("qwen35", "e\xCC\x81x") == Words{"e\xCC\x81x"});       // here it is
  CHECK(cut("qwen35", "\xCC\x81") == Words{"\xCC\x81"});
  CHECK(cut("ufakzeka", "Ali'd") == Words{"Ali", "'d"});           // no contraction: any mark goes with the letters behind it
  CHECK(cut("ufakzeka", "Ali'den") == Words{"Ali", "'den"});
  CHECK(cut("seed-coder", "!!\n\nx") == Words{"!!", "\n\n", "x"});
  CHECK(cut("laguna", "!!\n\nx") == Words{"!!", "\n\n", "x"});
  CHECK(cut("minicpm5", "a1234") == Words{"a", "123", "4"});
  CHECK(cut("exaone-moe", "two words, three") == Words{"two words", ",", " three"});
}

TEST_CASE("GPT-4o and its kin part words by case") {
  CHECK(cut("gpt-4o", "camelCaseWORD's 1234//\n") == Words{"camel", "Case", "WORD's", " ", "123", "4", "//\n"});
  CHECK(cut("tekken", "HTTPServer's 12") == Words{"HTTPServer", "'s", " ", "1", "2"});
  CHECK(cut("tiny_aya", "Stra\xC3\x9F" "e\xC3\x89t\xC3\xA9") == Words{"Stra\xC3\x9F" "e", "\xC3\x89t\xC3\xA9"});
  CHECK(cut("gpt-4o", "\xC3\xA9\xC3\x89") == Words{"\xC3\xA9\xC3\x89"});  // only ASCII has a case, as in the reference
  CHECK(cut("kimi-k2", "ab\xE4\xB8\xAD\xE6\x96\x87" "cd") == Words{"ab", "\xE4\xB8\xAD\xE6\x96\x87", "cd"});
  CHECK(cut("granite-embed-multi-97m", "A\xE4\xB8\xAD" "BC") == Words{"A\xE4\xB8\xAD", "BC"});
}

TEST_CASE("DeepSeek and its kin") {
  CHECK(cut("deepseek-v3", "x1234 .foo ~~ \xE4\xB8\xAD\xE3\x81\x82y\n") == Words{"x", "123", "4", " .", "foo", " ~~", " ", "\xE4\xB8\xAD\xE3\x81\x82", "y", "\n"});
  CHECK(cut("deepseek-v3", "a.foo ~x") == Words{"a", ".foo", " ~", "x"});
  CHECK(cut("deepseek-coder", "ab 12\n\n (x)") == Words{"ab", " ", "1", "2", "\n", "\n", " (", "x", ")"});
  CHECK(cut("deepseek-llm", "ab 123  \xEA\xB0\x80  ") == Words{"ab", " ", "123", "  ", "\xEA\xB0\x80", "  "});
  CHECK(cut("spark2_5", "a\n\nb12") == Words{"a", "\n", "\n", "b", "1", "2"});
  CHECK(cut("afmoe", "1234567 a") == Words{"1", "234", "567", " a"});
}

TEST_CASE("digits in groups from the right") {
  CHECK(cut("tiny_aya", "12345 12345x 123") == Words{"12", "345", " ", "123", "45", "x", " ", "123"});
  CHECK(cut("superbpe", "ab 12345 cd") == Words{"ab ", "12", "345", " cd"});
}

TEST_CASE("other patterns") {
  CHECK(cut("bloom", " ab, c(d|e)") == Words{" ab", ",", " c", "(", "d", "|", "e", ")"});
  CHECK(cut("viking", "ab12") == Words{"ab", "1", "2"});
  CHECK(cut("jais-2", "a" + std::string(14, ' ') + "b") == Words{"a", std::string(8, ' '), "    ", " ", " b"});
  CHECK(cut("jais-2", "a  \n  b") == Words{"a", "  \n", " ", " b"});
  CHECK(cut("jais-2", std::string(1030, ' ')) == Words{std::string(512, ' '), std::string(512, ' '), "    ", "  "});
  CHECK(cut("youtu", "a\xEA\xB0\x80\xE4\xB8\xAD\xE3\x80\x82" "b1") == Words{"a", "\xEA\xB0\x80", "\xE4\xB8\xAD", "\xE3\x80\x82", "b", "1"});
  CHECK(cut("chameleon", "IMGIMGBZ     x") == Words{"IMGIMGBZ", "    ", " x"});
  CHECK(cut("gemma4", "a b\n\nc") == Words{"a b", "\n\n", "c"});
}

TEST_CASE("every pre-tokenizer keeps every byte, whatever the text") {
  const char* parts[] = {" ", "  ", "\t", "\n", "\r\n", "a", "B", "'s", "'LL", "12", "3456", "-", "!?", "~", "\xC3\xA9", "\xC3\x89", "\xCC\x81", "\xE4\xB8\xAD",
                         "\xE3\x81\x82", "\xEA\xB0\x80", "\xF0\x9F\x98\x80", "\xFF", "\xE3\x80\x80", "\xC2\xA0", "_", "/", "\xE2\x80\x8D", "\xD9\xA3", std::data("\x01")};
  const Words names = all_names();
  CHECK(names.size() > 80);
  CHECK(std::is_sorted(names.begin(), names.end()));
  Numbers numbers;
  for (const std::string& name : names) {
    CHECK(cut(name, "").empty());
    for (int round = 0; round < 100; ++round) {
      std::string text;
      for (size_t count = numbers.below(20); count > 0; --count) text += parts[numbers.below(std::size(parts))];
      INFO(name << ": " << text);
      const Words words = cut(name, text);
      CHECK(std::accumulate(words.begin(), words.end(), std::string()) == text);
    }
  }
}

TEST_CASE("long runs of anything are cut in linear time") {
  // A quadratic pattern would run into the test's own limit.
  const char* units[] = {"a", "A", " ", "\n", " \n", "1", "!", "'", "\xE4\xB8\xAD", "\xCC\x81", "\xFF", "aA", "A\xE4\xB8\xAD", " a", "1a", "IMG", "\t", "\xE3\x80\x80", "\x01"};
  std::set<const pattern::Pass*> seen;
  for (const std::string& name : all_names()) {
    if (!seen.insert(find_pre_tokenizer(name)->passes.data()).second) continue;
    for (const char* unit : units) {
      std::string text;
      while (text.size() < 50'000) text += unit;
      for (const char* end : {"", "x"}) {
        const auto characters = characters_of(text + end);
        INFO(name << ": " << unit);
        CHECK(split_words(*find_pre_tokenizer(name), characters).back() == characters.size());
      }
    }
  }
}
