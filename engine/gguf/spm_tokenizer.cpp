// SPM (SentencePiece BPE as GGUF files of model "llama" use it): the neighbouring pair whose joined piece has the highest score is merged
// until no pair is a piece; what is left and is no piece goes byte by byte. Not here: finding markers (marker_matcher).
#include <algorithm>
#include <bit>
#include <list>

#include "engine/gguf/marked_tokenizer.hpp"
#include "engine/gguf/pair_merger.hpp"
#include "engine/gguf/utf8.hpp"

namespace vigil::gguf {

namespace {

constexpr std::string_view blank_mark = "\xE2\x96\x81";  // U+2581
constexpr size_t most_piece_bytes = 1'024;  // real pieces stay below 200; bounds the hashing a hostile vocabulary can cost

// Finite scores as numbers that sort the other way round: the highest score is the lowest priority.
uint32_t priority_of(float score) {
  const auto bits = std::bit_cast<uint32_t>(score + 0.0f);  // one zero, not two
  const uint32_t rising = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return ~rising;
}

// Whether a blank comes behind another character somewhere in the piece.
bool has_inner_blank(std::string_view piece) {
  size_t blanks = 0;
  while (piece.substr(blanks).starts_with(blank_mark)) blanks += blank_mark.size();
  return piece.find(blank_mark, blanks) != std::string_view::npos;
}

class SpmTokenizer final : public MarkedTokenizer {
 public:
  explicit SpmTokenizer(const Vocabulary& vocabulary) : MarkedTokenizer(vocabulary), vocabulary_(vocabulary) {
    for (TokenId id = 0; id < vocabulary.size(); ++id) {
      if (!mergeable(id)) continue;
      longest_piece_ = std::max(longest_piece_, vocabulary.piece(id).size());
      words_apart_ = words_apart_ && !has_inner_blank(vocabulary.piece(id));
    }
  }

  std::string decode(const std::vector<TokenId>& ids) const override {
    std::string text;
    bool blank_in_front = vocabulary_.add_space_prefix();  // whether encode would have put a blank before what comes now
    for (const TokenId id : ids) {
      if (id < 0 || id >= vocabulary_.size()) continue;
      const std::string bytes = vocabulary_.bytes(id);
      if (vocabulary_.kind(id) == TokenKind::user_defined) {
        text += bytes;
        blank_in_front = vocabulary_.add_space_prefix();
      } else if (!bytes.empty()) {
        text.append(bytes, blank_in_front && bytes[0] == ' ' ? 1 : 0);
        blank_in_front = false;
      }
    }
    return text;
  }

 protected:
  void append(const std::vector<Fragment>& fragments, std::vector<TokenId>& ids) const override {
    Call call;
    for (const Fragment& fragment : fragments) {
      if (fragment.marker >= 0) {
        ids.push_back(fragment.marker);
      } else {
        encode_stretch(fragment.text, call, ids);
      }
    }
  }

 private:
  struct Call {
    std::list<std::string> texts;  // what remembered words look into
    WordCache seen;
    PairMerger merger;
  };

  // Control and unknown pieces never come out of typed text, "<0x0A>" typed as six characters is not a line end, and user-defined pieces
  // were found before.
  bool mergeable(TokenId id) const {
    const TokenKind kind = vocabulary_.kind(id);
    return (kind == TokenKind::normal || kind == TokenKind::unused) && vocabulary_.piece(id).size() <= most_piece_bytes;
  }

  std::optional<TokenId> find_piece(std::string_view text) const {
    if (text.size() > longest_piece_) return std::nullopt;
    const auto id = vocabulary_.find(text);
    return id && mergeable(*id) ? id : std::nullopt;
  }

  void encode_stretch(std::string_view raw, Call& call, std::vector<TokenId>& ids) const {
    std::string& text = call.texts.emplace_back();
    text.reserve(raw.size() + raw.size() / 2);
    if (vocabulary_.add_space_prefix()) text += blank_mark;
    for (const char c : raw) {
      if (c == ' ') {
        text += blank_mark;
      } else {
        text += c;
      }
    }
    const std::string_view whole = text;
    for (size_t start = 0; start < whole.size();) {
      const size_t end = words_apart_ ? word_end(whole, start) : whole.size();
      encode_word(whole.substr(start, end - start), call, ids);
      start = end;
    }
  }

  // Blanks and what follows them up to the next blank: where no piece has a blank inside, nothing joins across that border.
  static size_t word_end(std::string_view text, size_t start) {
    while (text.substr(start, blank_mark.size()) == blank_mark) start += blank_mark.size();
    return std::min(text.find(blank_mark, start), text.size());
  }

  void encode_word(std::string_view word, Call& call, std::vector<TokenId>& ids) const {
    if (call.seen.repeat(word, ids)) return;
    const size_t first = ids.size();
    call.merger.clear();
    for (size_t start = 0; start < word.size();) {
      const size_t length = std::max<size_t>(utf8_length(word.substr(start, 4)), 1);
      call.merger.add(-1, start, length);
      start += length;
    }
    call.merger.merge([&](Symbol& left, const Symbol& right) {
      const auto id = find_piece(word.substr(left.start, left.length + right.length));
      if (!id) return;
      left.priority = priority_of(vocabulary_.score(*id));
      left.joined = *id;
    });
    call.merger.each([&](const Symbol& symbol) {
      if (symbol.id >= 0) {
        ids.push_back(symbol.id);
      } else {
        append(word.substr(symbol.start, symbol.length), ids);
      }
    });
    call.seen.remember(word, first, ids);
  }

  void append(std::string_view piece, std::vector<TokenId>& ids) const {
    if (const auto id = find_piece(piece)) {
      ids.push_back(*id);
      return;
    }
    if (piece == blank_mark) piece = " ";  // it stands for a blank, so its byte is a blank's
    for (const char c : piece) {
      const auto id = vocabulary_.byte_token(static_cast<uint8_t>(c));
      if (id) {
        ids.push_back(*id);
      } else if (vocabulary_.unknown()) {
        ids.push_back(*vocabulary_.unknown());
      }
    }
  }

  const Vocabulary& vocabulary_;
  size_t longest_piece_ = 0;  // bytes
  bool words_apart_ = true;   // no piece has a blank inside
};

}  // namespace

std::unique_ptr<Tokenizer> make_spm_tokenizer(const Vocabulary& vocabulary) { return std::make_unique<SpmTokenizer>(vocabulary); }

}  // namespace vigil::gguf
