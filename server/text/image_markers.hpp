// Which tokens stand for a picture in a vocabulary, and bringing them to their places in a prompt. The image token stands once per picture
// here; whoever knows the number of embedding rows repeats it. Not here: pictures, embeddings.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "engine/gguf/vocabulary.hpp"

namespace vigil::text {

struct ImageMarkers {
  gguf::TokenId image = -1;                     // its place is an embedding row
  std::optional<gguf::TokenId> before, after;   // what models were trained to see around it, where the vocabulary has it
  bool operator==(const ImageMarkers&) const = default;
};

// `wanted`: the image token's text, or empty to look for the ones in use. Nothing when the vocabulary has none; an error when `wanted` is
// not in it, or when it is a piece that typed text becomes too.
Result<std::optional<ImageMarkers>> find_image_markers(const gguf::Vocabulary& vocabulary, const std::string& wanted);

// In order: before, image, after.
void append_picture(std::vector<gguf::TokenId>& ids, const ImageMarkers& markers);

// For prompts of a template that knows its own markers: the ids hold the image token `pictures` times already, or the marker before it so
// often, behind which the image token and the marker after it are put. False when neither is so: the template has no place for them.
bool place_pictures(std::vector<gguf::TokenId>& ids, const ImageMarkers& markers, size_t pictures);

}  // namespace vigil::text
