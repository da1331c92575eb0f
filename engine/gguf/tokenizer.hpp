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
  // Whether control and user-defined pieces found in the text become their tokens. Typed text never does (`plain`); the fixed parts
  // of a chat template do (`special`).
  enum class Markers { plain, special };
  // Whether the model's own beginning-of-sequence id is put first (only when the vocabulary says add_bos).
  enum class Bos { none, as_model };

  virtual ~Tokenizer() = default;
  virtual std::vector<TokenId> encode(std::string_view text, Markers markers, Bos bos) const = 0;
  // The text of ids, the blank that encode put in front taken off again; control tokens are left out.
  virtual std::string decode(const std::vector<TokenId>& ids) const = 0;
};

// SPM: merges by score with byte fallback; O(n log n) in the text's length. `vocabulary` must outlive the tokenizer.
Result<std::unique_ptr<Tokenizer>> make_tokenizer(const Vocabulary& vocabulary);

}  // namespace vigil::gguf
