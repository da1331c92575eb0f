// See token_stream.hpp.
#include "server/text/token_stream.hpp"

#include "server/text/utf8.hpp"

namespace vigil::text {

void TokenStream::push(gguf::TokenId id, std::string& out) {
  if (id < 0 || id >= vocabulary_.size()) return;
  const bool control = vocabulary_.kind(id) == gguf::TokenKind::control;
  std::string bytes = vocabulary_.bytes(id, control ? control_ : gguf::Vocabulary::Control::hide);
  if (bytes.empty()) return;
  if (!held_.empty()) bytes.insert(0, held_);
  const size_t cut = append_valid_utf8(out, bytes);
  held_.assign(bytes, bytes.size() - cut);
}

void TokenStream::finish(std::string& out) {
  if (!held_.empty()) out.append(replacement_character);
  held_.clear();
}

}  // namespace vigil::text
