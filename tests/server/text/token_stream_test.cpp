// text/token_stream: characters over several tokens (cases D1, X2).
#include <catch2/catch.hpp>

#include "server/text/token_stream.hpp"
#include "server/text/utf8.hpp"
#include "tests/server/text/text_support.hpp"

using namespace vigil::text;
using namespace vigil::text::test;

namespace {

// Every piece that a stream gives for these bytes, one token a byte.
std::vector<std::string> pieces_of(std::string_view bytes) {
  const auto vocabulary = make_vocabulary({});
  TokenStream stream(*vocabulary);
  std::vector<std::string> pieces;
  for (const char byte : bytes) {
    std::string piece;
    stream.push(byte_id(static_cast<unsigned char>(byte)), piece);
    pieces.push_back(piece);
  }
  std::string last;
  stream.finish(last);
  pieces.push_back(last);
  return pieces;
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string all;
  for (const std::string& piece : pieces) all += piece;
  return all;
}

const std::string mark(replacement_character);

}  // namespace

TEST_CASE("A character over several tokens comes out whole, with its last token", "[token_stream]") {
  CHECK(pieces_of("😊") == std::vector<std::string>{"", "", "", "😊", ""});
  CHECK(pieces_of("é!") == std::vector<std::string>{"", "é", "!", ""});
  const std::string family = "👨‍👩‍👧";
  CHECK(joined(pieces_of(family)) == family);
  for (const std::string& piece : pieces_of(family)) CHECK(valid_utf8(piece) == piece);
}

TEST_CASE("What is left at the end becomes one U+FFFD", "[token_stream]") {
  CHECK(pieces_of("a\xF0\x9F") == std::vector<std::string>{"a", "", "", mark});
  CHECK(pieces_of("a") == std::vector<std::string>{"a", ""});
}

TEST_CASE("Bytes of no character become U+FFFD at once", "[token_stream]") {
  CHECK(pieces_of("\x80") == std::vector<std::string>{mark, ""});
  CHECK(pieces_of("\xFFx") == std::vector<std::string>{mark, "x", ""});
  CHECK(pieces_of("\xC3x") == std::vector<std::string>{"", mark + "x", ""});
  CHECK(pieces_of("\xF0\x9F\xC3\xA9") == std::vector<std::string>{"", "", mark, "é", ""});
}

TEST_CASE("Pieces keep their blanks, the first one too, and control tokens have no text", "[token_stream]") {
  const auto vocabulary = make_vocabulary({{std::string(blank) + "There"}, {std::string(blank) + "was"}});
  TokenStream stream(*vocabulary);
  std::string out;
  for (const vigil::gguf::TokenId id : {1, first_own, first_own + 1, 2, -1, 1 << 20}) stream.push(id, out);
  stream.finish(out);
  CHECK(out == " There was");
}

TEST_CASE("Control tokens are text for those who read markers", "[token_stream]") {
  const auto vocabulary = make_vocabulary({{"<|channel|>", 0, vigil::gguf::TokenKind::control}});
  for (const auto control : {vigil::gguf::Vocabulary::Control::hide, vigil::gguf::Vocabulary::Control::show}) {
    TokenStream stream(*vocabulary, control);
    std::string text;
    for (const vigil::gguf::TokenId id : {byte_id('a'), first_own, vigil::gguf::TokenId{0}, byte_id(0xC3), first_own, byte_id('b')}) stream.push(id, text);
    stream.finish(text);
    CHECK(text == (control == vigil::gguf::Vocabulary::Control::show ? "a<|channel|>" + mark + "<|channel|>b" : "a" + mark + "b"));
  }
}
