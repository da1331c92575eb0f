// What both halves of the parser share: looking at tokens, taking them, making lists of the tree. Not here: grammar.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "server/text/jinja/lexer.hpp"
#include "server/text/jinja/limits.hpp"
#include "server/text/jinja/strings.hpp"
#include "server/text/jinja/syntax.hpp"

namespace vigil::text::jinja {

class ParserBase {
 public:
  ParserBase(Heap& heap, const Tokens& tokens) : heap_(heap), tokens_(tokens.list) {}

 protected:
  using Kind = Token::Kind;
  const Token& current() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& take() {
    const Token& out = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return out;
  }
  bool is(Kind kind) const { return current().kind == kind; }
  bool is_symbol(std::string_view text) const { return is(Kind::symbol) && current().text == text; }
  bool is_name(std::string_view text) const { return is(Kind::name) && current().text == text; }
  bool skip_symbol(std::string_view text) { return is_symbol(text) && (take(), true); }
  bool skip_name(std::string_view text) { return is_name(text) && (take(), true); }

  [[noreturn]] void error(const std::string& what) const { syntax_error(current().line, current().column, what); }
  [[noreturn]] void unexpected(const std::string& wanted) const { error("expected " + wanted + ", got " + describe()); }
  std::string describe() const {
    switch (current().kind) {
      case Kind::block_end: return "the end of the tag";
      case Kind::variable_end: return "the end of the expression";
      case Kind::end: return "the end of the template";
      case Kind::string: return "a string";
      default: return "'" + std::string(current().text.substr(0, 40)) + "'";
    }
  }
  void expect_symbol(std::string_view text) {
    if (!skip_symbol(text)) unexpected("'" + std::string(text) + "'");
  }
  const String* expect_name(const char* what) {
    if (!is(Kind::name)) unexpected(what);
    return text_of(take().text);
  }
  const String* text_of(std::string_view text) {
    const String* out = view_string(heap_, text, Source::fixed);
    is_ascii(*out);  // looked now: the tree is shared by threads later
    return out;
  }

  template <typename T>
  List<T> list_of(const std::vector<T>& items) {
    List<T> out{heap_.array<T>(items.size()), items.size()};
    std::copy(items.begin(), items.end(), out.data);
    return out;
  }

  // Counts how deep the parser stands.
  class Deeper {
   public:
    explicit Deeper(ParserBase& parser) : parser_(parser) {
      if (++parser_.depth_ > max_syntax_depth) parser_.error("more than " + std::to_string(max_syntax_depth) + " levels inside each other (max_syntax_depth)");
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;

   private:
    ParserBase& parser_;
  };

  Heap& heap_;

 private:
  const std::vector<Token>& tokens_;
  size_t at_ = 0, depth_ = 0;
};

}  // namespace vigil::text::jinja
