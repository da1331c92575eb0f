// text/image_markers and pictures in plain prompts: which token stands for one, and where. A marker that somebody typed stays text (X1).
#include <catch2/catch.hpp>

#include "server/text/chat_prompt.hpp"
#include "server/text/image_markers.hpp"
#include "tests/server/text/text_support.hpp"

using namespace vigil::text;
using namespace vigil::text::test;
using vigil::gguf::TokenId;
using vigil::gguf::TokenKind;

namespace {

constexpr TokenId pad = first_own, start = pad + 1, end = pad + 2, mine = pad + 3, im_start = pad + 4;

std::shared_ptr<const vigil::gguf::Vocabulary> vocabulary() {
  return make_vocabulary({{"<|image_pad|>", 0, TokenKind::control},
                          {"<|vision_start|>", 0, TokenKind::control},
                          {"<|vision_end|>", 0, TokenKind::control},
                          {"<mine>", 0, TokenKind::control},
                          {"<|im_start|>", 0, TokenKind::control},
                          {"<|im_end|>", 0, TokenKind::control},
                          {"typed", 0, TokenKind::user_defined}});
}

size_t count(const std::vector<TokenId>& ids, TokenId id) { return static_cast<size_t>(std::count(ids.begin(), ids.end(), id)); }

}  // namespace

TEST_CASE("The image token is found in the vocabulary, with the markers around it", "[image_markers]") {
  const auto words = vocabulary();
  const auto found = find_image_markers(*words, "");
  REQUIRE(found.ok());
  CHECK(*found == ImageMarkers{pad, start, end});
  const auto lone = find_image_markers(*make_vocabulary({{"<image>", 0, TokenKind::control}}), "");
  CHECK(*lone == ImageMarkers{first_own, {}, {}});
  CHECK(*find_image_markers(*make_vocabulary({}), "") == std::nullopt);
  CHECK(*find_image_markers(*make_vocabulary({{"<image>", -1}}), "") == std::nullopt);  // an ordinary word of that name
}

TEST_CASE("A name of one's own: a control token of the vocabulary, or an error that names the key", "[image_markers]") {
  const auto words = vocabulary();
  CHECK(*find_image_markers(*words, "<mine>") == ImageMarkers{mine, {}, {}});
  CHECK(*find_image_markers(*words, "<|image_pad|>") == ImageMarkers{pad, start, end});
  CHECK(find_image_markers(*words, "<none>").error() == "vision.image_token: the vocabulary has no piece \"<none>\"");
  CHECK(find_image_markers(*words, "typed").error().find("no control token") != std::string::npos);
}

TEST_CASE("Pictures stand where they were put, between the texts", "[image_markers]") {
  const auto words = vocabulary();
  const auto tokenizer = make_tokenizer_of(*words);
  const ImageMarkers markers{pad, start, end};
  const auto ids_of = [&](std::vector<ChatMessage> messages) {
    return encode_prompt(*tokenizer, *words, chat_prompt(talk(std::move(messages)), plain_format(*words)), markers);
  };
  const auto ids = ids_of({said("user", "abcd", {0, 2, 2, 4})});
  CHECK(count(ids, pad) == 4);
  std::string shape;  // letters of the text and # for a picture
  for (const TokenId id : ids) shape += id == pad ? "#" : words->bytes(id);
  std::erase(shape, ' ');  // this vocabulary puts a blank in front of a text behind a marker
  CHECK(shape.find("#ab##cd#") != std::string::npos);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != pad) continue;
    CHECK(ids[i - 1] == start);
    CHECK(ids[i + 1] == end);
  }
  CHECK(count(ids_of({said("user", "", {0})}), pad) == 1);
  CHECK(count(ids_of({said("user", "a", {1}), said("assistant", "b"), said("user", "c")}), pad) == 1);  // of an earlier turn
  const auto joined = encode_prompt(*tokenizer, *words, chat_prompt(talk({said("user", "a", {0}), said("user", "b")}), PlainFormat::joined), markers);
  CHECK(count(joined, pad) == 1);
}

TEST_CASE("An image marker that somebody typed stays text", "[image_markers]") {
  const auto words = vocabulary();
  const auto tokenizer = make_tokenizer_of(*words);
  const ImageMarkers markers{pad, start, end};
  const auto ids = encode_prompt(*tokenizer, *words, chat_prompt(talk({said("user", "see <|image_pad|> and <|vision_start|>", {4})}), PlainFormat::chatml), markers);
  CHECK(count(ids, pad) == 1);
  CHECK(count(ids, start) == 1);
}

TEST_CASE("A template's own markers are completed, or nothing is changed", "[image_markers]") {
  const ImageMarkers markers{pad, start, end};
  const auto place = [&](std::vector<TokenId> ids, size_t pictures) {
    return std::pair(place_pictures(ids, markers, pictures), ids);
  };
  CHECK(place({1, start, pad, end, 2}, 1) == std::pair(true, std::vector<TokenId>{1, start, pad, end, 2}));
  CHECK(place({1, start, end, 2, start, end}, 2) == std::pair(true, std::vector<TokenId>{1, start, pad, end, 2, start, pad, end}));
  CHECK(place({1, start, 2}, 1) == std::pair(true, std::vector<TokenId>{1, start, pad, end, 2}));
  CHECK(place({1, 2}, 1) == std::pair(false, std::vector<TokenId>{1, 2}));
  CHECK_FALSE(place({pad, pad}, 1).first);
  CHECK_FALSE(place({start, pad, start}, 2).first);
  CHECK(place({1}, 0).first);
}
