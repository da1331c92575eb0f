// The vocabulary: what it takes from tokenizer.ggml.*, and that wrong keys are refused by name.
#include <catch2/catch.hpp>

#include <limits>

#include "engine/gguf/pre_tokenizer.hpp"
#include "tests/engine/gguf_support.hpp"

using namespace vigil::gguf;
using namespace vigil::gguf::test;
using Catch::Matchers::Contains;

namespace {

const std::string blank = "\xE2\x96\x81";

Writer small(const std::vector<PieceRow>& more = {{blank + "hi", -1, TokenKind::normal}, {"<|im_end|>", 0, TokenKind::normal}}) {
  Writer out;
  put_pieces(out, piece_rows(ByteTokens::with, more));
  return out;
}

std::string refusal_of(const Writer& writer) {
  auto vocabulary = vocabulary_of(writer);
  return vocabulary ? "(it was accepted)" : vocabulary.error();
}

}  // namespace

TEST_CASE("pieces, kinds, bytes and the usual special ids") {
  auto vocabulary = vocabulary_of(small());
  REQUIRE(vocabulary);
  CHECK(vocabulary->size() == 261);
  CHECK(vocabulary->bos() == 1);
  CHECK(vocabulary->eos() == 2);
  CHECK(vocabulary->unknown() == 0);
  CHECK(vocabulary->add_bos());
  CHECK_FALSE(vocabulary->add_eos());
  CHECK(vocabulary->add_space_prefix());
  CHECK(vocabulary->find(blank + "hi") == 259);
  CHECK_FALSE(vocabulary->find("nothing"));
  CHECK(vocabulary->byte_token(0x0a) == 13);
  CHECK(vocabulary->score(259) == -1.0f);
  CHECK(vocabulary->bytes(259) == " hi");
  CHECK(vocabulary->bytes(13) == "\n");
  CHECK(vocabulary->bytes(3) == std::string(1, '\0'));
  CHECK(vocabulary->bytes(1).empty());
  CHECK(vocabulary->bytes(1, Vocabulary::Control::show) == "<s>");
}

TEST_CASE("what ends a generation: the ids of the file and pieces known to end a turn, none of them typeable") {
  Writer out = small({{"x", -1, TokenKind::normal}, {"<|im_end|>", 0, TokenKind::user_defined}, {"stop", 0, TokenKind::normal}});
  out.put_u32("tokenizer.ggml.eos_token_id", 259);
  out.put_u32("tokenizer.ggml.eot_token_id", 261);
  auto vocabulary = vocabulary_of(out);
  REQUIRE(vocabulary);
  CHECK(vocabulary->eos() == 259);
  for (const TokenId id : {259, 261, 260, 2}) {
    CHECK(vocabulary->ends(id));
    CHECK(vocabulary->kind(id) == TokenKind::control);
  }
  CHECK(vocabulary->end_ids().size() == 4);
  CHECK_FALSE(vocabulary->ends(1));
  CHECK_FALSE(vocabulary->ends(-1));
  CHECK_FALSE(vocabulary->ends(5000));
}

TEST_CASE("what stands for a picture cannot be typed; an ordinary word of that name stays one") {
  auto vocabulary = vocabulary_of(small({{"<image>", 0, TokenKind::user_defined}, {"[IMG]", -1, TokenKind::normal}, {"<tool>", 0, TokenKind::user_defined}}));
  REQUIRE(vocabulary);
  CHECK(vocabulary->kind(259) == TokenKind::control);
  CHECK(vocabulary->kind(260) == TokenKind::normal);
  CHECK(vocabulary->kind(261) == TokenKind::user_defined);
  CHECK_FALSE(vocabulary->ends(259));
}

TEST_CASE("flags and ids of the file win over the usual ones") {
  Writer out = small();
  out.put_bool("tokenizer.ggml.add_bos_token", false);
  out.put_bool("tokenizer.ggml.add_eos_token", true);
  out.put_bool("tokenizer.ggml.add_space_prefix", false);
  out.put_u32("tokenizer.ggml.bos_token_id", 2);
  auto vocabulary = vocabulary_of(out);
  REQUIRE(vocabulary);
  CHECK_FALSE(vocabulary->add_bos());
  CHECK(vocabulary->add_eos());
  CHECK_FALSE(vocabulary->add_space_prefix());
  CHECK(vocabulary->bos() == 2);
}

TEST_CASE("wrong vocabularies are refused by key") {
  CHECK_THAT(refusal_of(Writer{}), Contains("'tokenizer.ggml.model' is missing"));
  Writer other;
  other.put_string("tokenizer.ggml.model", "t5");
  CHECK_THAT(refusal_of(other), Contains("tokenizer.ggml.model") && Contains("'t5'"));

  const auto with_lists = [](size_t pieces, std::vector<float> scores, std::vector<int32_t> kinds) {
    Writer out;
    out.put_string("tokenizer.ggml.model", "llama");
    out.put_strings("tokenizer.ggml.tokens", std::vector<std::string>(pieces, "p"));
    out.put_f32s("tokenizer.ggml.scores", scores);
    out.put_i32s("tokenizer.ggml.token_type", kinds);
    return refusal_of(out);
  };
  CHECK_THAT(with_lists(0, {}, {}), Contains("tokenizer.ggml.tokens") && Contains("empty"));
  CHECK_THAT(with_lists(2, {0}, {2, 1}), Contains("tokenizer.ggml.scores") && Contains("1 elements for 2"));
  CHECK_THAT(with_lists(2, {0, 0}, {2, 1, 1}), Contains("tokenizer.ggml.token_type") && Contains("3 elements for 2"));
  CHECK_THAT(with_lists(2, {0, std::numeric_limits<float>::quiet_NaN()}, {2, 1}), Contains("tokenizer.ggml.scores") && Contains("element 1"));
  CHECK_THAT(with_lists(2, {0, std::numeric_limits<float>::infinity()}, {2, 1}), Contains("tokenizer.ggml.scores") && Contains("element 1"));
  CHECK_THAT(with_lists(2, {0, 0}, {2, 7}), Contains("tokenizer.ggml.token_type") && Contains("element 1 is 7"));
  CHECK_THAT(with_lists(2, {0, 0}, {2, 6}), Contains("byte token 1"));
  CHECK_THAT(with_lists(2, {0, 0}, {1, 1}), Contains("neither"));

  for (const char* key : {"tokenizer.ggml.bos_token_id", "tokenizer.ggml.eos_token_id", "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"}) {
    Writer outside = small();
    outside.put_u32(key, 261);
    CHECK_THAT(refusal_of(outside), Contains(key) && Contains("261"));
    Writer wrong = small();
    wrong.put_string(key, "1");
    CHECK_THAT(refusal_of(wrong), Contains(key) && Contains("integer"));
  }
  Writer flag = small();
  flag.put_u32("tokenizer.ggml.add_bos_token", 1);
  CHECK_THAT(refusal_of(flag), Contains("add_bos_token") && Contains("boolean"));
  Writer byte_end = small();
  byte_end.put_u32("tokenizer.ggml.eos_token_id", 13);
  CHECK_THAT(refusal_of(byte_end), Contains("byte token"));
}

TEST_CASE("byte-level pieces: their bytes, and the tokens of bytes") {
  auto vocabulary = vocabulary_of(byte_level({"\xC4\xA0hi", "\xC4\x8A", "\xE6\x97\xA5"}));
  REQUIRE(vocabulary);
  CHECK(vocabulary->model() == TokenizerModel::bpe);
  CHECK(vocabulary->byte_token(' ') == 32);  // byte_level puts byte b at id b
  CHECK(vocabulary->byte_token('!') == 33);
  CHECK(vocabulary->byte_token(0xff) == 255);
  CHECK(vocabulary->bytes(256) == " hi");
  CHECK(vocabulary->bytes(10) == "\n");
  CHECK(vocabulary->bytes(0xad) == "\xAD");
  CHECK(vocabulary->bytes(258) == "\xE6\x97\xA5");  // no byte's letter: left as it is
  CHECK_FALSE(vocabulary->add_bos());
  CHECK_FALSE(vocabulary->bos());
}

TEST_CASE("merges are checked against the vocabulary") {
  const auto with_merge = [](const std::string& merge) {
    Writer out = byte_level({"ab"}, {"a b", merge});
    return refusal_of(out);
  };
  auto good = vocabulary_of(byte_level({"ab"}, {"a b"}));
  REQUIRE(good);
  REQUIRE(good->merges().size() == 1);
  CHECK(good->merges()[0].joined == 256);
  CHECK_THAT(with_merge("a c"), Contains("tokenizer.ggml.merges") && Contains("element 1") && Contains("'ac'"));
  CHECK_THAT(with_merge("xyz b"), Contains("tokenizer.ggml.merges") && Contains("'xyz'"));
  CHECK_THAT(with_merge("a xyz"), Contains("'xyz'"));
  for (const char* broken : {"ab", "", " ", "a ", " b"}) CHECK_THAT(with_merge(broken), Contains("tokenizer.ggml.merges") && Contains("not two pieces"));
  Writer none;
  put_byte_level(none, {});
  CHECK_THAT(refusal_of(none), Contains("tokenizer.ggml.merges") && Contains("missing"));
  none.put_u32("tokenizer.ggml.merges", 3);
  CHECK_THAT(refusal_of(none), Contains("tokenizer.ggml.merges"));
}

TEST_CASE("an unknown pre-tokenizer is refused with the known ones; without the key it is the default one") {
  Writer out = byte_level({});
  CHECK(vocabulary_of(out)->pre_tokenizer()->name == "default");
  out.put_string("tokenizer.ggml.pre", "no-such");
  CHECK_THAT(refusal_of(out), Contains("tokenizer.ggml.pre") && Contains("'no-such'") && Contains("llama-bpe") && Contains("qwen2"));
  Writer llama3 = byte_level({"<bos>"});
  llama3.put_string("tokenizer.ggml.pre", "llama-bpe");
  CHECK(vocabulary_of(llama3)->add_bos());
  llama3.put_bool("tokenizer.ggml.add_bos_token", false);
  CHECK_FALSE(vocabulary_of(llama3)->add_bos());
}

TEST_CASE("tokens for completing in the middle are found by key and by name, and cannot be typed") {
  auto by_name = vocabulary_of(byte_level({"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"}));
  REQUIRE(by_name);
  CHECK(by_name->infill().complete());
  CHECK(by_name->infill().prefix == 256);
  CHECK(by_name->infill().suffix == 257);
  CHECK(by_name->infill().middle == 258);
  for (TokenId id = 256; id < 262; ++id) CHECK(by_name->kind(id) == TokenKind::control);
  CHECK_FALSE(by_name->ends(256));
  for (TokenId id = 259; id < 262; ++id) CHECK(by_name->ends(id));  // a new file begins: the answer is over
  Writer keyed = byte_level({"<p>", "<s>", "<m>", "<fim_prefix>"});
  keyed.put_u32("tokenizer.ggml.fim_pre_token_id", 256);
  keyed.put_u32("tokenizer.ggml.suffix_token_id", 257);
  auto by_key = vocabulary_of(keyed);
  REQUIRE(by_key);
  CHECK(by_key->infill().prefix == 256);
  CHECK(by_key->infill().suffix == 257);
  CHECK_FALSE(by_key->infill().complete());
  keyed.put_u32("tokenizer.ggml.middle_token_id", 'a');
  CHECK_THAT(refusal_of(keyed), Contains("byte token"));
}

TEST_CASE("what closes a message inside a turn does not end it") {
  auto harmony = vocabulary_of(byte_level({"<|end|>", "<|return|>", "<|call|>"}));
  REQUIRE(harmony);
  CHECK_FALSE(harmony->ends(256));
  CHECK(harmony->kind(256) == TokenKind::control);
  CHECK(harmony->ends(257));
  CHECK(harmony->ends(258));
  CHECK(vocabulary_of(byte_level({"<|end|>"}))->ends(256));
  auto gemma = vocabulary_of(byte_level({"</s>", "<|tool_response>"}));
  CHECK_FALSE(gemma->ends(256));
  CHECK(gemma->kind(256) == TokenKind::normal);
}

TEST_CASE("a byte-level end token that is a byte is refused") {
  Writer out = byte_level({});
  out.put_u32("tokenizer.ggml.eos_token_id", '!');
  CHECK_THAT(refusal_of(out), Contains("byte token"));
}

TEST_CASE("WordPiece needs an unknown token and takes its ids from their places or keys") {
  Writer out;
  out.put_string("tokenizer.ggml.model", "bert");
  out.put_strings("tokenizer.ggml.tokens", {"[PAD]", "[UNK]", "[CLS]", "[SEP]", blank + "a"});
  CHECK_THAT(refusal_of(out), Contains("unknown_token_id"));
  out.put_u32("tokenizer.ggml.unknown_token_id", 1);
  out.put_u32("tokenizer.ggml.cls_token_id", 2);
  out.put_u32("tokenizer.ggml.seperator_token_id", 3);
  auto vocabulary = vocabulary_of(out);
  REQUIRE(vocabulary);
  CHECK(vocabulary->bos() == 2);
  CHECK(vocabulary->separator() == 3);
  CHECK(vocabulary->add_separator());
  CHECK(vocabulary->lower_case());
  out.put_bool("tokenizer.ggml.normalizer.lowercase", false);
  auto cased = vocabulary_of(out);
  CHECK_FALSE(cased->lower_case());
  CHECK_FALSE(cased->strip_accents());
}
