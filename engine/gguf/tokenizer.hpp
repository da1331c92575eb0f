// Text to ids and back. A tokenizer is immutable after construction and may be used by several threads.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/gguf/vocabulary.hpp"

namespace vigil::gguf {

class Tokenizer {
 public:
  // Whether control pieces found in the text become their tokens. Typed text never does (`plain`); the fixed parts of a chat template do
  // (`special`). User-defined pieces are matched as whole pieces either way; where pieces overlap, the longer one wins.
  enum class Markers { plain, special };
  // Whether the model's own beginning-of-sequence id is put first (only when the vocabulary says add_bos).
  enum class Bos { none, as_model };

  virtual ~Tokenizer() = default;
  // A blank is put in front of the text, and of the text behind each control or user-defined piece, when the vocabulary says
  // add_space_prefix. Bytes that are not UTF-8 become byte tokens.
  virtual std::vector<TokenId> encode(std::string_view text, Markers markers, Bos bos) const = 0;
  // The text of ids, without control tokens and without the blanks that encode put in front: decode(encode(text, plain)) == text, except
  // that U+2581, which stands for a blank in the vocabulary, comes back as one. A blank behind a control token in mid-text stays.
  // Ids outside the vocabulary are left out.
  virtual std::string decode(const std::vector<TokenId>& ids) const = 0;
};

// SPM: merges by score with byte fallback; O(n log n) in the text's length. `vocabulary` must outlive the tokenizer.
Result<std::unique_ptr<Tokenizer>> make_tokenizer(const Vocabulary& vocabulary);

}  // namespace vigil::gguf
