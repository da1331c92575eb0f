// SPM (SentencePiece BPE as GGUF files of model "llama" use it): the neighbouring pair whose joined piece has the highest score is merged
// until no pair is a piece; what is left and is no piece goes byte by byte. Not here: finding markers (marker_matcher).
#include <algorithm>
#include <queue>

#include "engine/gguf/marked_tokenizer.hpp"
#include "engine/gguf/utf8.hpp"

namespace vigil::gguf {

namespace {

constexpr std::string_view blank_mark = "\xE2\x96\x81";  // U+2581
constexpr size_t most_piece_bytes = 1'024;  // real pieces stay below 200; bounds the hashing a hostile vocabulary can cost

// Neighbours in a doubly linked list over one text; a merge widens the left one and empties the right one.
struct Symbol {
  size_t start = 0, length = 0;  // bytes; length 0: merged away
  ptrdiff_t previous = -1, next = -1;
};

struct Merge {
  float score = 0;
  ptrdiff_t left = 0, right = 0;
  size_t length = 0;  // of both together when this was queued: other now means that one of them has changed
};

struct WorseMerge {
  bool operator()(const Merge& a, const Merge& b) const { return a.score != b.score ? a.score < b.score : a.left > b.left; }
};

class SpmTokenizer final : public MarkedTokenizer {
 public:
  explicit SpmTokenizer(const Vocabulary& vocabulary) : MarkedTokenizer(vocabulary), vocabulary_(vocabulary) {
    for (TokenId id = 0; id < vocabulary.size(); ++id) {
      if (mergeable(id)) longest_piece_ = std::max(longest_piece_, vocabulary.piece(id).size());
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
    for (const Fragment& fragment : fragments) {
      if (fragment.marker >= 0) {
        ids.push_back(fragment.marker);
      } else {
        encode_stretch(fragment.text, ids);
      }
    }
  }

 private:
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

  void encode_stretch(std::string_view raw, std::vector<TokenId>& ids) const {
    std::string text;
    text.reserve(raw.size() + raw.size() / 2);
    if (vocabulary_.add_space_prefix()) text += blank_mark;
    for (const char c : raw) {
      if (c == ' ') {
        text += blank_mark;
      } else {
        text += c;
      }
    }
    std::vector<Symbol> symbols = split(text);
    merge(text, symbols);
    for (ptrdiff_t at = 0; at >= 0; at = symbols[static_cast<size_t>(at)].next) {
      const Symbol& symbol = symbols[static_cast<size_t>(at)];
      append(std::string_view(text).substr(symbol.start, symbol.length), ids);
    }
  }

  static std::vector<Symbol> split(std::string_view text) {
    std::vector<Symbol> symbols;
    symbols.reserve(text.size());
    for (size_t start = 0; start < text.size();) {
      const size_t length = std::max<size_t>(utf8_length(text.substr(start, 4)), 1);
      const auto index = static_cast<ptrdiff_t>(symbols.size());
      symbols.push_back({start, length, index - 1, index + 1});
      start += length;
    }
    symbols.back().next = -1;
    return symbols;
  }

  void merge(std::string_view text, std::vector<Symbol>& symbols) const {
    std::priority_queue<Merge, std::vector<Merge>, WorseMerge> queue;
    const auto symbol = [&](ptrdiff_t index) -> Symbol& { return symbols[static_cast<size_t>(index)]; };
    const auto offer = [&](ptrdiff_t left, ptrdiff_t right) {
      if (left < 0 || right < 0) return;
      const size_t length = symbol(left).length + symbol(right).length;
      if (const auto id = find_piece(text.substr(symbol(left).start, length))) queue.push({vocabulary_.score(*id), left, right, length});
    };
    for (ptrdiff_t right = 1; right < static_cast<ptrdiff_t>(symbols.size()); ++right) offer(right - 1, right);
    while (!queue.empty()) {
      const Merge best = queue.top();
      queue.pop();
      Symbol& left = symbol(best.left);
      Symbol& right = symbol(best.right);
      if (left.length == 0 || right.length == 0 || left.length + right.length != best.length) continue;
      left.length = best.length;
      right.length = 0;
      left.next = right.next;
      if (right.next >= 0) symbol(right.next).previous = best.left;
      offer(left.previous, best.left);
      offer(best.left, left.next);
    }
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
};

}  // namespace

std::unique_ptr<Tokenizer> make_spm_tokenizer(const Vocabulary& vocabulary) { return std::make_unique<SpmTokenizer>(vocabulary); }

}  // namespace vigil::gguf
