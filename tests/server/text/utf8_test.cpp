// text/utf8: what counts as a character, and what becomes of bytes that are none.
#include <catch2/catch.hpp>

#include "server/text/utf8.hpp"

using namespace vigil::text;
using namespace std::string_literals;

namespace {
const std::string mark(replacement_character);
}

TEST_CASE("Valid text comes through unchanged", "[utf8]") {
  for (const std::string& s : {""s, "abc"s, "a\0b"s, "é"s, "日本"s, "😊"s, "\xF4\x8F\xBF\xBF"s, "\xED\x9F\xBF"s, "\xEE\x80\x80"s}) CHECK(valid_utf8(s) == s);
}

TEST_CASE("Each wrong sequence becomes one replacement character", "[utf8]") {
  CHECK(valid_utf8("\x80") == mark);
  CHECK(valid_utf8("\xFF\xFE") == mark + mark);
  CHECK(valid_utf8("a\xC0\xAF" "b") == "a" + mark + mark + "b");          // overlong
  CHECK(valid_utf8("\xE0\x80\xAF") == mark + mark + mark);                // overlong
  CHECK(valid_utf8("\xED\xA0\x80") == mark + mark + mark);                // surrogate
  CHECK(valid_utf8("\xF4\x90\x80\x80") == mark + mark + mark + mark);     // above U+10FFFF
  CHECK(valid_utf8("\xF0\x9F\x98x") == mark + "x");                       // a beginning that goes wrong is one
}

TEST_CASE("A cut character is told apart from a wrong one", "[utf8]") {
  std::string out;
  CHECK(append_valid_utf8(out, "ab\xF0\x9F\x98") == 3);
  CHECK(out == "ab");
  out.clear();
  CHECK(append_valid_utf8(out, "\xC3") == 1);
  CHECK(out.empty());
  out.clear();
  CHECK(append_valid_utf8(out, "\xF5") == 0);
  CHECK(out == mark);
  CHECK(valid_utf8("ab\xF0\x9F") == "ab" + mark);
}

TEST_CASE("Clipping never splits a character", "[utf8]") {
  CHECK(clip_utf8("é日", 0).empty());
  CHECK(clip_utf8("é日", 1).empty());
  CHECK(clip_utf8("é日", 2) == "é");
  CHECK(clip_utf8("é日", 4) == "é");
  CHECK(clip_utf8("é日", 5) == "é日");
}
