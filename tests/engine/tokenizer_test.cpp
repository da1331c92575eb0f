// The SPM tokenizer on hand-made vocabularies: merge order, fallback, markers, round trips, and size.
#include <catch2/catch.hpp>

#include "engine/gguf/tokenizer.hpp"
#include "tests/engine/gguf_support.hpp"

using namespace vigil::gguf;
using namespace vigil::gguf::test;
using Markers = Tokenizer::Markers;
using Bos = Tokenizer::Bos;
using Ids = std::vector<TokenId>;

namespace {

const std::string blank = "\xE2\x96\x81";

// Ids of the pieces behind the byte tokens, in this order.
enum Id : TokenId {
  space = 259, a, b, c, d, ab, bc, cd, abc, space_a, space_ab, two_spaces, four_spaces, e_acute, angle, s_letter, im_start, im_end, tool, tool_long
};

std::vector<PieceRow> rows() {
  constexpr auto normal = TokenKind::normal;
  return {{blank, -20, normal},        {"a", -21, normal},        {"b", -22, normal},
          {"c", -23, normal},          {"d", -24, normal},        {"ab", -3, normal},
          {"bc", -2, normal},          {"cd", -3, normal},        {"abc", -9, normal},
          {blank + "a", -4, normal},   {blank + "ab", -5, normal}, {blank + blank, -6, normal},
          {blank + blank + blank + blank, -5, normal}, {"\xC3\xA9", -25, normal}, {"<", -26, normal},
          {"s", -27, normal},          {"<|im_start|>", 0, TokenKind::control}, {"<|im_end|>", 0, TokenKind::control},
          {"<tool>", 0, TokenKind::user_defined}, {"<tool>>", 0, TokenKind::user_defined}};
}

// A vocabulary and its tokenizer; the tokenizer refers to the vocabulary, so this does not move.
struct Fixture {
  explicit Fixture(const Writer& writer) : vocabulary(load(writer)), tokenizer(std::move(make_tokenizer(vocabulary).value())) {}
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;

  static Vocabulary load(const Writer& writer) {
    auto loaded = vocabulary_of(writer);
    if (!loaded) FAIL(loaded.error());
    return std::move(*loaded);
  }
  Ids encode(std::string_view text, Markers markers = Markers::plain, Bos bos = Bos::none) const { return tokenizer->encode(text, markers, bos); }
  std::string round_trip(std::string_view text) const { return tokenizer->decode(encode(text)); }

  Vocabulary vocabulary;
  std::unique_ptr<Tokenizer> tokenizer;
};

Writer usual() {
  Writer out;
  put_pieces(out, piece_rows(ByteTokens::with, rows()));
  return out;
}

Writer without_prefix() {
  Writer out = usual();
  out.put_bool("tokenizer.ggml.add_space_prefix", false);
  return out;
}

Ids byte_ids(std::string_view bytes) {
  Ids ids;
  for (const char byte : bytes) ids.push_back(3 + static_cast<unsigned char>(byte));
  return ids;
}

}  // namespace

TEST_CASE("the pair with the highest score merges first, equal scores from the left") {
  const Fixture spm(without_prefix());
  CHECK(spm.encode("abc") == Ids{abc});      // bc (-2) first; then a + bc is a piece
  CHECK(spm.encode("abcd") == Ids{abc, d});  // bc first leaves cd no c
  CHECK(spm.encode("abab") == Ids{ab, ab});
  CHECK(spm.encode("ba") == Ids{b, a});
  Writer equal;
  put_pieces(equal, piece_rows(ByteTokens::with, {{"a", -9, TokenKind::normal}, {"b", -9, TokenKind::normal}, {"c", -9, TokenKind::normal},
                                                  {"bc", -1, TokenKind::normal}, {"ab", -1, TokenKind::normal}}));
  equal.put_bool("tokenizer.ggml.add_space_prefix", false);
  CHECK(Fixture(equal).encode("abc") == Ids{263, 261});  // ab | c, though bc has the smaller id
}

TEST_CASE("blanks become U+2581, and one is put in front") {
  const Fixture spm(usual());
  CHECK(spm.encode("a") == Ids{space_a});
  CHECK(spm.encode("ab") == Ids{space_ab});
  CHECK(spm.encode(" ") == Ids{two_spaces});
  CHECK(spm.encode("   ") == Ids{four_spaces});
  CHECK(spm.encode("a  a") == Ids{space_a, space, space_a});
  CHECK(spm.encode("").empty());
  CHECK(spm.encode("", Markers::plain, Bos::as_model) == Ids{1});
  CHECK(spm.encode("a", Markers::plain, Bos::as_model) == Ids{1, space_a});
  CHECK(Fixture(without_prefix()).encode("a") == Ids{a});
}

TEST_CASE("what is no piece goes byte by byte, and bytes that are no UTF-8 too") {
  const Fixture spm(without_prefix());
  CHECK(spm.encode("\xC3\xA9") == Ids{e_acute});
  CHECK(spm.encode("\n") == byte_ids("\n"));
  CHECK(spm.encode("\xE6\x97\xA5") == byte_ids("\xE6\x97\xA5"));
  Ids cut = byte_ids("\xE6\x97");
  cut.push_back(a);
  CHECK(spm.encode("\xE6\x97" "a") == cut);  // a stays a letter behind a cut character
  CHECK(spm.encode(std::string_view("\0", 1)) == Ids{3});
  CHECK(spm.encode("<0x0A>").size() == 6);  // typed, not a line end
  CHECK(spm.encode("<0x0A>")[0] == angle);

  Writer bare;
  put_pieces(bare, piece_rows(ByteTokens::without, {{"a", -1, TokenKind::normal}}));
  bare.put_bool("tokenizer.ggml.add_space_prefix", false);
  CHECK(Fixture(bare).encode("axa") == Ids{3, 0, 3});  // no byte tokens: the unknown token
}

TEST_CASE("typed control pieces stay text; a template's become their tokens") {
  const Fixture spm(usual());
  for (const char* typed : {"<s>", "</s>", "<unk>", "<|im_end|>", "a<|im_start|>a"}) {
    for (const TokenId id : spm.encode(typed)) CHECK(spm.vocabulary.kind(id) != TokenKind::control);
    CHECK(spm.round_trip(typed) == typed);
  }
  CHECK(spm.encode("<|im_start|>a<|im_end|>", Markers::special) == Ids{im_start, space_a, im_end});
  CHECK(spm.encode("a<s>a", Markers::special) == Ids{space_a, 1, space_a});  // the text behind a marker gets its blank again
  CHECK(spm.encode("<<s>", Markers::special) == Ids{space, angle, 1});
  CHECK(spm.encode("<s><s>", Markers::special) == Ids{1, 1});
  CHECK(Fixture(without_prefix()).encode("a<s>a", Markers::special) == Ids{a, 1, a});
}

TEST_CASE("a piece that is a control token is never reached by merging typed text") {
  Writer out;
  put_pieces(out, piece_rows(ByteTokens::with, {{"<", -9, TokenKind::normal}, {"s", -9, TokenKind::normal}, {">", -9, TokenKind::normal},
                                                {"<s", -1, TokenKind::normal}}));
  out.put_bool("tokenizer.ggml.add_space_prefix", false);
  CHECK(Fixture(out).encode("<s>") == Ids{262, 261});
}

TEST_CASE("user-defined pieces are whole pieces in typed text as well; the longer one wins") {
  const Fixture spm(usual());
  CHECK(spm.encode("a<tool>a") == Ids{space_a, tool, space_a});
  CHECK(spm.encode("<tool>>") == Ids{tool_long});
  CHECK(spm.encode("<tool><tool>>") == Ids{tool, tool_long});
  Writer out;
  constexpr auto user_defined = TokenKind::user_defined;
  put_pieces(out, piece_rows(ByteTokens::with, {{"xyz", 0, user_defined}, {"zabcd", 0, user_defined}, {"xy", 0, user_defined},
                                                {blank + blank, -1, user_defined}, {blank, -2, TokenKind::normal}}));
  const Fixture overlap(out);
  CHECK(overlap.encode("xyzabcd") == Ids{261, 260});  // the five-byte piece first; then the longest that still fits before it
  CHECK(overlap.encode("   ") == Ids{262, 262});      // a user-defined run of blanks is reached by typed blanks
  CHECK(overlap.round_trip("xyz  zabcd xy") == "xyz  zabcd xy");
}

TEST_CASE("decoding gives the text back, whatever it is") {
  std::vector<std::string> texts = {"", " ", "  ", "   ", "a", " a", "  a", "a ", "a  b ", "\n", "\n\n a", "\t", " \n ", "\r\n", "<s>",
                                    " <tool> a", "<tool>a<tool>  a", "\xC3\xA9t\xC3\xA9", "\xE6\x97\xA5\xE6\x9C\xAC", "\xF0\x9F\x98\x80 x",
                                    "\xFF\xFE", "\xE6\x97", "\xC0\xAF", "a\xED\xA0\x80" "b", std::string("\0a\0", 3)};
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  texts.push_back(every);
  uint64_t state = 1;
  for (int i = 0; i < 500; ++i) {
    std::string text;
    const char* parts[] = {" ", "a", "ab", "abc", "<tool>", "<", "\n", "\xC3", "\xA9", "\xE6\x97\xA5", "  ", "bc", "<|im_end|>"};
    for (int part = 0; part < 12; ++part) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      text += parts[(state >> 33) % std::size(parts)];
    }
    texts.push_back(text);
  }
  for (const Writer& writer : {usual(), without_prefix()}) {
    const Fixture spm(writer);
    for (const std::string& text : texts) {
      CHECK(spm.round_trip(text) == text);
      CHECK(spm.tokenizer->decode(spm.encode(text, Markers::plain, Bos::as_model)) == text);
    }
  }
}

TEST_CASE("a vocabulary without a blank piece still gives blanks back") {
  Writer out;
  put_pieces(out, piece_rows(ByteTokens::with, {{"a", -1, TokenKind::normal}}));
  CHECK(Fixture(out).round_trip(" a  a") == " a  a");
}

TEST_CASE("decoding leaves out control tokens and ids that do not exist") {
  const Fixture spm(usual());
  CHECK(spm.tokenizer->decode({1, space_a, im_end}) == "a");
  CHECK(spm.tokenizer->decode({space_a, -1, 100000, space_a}) == "a a");
  CHECK(spm.tokenizer->decode({space_a, 1, space_a}) == "a a");
}

TEST_CASE("long runs stay whole and are not quadratic") {
  // 64 KiB of one letter, of blanks, of markers, of broken bytes: a quadratic tokenizer would run into the test's own limit.
  const Fixture spm(usual());
  for (const char* unit : {"a", " ", "ab", "<tool>", "\xE6\x97\xA5", "\xFF", "<", "\n"}) {
    std::string text;
    while (text.size() < 65536) text += unit;
    CHECK(spm.round_trip(text) == text);
  }
  std::vector<PieceRow> doubling;
  for (size_t length = 1; length <= 1024; length *= 2) doubling.push_back({std::string(length, 'x'), -static_cast<float>(length), TokenKind::normal});
  Writer out;
  put_pieces(out, piece_rows(ByteTokens::with, doubling));
  out.put_bool("tokenizer.ggml.add_space_prefix", false);
  CHECK(Fixture(out).encode(std::string(65536, 'x')) == Ids(64, 269));
}
