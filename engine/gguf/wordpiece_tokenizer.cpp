// WordPiece as GGUF files of model "bert" use it: text is folded and cut at blanks and marks, and each word is covered from the left by the
// longest piece that fits; a word that cannot be covered is one unknown token. Not here: finding markers (marked_tokenizer).
#include <utf8proc.h>

#include "engine/gguf/characters.hpp"
#include "engine/gguf/marked_tokenizer.hpp"

namespace vigil::gguf {

namespace {

constexpr std::string_view word_mark = "\xE2\x96\x81";  // U+2581: begins the pieces that begin a word

bool is_ideograph(uint32_t code) {  // as BERT cuts them out: one word each
  return (code >= 0x4e00 && code <= 0x9fff) || (code >= 0x3400 && code <= 0x4dbf) || (code >= 0x20000 && code <= 0x2a6df) ||
         (code >= 0x2a700 && code <= 0x2b81f) || (code >= 0x2b920 && code <= 0x2ceaf) || (code >= 0xf900 && code <= 0xfaff) ||
         (code >= 0x2f800 && code <= 0x2fa1f);
}

// The first character of the canonical decomposition: the letter under its accents. For a Hangul syllable the first jamo alone, as the
// reference has it.
uint32_t base_of(uint32_t code) {
  if (code < 0x80) return code;
  constexpr utf8proc_ssize_t most = 32;
  utf8proc_int32_t buffer[most];
  int boundary = 0;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE);
  const auto length = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), buffer, most, options, &boundary);
  return length >= 1 && length <= most ? static_cast<uint32_t>(buffer[0]) : code;
}

bool is_control(uint32_t code) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CS || category == UTF8PROC_CATEGORY_CO;
}

class WordPieceTokenizer final : public MarkedTokenizer {
 public:
  explicit WordPieceTokenizer(const Vocabulary& vocabulary)
      : MarkedTokenizer(vocabulary), pieces_(vocabulary, [&](TokenId id) { return vocabulary.kind(id) == TokenKind::normal; }) {}

  std::string decode(const std::vector<TokenId>& ids) const override {
    std::string text = MarkedTokenizer::decode(ids);
    if (text.starts_with(' ')) text.erase(0, 1);
    return text;
  }

 protected:
  void append(const std::vector<Fragment>& fragments, std::vector<TokenId>& ids) const override {
    for (const Fragment& fragment : fragments) {
      if (fragment.marker >= 0) {
        ids.push_back(fragment.marker);
      } else {
        append_text(fragment.text, ids);
      }
    }
  }

 private:
  void append_text(std::string_view text, std::vector<TokenId>& ids) const {
    std::string word(word_mark);
    const auto end_word = [&] {
      if (word.size() > word_mark.size()) append_word(word, ids);
      word = word_mark;
    };
    for (const Character typed : characters_of(text)) {
      const uint32_t code = vocabulary().strip_accents() && !typed.is(char_class::invalid) ? base_of(typed.code()) : typed.code();
      const Character character(code, typed.is(char_class::invalid) ? char_class::invalid : classes_of(code));
      if (character.is(char_class::space)) {
        end_word();
        continue;
      }
      if (character.is(char_class::invalid) || code == 0 || code == 0xfffd || is_control(code)) continue;
      if (vocabulary().strip_accents() && character.is(char_class::mark)) continue;
      const bool alone = character.is(char_class::punctuation) || (character.is(char_class::symbol) && code < 0x7f) || is_ideograph(code);
      if (alone) end_word();
      append_utf8(word, vocabulary().lower_case() ? static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))) : code);
      if (alone) end_word();
    }
    end_word();
  }

  void append_word(std::string_view word, std::vector<TokenId>& ids) const {
    const size_t before = ids.size();
    for (size_t at = 0; at < word.size();) {
      const MarkerMatch match = pieces_.longest_at(word, at, word.size());
      if (match.length == 0) {
        ids.resize(before);
        ids.push_back(*vocabulary().unknown());
        return;
      }
      ids.push_back(match.id);
      at += match.length;
    }
  }

  MarkerMatcher pieces_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_wordpiece_tokenizer(const Vocabulary& vocabulary) { return std::make_unique<WordPieceTokenizer>(vocabulary); }

}  // namespace vigil::gguf
