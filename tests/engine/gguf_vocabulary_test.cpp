// The vocabulary: what it takes from tokenizer.ggml.*, and that wrong keys are refused by name.
#include <catch2/catch.hpp>

#include <limits>

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
