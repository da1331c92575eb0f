// Cuts a text into the words within which byte-level BPE merges, as the model's tokenizer.ggml.pre asks for.
// Not here: merging (bpe_tokenizer.cpp); markers were taken out before.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/word_patterns.hpp"

namespace vigil::gguf {

struct PreTokenizer {
  std::string_view name;                 // a value of tokenizer.ggml.pre
  std::span<const pattern::Pass> passes;  // each cuts the pieces of the one before
  bool whole_words = false;              // a word that is a piece is that token, whatever the merges say
  bool add_bos = false;                  // unless tokenizer.ggml.add_bos_token says otherwise
  bool byte_level = true;                // pieces are written with one visible character a byte; false: as SentencePiece writes them
};

// nullptr for a name that is not known.
const PreTokenizer* find_pre_tokenizer(std::string_view name);
// All names, in alphabetical order, with commas: for an error's text.
std::string known_pre_tokenizers();

// The ends of the words, ascending; the last is text.size(). Empty for an empty text. Linear in the text's length.
std::vector<uint32_t> split_words(const PreTokenizer& pre_tokenizer, std::span<const Character> text);

}  // namespace vigil::gguf
