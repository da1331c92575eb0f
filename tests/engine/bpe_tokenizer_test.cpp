// BPE and WordPiece on hand-made vocabularies: merge order, markers, lost bytes, round trips, size, threads.
#include <catch2/catch.hpp>

#include <thread>

#include "engine/gguf/tokenizer.hpp"
#include "tests/engine/gguf_support.hpp"

using namespace vigil::gguf;
using namespace vigil::gguf::test;
using Markers = Tokenizer::Markers;
using Bos = Tokenizer::Bos;
using Ids = std::vector<TokenId>;

namespace {

const std::string blank = "\xE2\x96\x81", space_letter = "\xC4\xA0";

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

  Vocabulary vocabulary;
  std::unique_ptr<Tokenizer> tokenizer;
};

// Ids of the pieces behind the bytes.
enum Id : TokenId { ab = 256, bc, abc, space_a, think, h1, end, cat };

Writer small(const std::string& pre = "gpt-2") {
  Writer out = byte_level({"ab", "bc", "abc", space_letter + "a", "<think>", "<h1>", "<|im_end|>", "cat"}, {"b c", "a b", "a bc", space_letter + " a", "b c"});
  out.put_string("tokenizer.ggml.pre", pre);
  return out;
}

}  // namespace

TEST_CASE("BPE: the merge with the lowest rank first, within a word") {
  const Fixture bpe(small());
  CHECK(bpe.encode("abc") == Ids{abc});          // b c first, then a bc
  CHECK(bpe.encode("abab") == Ids{ab, ab});
  CHECK(bpe.encode("bcb") == Ids{bc, 'b'});
  CHECK(bpe.encode("b cab") == Ids{'b', ' ', 'c', ab});  // never over a word's border
  CHECK(bpe.encode(" a") == Ids{space_a});
  CHECK(bpe.encode(" abc") == Ids{' ', abc});  // a bc has the lower rank
  CHECK(bpe.encode("cat") == Ids{'c', 'a', 't'});    // a piece that no merge reaches
  CHECK(bpe.encode("").empty());
  CHECK(bpe.encode("abc abc abc") == Ids{abc, ' ', abc, ' ', abc});  // words that come again
}

TEST_CASE("BPE: some models take whole words that are pieces, whatever the merges say") {
  const Fixture bpe(small("llama-bpe"));
  CHECK(bpe.encode("cat") == Ids{cat});
  CHECK(bpe.encode("cats") == Ids{'c', 'a', 't', 's'});
}

TEST_CASE("BPE: markers by who wrote them") {
  const Fixture bpe(small());
  CHECK(bpe.encode("a<|im_end|>", Markers::special) == Ids{'a', end});
  CHECK(bpe.encode("a<|im_end|>", Markers::plain).size() == 11);
  CHECK(bpe.encode("<think>a", Markers::plain) == Ids{think, 'a'});
  CHECK(bpe.encode("<think>a", Markers::typed).size() == 8);
  CHECK(bpe.encode("<h1>a", Markers::typed) == Ids{h1, 'a'});  // HTML is no template's marker
  CHECK(bpe.tokenizer->decode(bpe.encode("<think><|im_end|>", Markers::typed)) == "<think><|im_end|>");
  CHECK(bpe.tokenizer->decode({'a', end, 'b', -1, 5000}) == "ab");
  const auto fragments = bpe.tokenizer->fixed_fragments("x<think>y<h1><|im_end|>");
  REQUIRE(fragments.size() == 4);
  CHECK((fragments[0].marker == -1 && fragments[0].text == "x"));
  CHECK(fragments[1].marker == think);
  CHECK((fragments[2].marker == -1 && fragments[2].text == "y<h1>"));
  CHECK(fragments[3].marker == end);
}

TEST_CASE("BPE: a merge into a control token or into markup is never carried out") {
  Writer out = byte_level({"<s", "<s>", "im", "<b>"}, {"< s", "<s >", "i m"});
  out.put_string("tokenizer.ggml.pre", "gemma4");  // whole lines: the marks are in one word
  out.put_u32("tokenizer.ggml.bos_token_id", 257);
  const Fixture bpe(out);
  CHECK(bpe.encode("<s>", Markers::typed) == Ids{256, '>'});
}

TEST_CASE("BPE: a control token is never merged, whatever its name looks like") {
  for (const TokenKind kind : {TokenKind::normal, TokenKind::control}) {
    Writer out;
    out.put_string("tokenizer.ggml.model", "gpt2");
    out.put_string("tokenizer.ggml.pre", "gpt-2");
    out.put_strings("tokenizer.ggml.tokens", {"s", "t", "o", "p", "st", "op", "stop"});
    out.put_i32s("tokenizer.ggml.token_type", {1, 1, 1, 1, 1, 1, static_cast<int32_t>(kind)});
    out.put_strings("tokenizer.ggml.merges", {"s t", "o p", "st op"});
    const Fixture bpe(out);
    CHECK(bpe.encode("stop", Markers::typed) == (kind == TokenKind::normal ? Ids{6} : Ids{4, 5}));
  }
}

TEST_CASE("BPE: a vocabulary that lacks bytes loses them, and never writes the end of text instead") {
  Writer out;
  out.put_string("tokenizer.ggml.model", "gpt2");
  out.put_string("tokenizer.ggml.pre", "gpt-2");
  out.put_strings("tokenizer.ggml.tokens", {"<|endoftext|>", "a", "b"});
  out.put_strings("tokenizer.ggml.merges", {});
  out.put_u32("tokenizer.ggml.unknown_token_id", 0);
  const Fixture bpe(out);
  CHECK(bpe.encode("axb") == Ids{1, 2});
}

TEST_CASE("BPE in SentencePiece's writing: blanks, line ends as wholes, byte tokens") {
  Writer out;
  auto rows = piece_rows(ByteTokens::with, {{blank, 0, TokenKind::normal}, {"a", 0, TokenKind::normal}, {blank + "a", 0, TokenKind::normal},
                                            {"\n\n", 0, TokenKind::normal}, {"<0x4", 0, TokenKind::normal}, {"1>", 0, TokenKind::normal}, {"<", 0, TokenKind::normal}, {"1", 0, TokenKind::normal},
                                            {">", 0, TokenKind::normal}, {"0", 0, TokenKind::normal}, {"<0", 0, TokenKind::normal}, {"x", 0, TokenKind::normal},
                                            {"4", 0, TokenKind::normal}, {"x4", 0, TokenKind::normal}});
  put_pieces(out, rows);
  Writer gemma;
  std::vector<std::string> texts;
  std::vector<int32_t> kinds;
  for (const PieceRow& row : rows) {
    texts.push_back(row.text);
    kinds.push_back(static_cast<int32_t>(row.kind));
  }
  gemma.put_string("tokenizer.ggml.model", "gemma4");
  gemma.put_strings("tokenizer.ggml.tokens", texts);
  gemma.put_i32s("tokenizer.ggml.token_type", kinds);
  gemma.put_strings("tokenizer.ggml.merges", {blank + " a", "< 0", "x 4", "<0 x4", "1 >", "<0x4 1>"});
  gemma.put_u32("tokenizer.ggml.bos_token_id", 1);
  const Fixture bpe(gemma);
  CHECK(bpe.encode("a a\n\n a", Markers::plain, Bos::as_model) == Ids{1, 260, 261, 262, 261});
  CHECK(bpe.encode("\xC3\xA9") == Ids{3 + 0xc3, 3 + 0xa9});
  for (const char* text : {" a", "a  a \n\n\n x", "\xC3\xA9\xFF", "<0x41>a"}) CHECK(bpe.tokenizer->decode(bpe.encode(text)) == text);
}

TEST_CASE("BPE: decoding gives the text back, whatever it is") {
  std::string every;
  for (int byte = 0; byte < 256; ++byte) every += static_cast<char>(byte);
  uint64_t state = 1;
  for (const char* pre : {"gpt-2", "llama-bpe", "qwen2", "deepseek-v3", "deepseek-llm", "gpt-4o", "default"}) {
    const Fixture bpe(small(pre));
    CHECK(bpe.tokenizer->decode(bpe.encode(every)) == every);
    for (int round = 0; round < 200; ++round) {
      std::string text;
      const char* parts[] = {" ", "a", "ab", "abc", "<think>", "<h1>", "\n", "\xC3", "\xA9", "\xE6\x97\xA5", "  ", "bc", "<|im_end|>", "12", blank.c_str()};
      for (int part = 0; part < 12; ++part) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        text += parts[(state >> 33) % std::size(parts)];
      }
      for (const auto markers : {Markers::typed, Markers::plain}) CHECK(bpe.tokenizer->decode(bpe.encode(text, markers)) == text);
    }
  }
}

TEST_CASE("BPE: long runs of one letter are not quadratic, and one tokenizer serves several threads") {
  std::vector<std::string> pieces, merges;
  for (size_t length = 2; length <= 512; length *= 2) {
    pieces.push_back(std::string(length, 'x'));
    merges.push_back(std::string(length / 2, 'x') + " " + std::string(length / 2, 'x'));
  }
  Writer out = byte_level(pieces, merges);
  out.put_string("tokenizer.ggml.pre", "gpt-2");
  const Fixture bpe(out);
  const Ids expected(1024, static_cast<TokenId>(256 + pieces.size() - 1));
  std::vector<std::thread> threads;
  std::vector<Ids> results(3);
  for (Ids& result : results) threads.emplace_back([&] { result = bpe.encode(std::string(524'288, 'x')); });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& result : results) CHECK((result == expected));
}

TEST_CASE("WordPiece: folded, cut at marks, longest piece first, one unknown token for a word that cannot be covered") {
  Writer out;
  out.put_string("tokenizer.ggml.model", "bert");
  out.put_strings("tokenizer.ggml.tokens",
                  {"[PAD]", "[UNK]", "[CLS]", "[SEP]", blank + "caf", "e", blank + "cafe", "s", blank + "!", blank + "\xE4\xB8\xAD", blank + "x"});
  out.put_i32s("tokenizer.ggml.token_type", {3, 3, 3, 3, 1, 1, 1, 1, 1, 1, 1});
  out.put_u32("tokenizer.ggml.unknown_token_id", 1);
  out.put_u32("tokenizer.ggml.cls_token_id", 2);
  out.put_u32("tokenizer.ggml.seperator_token_id", 3);
  const Fixture bert(out);
  CHECK(bert.encode("CAF\xC3\x89s!") == Ids{6, 7, 8});
  CHECK(bert.encode("caf x") == Ids{4, 10});
  CHECK(bert.encode("zebra x") == Ids{1, 10});
  CHECK(bert.encode("x\xE4\xB8\xADx") == Ids{10, 9, 10});
  CHECK(bert.encode("x\x01\xFFs") == Ids{10, 7});  // controls and what is no UTF-8 vanish
  CHECK(bert.encode("x", Markers::plain, Bos::whole_text) == Ids{2, 10, 3});
  CHECK(bert.encode("x", Markers::plain, Bos::as_model) == Ids{2, 10});
  CHECK(bert.encode("[SEP]x", Markers::special) == Ids{3, 10});
  CHECK(bert.tokenizer->decode({2, 6, 7, 8, 3}) == "cafes !");
  CHECK(bert.encode(std::string(200'000, 'e')).size() == 1);
}

TEST_CASE("what closes a text stands behind it only where nothing follows") {
  Writer out = small();
  out.put_u32("tokenizer.ggml.eos_token_id", end);
  out.put_bool("tokenizer.ggml.add_eos_token", true);
  const Fixture bpe(out);
  CHECK(bpe.encode("a", Markers::plain, Bos::as_model) == Ids{'a'});
  CHECK(bpe.encode("a", Markers::plain, Bos::whole_text) == Ids{'a', end});
}

TEST_CASE("Phi-3's markers take white space behind them along, three do not") {
  Writer out;
  put_pieces(out, piece_rows(ByteTokens::with, {{blank, -1, TokenKind::normal}, {"a", -1, TokenKind::normal}, {"<|user|>", 0, TokenKind::control}}));
  out.put_string("general.architecture", "phi3");
  out.put_bool("tokenizer.ggml.add_space_prefix", false);
  const Fixture spm(out);
  CHECK(spm.encode("<|user|> \n a<s> a", Markers::special) == Ids{261, 260, 1, 259, 260});
  const auto fragments = spm.tokenizer->fixed_fragments("<|user|>\n");
  REQUIRE(fragments.size() == 1);
  CHECK(fragments[0].marker == 261);
}
