// See marked_tokenizer.hpp. Not here: the algorithms between the markers.
#include "engine/gguf/marked_tokenizer.hpp"

#include <algorithm>

namespace vigil::gguf {

namespace {

bool is_control(const Vocabulary& vocabulary, TokenId id) {
  return vocabulary.kind(id) == TokenKind::control || vocabulary.kind(id) == TokenKind::unknown;
}

// HTML as models have it among their user-defined pieces: a user's own words, and no marker of any template.
bool is_html(std::string_view piece) {
  // No "s": <s> is the beginning of a text.
  constexpr std::string_view tags[] = {"a",  "b",  "blockquote", "body", "br",   "caption", "code", "div", "em",    "h1",    "h2", "h3",    "h4", "h5",    "h6", "hr", "i",
                                       "li", "ol", "p",          "pre",  "span", "strong",  "sub",  "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "u",  "ul"};
  piece.remove_prefix(piece.starts_with("</") ? 2 : 1);
  piece.remove_suffix(1);
  return std::find(std::begin(tags), std::end(tags), piece) != std::end(tags);
}

// Pieces in brackets are what templates write around thoughts, tools and turns.
bool is_markup(std::string_view piece) {
  const bool angles = piece.size() > 2 && piece.front() == '<' && piece.back() == '>';
  const bool squares = piece.size() > 2 && piece.front() == '[' && piece.back() == ']';
  const bool bars = piece.size() > 4 && (piece.starts_with("<|") || piece.ends_with("|>"));
  return bars || squares || (angles && !is_html(piece));
}

bool is_white_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

MarkedTokenizer::MarkedTokenizer(const Vocabulary& vocabulary)
    : vocabulary_(vocabulary),
      typed_(vocabulary, [&](TokenId id) { return vocabulary.kind(id) == TokenKind::user_defined && !is_markup(vocabulary.piece(id)); }),
      plain_(vocabulary, [&](TokenId id) { return vocabulary.kind(id) == TokenKind::user_defined; }),
      special_(vocabulary, [&](TokenId id) { return vocabulary.kind(id) == TokenKind::user_defined || is_control(vocabulary, id); }),
      fixed_(vocabulary, [&](TokenId id) {
        return is_control(vocabulary, id) || (vocabulary.kind(id) == TokenKind::user_defined && is_markup(vocabulary.piece(id)));
      }) {}

std::vector<TokenId> MarkedTokenizer::encode(std::string_view text, Markers markers, Bos bos) const {
  std::vector<TokenId> ids;
  if (bos != Bos::none && vocabulary_.add_bos() && vocabulary_.bos()) ids.push_back(*vocabulary_.bos());
  append(fragments(text, markers == Markers::special ? special_ : markers == Markers::plain ? plain_ : typed_), ids);
  if (bos == Bos::whole_text) {
    if (vocabulary_.add_eos() && vocabulary_.eos()) ids.push_back(*vocabulary_.eos());
    if (vocabulary_.add_separator() && vocabulary_.separator()) ids.push_back(*vocabulary_.separator());
  }
  return ids;
}

std::vector<Tokenizer::Fragment> MarkedTokenizer::fixed_fragments(std::string_view text) const { return fragments(text, fixed_); }

std::vector<Tokenizer::Fragment> MarkedTokenizer::fragments(std::string_view text, const MarkerMatcher& matcher) const {
  std::vector<Fragment> found;
  size_t from = 0;
  for (const MarkerMatch& match : matcher.find(text)) {
    if (match.start > from) found.push_back({-1, text.substr(from, match.start - from)});
    found.push_back({match.id, text.substr(match.start, match.length)});
    from = match.start + match.length;
    if (vocabulary_.takes_space_behind(match.id)) {
      while (from < text.size() && is_white_space(text[from])) ++from;
    }
  }
  if (from < text.size()) found.push_back({-1, text.substr(from)});
  return found;
}

std::string MarkedTokenizer::decode(const std::vector<TokenId>& ids) const {
  std::string text;
  for (const TokenId id : ids) {
    if (id >= 0 && id < vocabulary_.size()) text += vocabulary_.bytes(id);
  }
  return text;
}

Result<std::unique_ptr<Tokenizer>> make_tokenizer(const Vocabulary& vocabulary) {
  switch (vocabulary.model()) {
    case TokenizerModel::spm: return make_spm_tokenizer(vocabulary);
    case TokenizerModel::bpe: return make_bpe_tokenizer(vocabulary);
    case TokenizerModel::wordpiece: return make_wordpiece_tokenizer(vocabulary);
  }
  return Error{"this tokenizer model is not supported"};
}

}  // namespace vigil::gguf
