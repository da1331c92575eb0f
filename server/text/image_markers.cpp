// See image_markers.hpp. The names are those of the models' own tokenizers.
#include "server/text/image_markers.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace vigil::text {

namespace {

using gguf::TokenId;

struct Known {
  std::string_view image, before, after;
};

// The first whose image token the vocabulary has counts.
constexpr std::array<Known, 8> known{{
    {"<image_soft_token>", "<start_of_image>", "<end_of_image>"},  // gemma 3
    {"<|image_pad|>", "<|vision_start|>", "<|vision_end|>"},       // qwen 2-vl to 3.5
    {"<|media_pad|>", "", "<|media_end|>"},                        // kimi
    {"<IMG_CONTEXT>", "<img>", "</img>"},                          // intern-vl
    {"[IMG]", "", "[IMG_END]"},                                    // mistral, pixtral
    {"<|image|>", "<|image>", "<image|>"},                         // gemma 4; llama 3.2 has the first alone
    {"<image>", "<fake_token_around_image>", "<fake_token_around_image>"},  // llava has the first alone; idefics 3, smolvlm
    {"<|patch|>", "<|image_start|>", "<|image_end|>"},             // llama 4
}};

// Control tokens only: what typed text becomes too cannot mark anything.
std::optional<TokenId> token(const gguf::Vocabulary& vocabulary, std::string_view piece) {
  const auto id = piece.empty() ? std::nullopt : vocabulary.find(piece);
  return id && vocabulary.kind(*id) == gguf::TokenKind::control ? id : std::nullopt;
}

}  // namespace

Result<std::optional<ImageMarkers>> find_image_markers(const gguf::Vocabulary& vocabulary, const std::string& wanted) {
  for (const Known& one : known) {
    if (!wanted.empty() && one.image != wanted) continue;
    const auto image = token(vocabulary, one.image);
    if (image) return std::optional(ImageMarkers{*image, token(vocabulary, one.before), token(vocabulary, one.after)});
  }
  if (wanted.empty()) return std::optional<ImageMarkers>();
  const auto image = vocabulary.find(wanted);
  if (!image) return Error{"vision.image_token: the vocabulary has no piece \"" + wanted + "\""};
  if (vocabulary.kind(*image) != gguf::TokenKind::control) {
    return Error{"vision.image_token: \"" + wanted + "\" is no control token of this vocabulary: text that somebody types would become it too"};
  }
  return std::optional(ImageMarkers{*image, {}, {}});
}

void append_picture(std::vector<TokenId>& ids, const ImageMarkers& markers) {
  if (markers.before) ids.push_back(*markers.before);
  ids.push_back(markers.image);
  if (markers.after) ids.push_back(*markers.after);
}

bool place_pictures(std::vector<TokenId>& ids, const ImageMarkers& markers, size_t pictures) {
  const auto count = [&](TokenId id) { return static_cast<size_t>(std::count(ids.begin(), ids.end(), id)); };
  const size_t standing = count(markers.image);
  if (standing == pictures) return true;
  if (standing != 0 || !markers.before || count(*markers.before) != pictures) return false;
  std::vector<TokenId> placed;
  placed.reserve(ids.size() + 2 * pictures);
  for (size_t i = 0; i < ids.size(); ++i) {
    placed.push_back(ids[i]);
    if (ids[i] != *markers.before) continue;
    placed.push_back(markers.image);
    const bool ended = i + 1 < ids.size() && markers.after && ids[i + 1] == *markers.after;
    if (markers.after && !ended) placed.push_back(*markers.after);
  }
  ids = std::move(placed);
  return true;
}

}  // namespace vigil::text
