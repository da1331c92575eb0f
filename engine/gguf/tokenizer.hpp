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
  // Which pieces are matched as whole pieces before anything else; where they overlap, the longer one wins.
  enum class Markers {
    typed,    // user-defined pieces that are no markup: what a user types never becomes <think>, <tool_call> or a control token
    plain,    // all user-defined pieces, as other implementations take text without "special" tokens; for what is no part of a chat
    special,  // control and unknown pieces as well: the fixed parts of a chat template
  };
  // What the model's own ids put around the text.
  enum class Bos {
    none,
    as_model,    // the beginning-of-sequence id in front, when the vocabulary says add_bos
    whole_text,  // and what closes a text behind, when it says add_eos or add_separator: for embeddings, where nothing follows
  };

  // A marker, or the text between two.
  struct Fragment {
    TokenId marker = -1;
    std::string_view text;
  };

  virtual ~Tokenizer() = default;
  // SPM: a blank is put in front of the text, and of the text behind each marker, when the vocabulary says add_space_prefix. Bytes that are
  // not UTF-8 become byte tokens; where the vocabulary lacks one, its unknown token, or nothing.
  virtual std::vector<TokenId> encode(std::string_view text, Markers markers, Bos bos) const = 0;
  // The text of ids, without control tokens and without the blanks that encode put in front: decode(encode(text, plain)) == text, except
  // that with SPM U+2581, which stands for a blank in the vocabulary, comes back as one, and that WordPiece keeps only what it looked up
  // (small letters, words apart). A blank behind a control token in mid-text stays. Ids outside the vocabulary are left out. Nothing is
  // tidied up: no blank is removed before a full stop.
  virtual std::string decode(const std::vector<TokenId>& ids) const = 0;
  // Takes a template's own text apart: the markers that `typed` would not match, and the text between them, for encode(typed).
  virtual std::vector<Fragment> fixed_fragments(std::string_view text) const = 0;
};

// SPM: merges by score with byte fallback. BPE: merges by rank within the words of the pre-tokenizer. WordPiece: longest piece first.
// Each takes O(n log n) in the text's length. `vocabulary` must outlive the tokenizer.
Result<std::unique_ptr<Tokenizer>> make_tokenizer(const Vocabulary& vocabulary);

}  // namespace vigil::gguf
