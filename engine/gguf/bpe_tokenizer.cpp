// BPE as GGUF files of model "gpt2" use it: within each word of the pre-tokenizer, the neighbours whose merge has the lowest rank are joined
// until no merge applies. Not here: cutting words (pre_tokenizer), finding markers (marked_tokenizer).
#include <algorithm>
#include <bit>
#include <list>

#include "engine/gguf/byte_letters.hpp"
#include "engine/gguf/marked_tokenizer.hpp"
#include "engine/gguf/merge_table.hpp"
#include "engine/gguf/pair_merger.hpp"
#include "engine/gguf/pre_tokenizer.hpp"
#include "engine/gguf/utf8.hpp"

namespace vigil::gguf {

namespace {

constexpr std::string_view blank_mark = "\xE2\x96\x81";  // U+2581

// Typed text becomes no control token by merging, and markup only by being a whole marker; "<0x0A>" typed as six characters is no line end.
bool reachable(const Vocabulary& vocabulary, TokenId id) {
  const TokenKind kind = vocabulary.kind(id);
  return kind == TokenKind::normal || kind == TokenKind::unused || (kind == TokenKind::byte && vocabulary.form() == PieceForm::byte_level);
}

class BpeTokenizer final : public MarkedTokenizer {
 public:
  explicit BpeTokenizer(const Vocabulary& vocabulary) : MarkedTokenizer(vocabulary), merges_(vocabulary), pre_tokenizer_(*vocabulary.pre_tokenizer()) {
    for (size_t byte = 0; byte < byte_letters.size(); ++byte) append_utf8(letters_[byte], byte_letters[byte]);
    for (TokenId id = 0; id < vocabulary.size(); ++id) longest_piece_ = std::max(longest_piece_, vocabulary.piece(id).size());
    // Some files name the end of text as their unknown token: typed text must not become that.
    const auto unknown = vocabulary.unknown();
    if (unknown && vocabulary.kind(*unknown) == TokenKind::unknown) unknown_ = unknown;
  }

 protected:
  void append(const std::vector<Fragment>& fragments, std::vector<TokenId>& ids) const override;

 private:
  class Call;

  MergeTable merges_;
  const PreTokenizer& pre_tokenizer_;
  std::array<std::string, 256> letters_;
  size_t longest_piece_ = 0;  // bytes, as stored
  std::optional<TokenId> unknown_;  // for bytes that the vocabulary lacks
};

// One call of encode: its buffers, and the words that it has seen.
class BpeTokenizer::Call {
 public:
  Call(const BpeTokenizer& tokenizer, std::vector<TokenId>& ids) : tokenizer_(tokenizer), vocabulary_(tokenizer.vocabulary()), ids_(ids) {}

  void add_marker(TokenId id) { ids_.push_back(id); }

  void add_text(std::string_view text) {
    if (!tokenizer_.pre_tokenizer_.byte_level) text = escaped_.emplace_back(escape(text));
    const std::vector<Character> characters = characters_of(text);
    size_t character = 0, start = 0;
    for (const uint32_t end : split_words(tokenizer_.pre_tokenizer_, characters)) {
      size_t bytes = 0;
      for (; character < end; ++character) bytes += characters[character].bytes();
      add_word(text.substr(start, bytes));
      start += bytes;
    }
  }

 private:
  static std::string escape(std::string_view text) {
    std::string escaped;
    escaped.reserve(text.size() + text.size() / 2);
    for (const char c : text) {
      if (c == ' ') {
        escaped += blank_mark;
      } else {
        escaped += c;
      }
    }
    return escaped;
  }

  void add_word(std::string_view word) {
    if (seen_.repeat(word, ids_)) return;
    const size_t first = ids_.size();
    if (const auto whole = whole_word(word)) {
      ids_.push_back(*whole);
    } else {
      split(word);
      merge();
      emit(word);
    }
    seen_.remember(word, first, ids_);
  }

  // A word that is a piece, where that goes before the merges: for some models always, for raw pieces with line ends.
  std::optional<TokenId> whole_word(std::string_view word) {
    const bool byte_level = tokenizer_.pre_tokenizer_.byte_level;
    if (byte_level ? !tokenizer_.pre_tokenizer_.whole_words : word.find_first_not_of('\n') != std::string_view::npos) return std::nullopt;
    if (word.size() > tokenizer_.longest_piece_) return std::nullopt;
    std::optional<TokenId> id;
    if (byte_level) {
      letters_.clear();
      for (const char c : word) letters_ += tokenizer_.letters_[static_cast<unsigned char>(c)];
      id = vocabulary_.find(letters_);
    } else {
      id = vocabulary_.find(word);
    }
    return id && reachable(vocabulary_, *id) ? id : std::nullopt;
  }

  void split(std::string_view word) {
    merger_.clear();
    for (size_t start = 0; start < word.size();) {
      if (tokenizer_.pre_tokenizer_.byte_level) {
        merger_.add(vocabulary_.byte_token(static_cast<uint8_t>(word[start])).value_or(-1), start, 1);
        ++start;
        continue;
      }
      const size_t length = std::max<size_t>(utf8_length(word.substr(start, 4)), 1);
      const auto id = vocabulary_.find(word.substr(start, length));
      merger_.add(id && reachable(vocabulary_, *id) ? *id : -1, start, length);
      start += length;
    }
  }

  void merge() {
    merger_.merge([&](Symbol& left, const Symbol& right) {
      const auto* entry = tokenizer_.merges_.find(left.id, right.id);
      if (!entry) return;
      left.priority = entry->rank;
      left.joined = entry->joined;
    });
  }

  void emit(std::string_view word) {
    merger_.each([&](const Symbol& symbol) {
      if (symbol.id >= 0) {
        ids_.push_back(symbol.id);
        return;
      }
      for (const char c : word.substr(symbol.start, symbol.length)) {
        const auto id = vocabulary_.byte_token(static_cast<uint8_t>(c));
        if (id || tokenizer_.unknown_) ids_.push_back(id ? *id : *tokenizer_.unknown_);
      }
    });
  }

  const BpeTokenizer& tokenizer_;
  const Vocabulary& vocabulary_;
  std::vector<TokenId>& ids_;
  WordCache seen_;
  std::list<std::string> escaped_;  // what remembered words look into
  PairMerger merger_;
  std::string letters_;
};

void BpeTokenizer::append(const std::vector<Fragment>& fragments, std::vector<TokenId>& ids) const {
  Call call(*this, ids);
  for (const Fragment& fragment : fragments) {
    if (fragment.marker >= 0) {
      call.add_marker(fragment.marker);
    } else {
      call.add_text(fragment.text);
    }
  }
}

}  // namespace

MergeTable::MergeTable(const Vocabulary& vocabulary) {
  const std::vector<Merge>& merges = vocabulary.merges();
  slots_.resize(std::bit_ceil(merges.size() * 2 + 1));
  mask_ = slots_.size() - 1;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    if (!reachable(vocabulary, merge.joined)) continue;
    Entry& entry = slots_[slot_of(pair_of(merge.left, merge.right))];
    if (entry.pair == free_slot) entry = {pair_of(merge.left, merge.right), static_cast<uint32_t>(rank), merge.joined};
  }
}

std::unique_ptr<Tokenizer> make_bpe_tokenizer(const Vocabulary& vocabulary) { return std::make_unique<BpeTokenizer>(vocabulary); }

}  // namespace vigil::gguf
