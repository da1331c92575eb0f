// Token ids to text that can be sent: every piece is valid UTF-8, and the pieces joined do not depend on where tokens split characters.
// Not here: stop strings, control tokens' meaning.
#pragma once

#include <string>

#include "engine/gguf/vocabulary.hpp"

namespace vigil::text {

// The text is the continuation of a prompt: a blank at its beginning belongs to it and is kept (Tokenizer::decode, which gives the text of
// a whole sequence, drops the one that encode put in front). A plain answer and a stream both come from here, so they are equal.
class TokenStream {
 public:
  // Control::show gives control tokens their piece as text, for those who read markers (output_parser.hpp).
  explicit TokenStream(const gguf::Vocabulary& vocabulary, gguf::Vocabulary::Control control = gguf::Vocabulary::Control::hide)
      : vocabulary_(vocabulary), control_(control) {}

  // Appends what became whole with this token. A token that holds a part of a character appends nothing yet; bytes that can be part of no
  // character become U+FFFD; unknown tokens, hidden control tokens and ids outside the vocabulary have no text.
  void push(gguf::TokenId id, std::string& out);
  // The end: what was held back becomes one U+FFFD.
  void finish(std::string& out);

 private:
  const gguf::Vocabulary& vocabulary_;
  const gguf::Vocabulary::Control control_;
  std::string held_;  // at most 3 bytes: the beginning of a character
};

}  // namespace vigil::text
