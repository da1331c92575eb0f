// The expressions of a template. Not here: tags (parser.cpp).
#pragma once

#include "server/text/jinja/parser_tokens.hpp"

namespace vigil::text::jinja {

class ExpressionParser : public ParserBase {
 public:
  ExpressionParser(Heap& heap, const Tokens& tokens, bool from_json) : ParserBase(heap, tokens), from_json_(from_json) {}

 protected:
  enum class Condition { allowed, none };  // whether `a if b` may stand here: not in the head of a loop
  Expression* parse_expression(Condition condition = Condition::allowed);
  // a, b, c as a tuple, or one expression alone. `stop`: a name that ends it.
  Expression* parse_tuple(Condition condition = Condition::allowed, std::string_view stop = {}, bool parentheses = false);
  Expression* parse_filters(Expression* input, bool begin_inline);
  Expression* parse_postfix(Expression* value);
  Expression* parse_primary();
  void parse_arguments(Expression& call);
  Expression* node(Expression::Kind kind, Expression* a = nullptr, Expression* b = nullptr, Expression* c = nullptr);

 private:
  Expression* parse_or();
  Expression* parse_and();
  Expression* parse_not();
  Expression* parse_compare();
  Expression* parse_sum();
  Expression* parse_concat();
  Expression* parse_product();
  Expression* parse_power();
  Expression* parse_unary(bool with_filters);
  Expression* parse_filter_chain(Expression* value);
  Expression* parse_subscript(Expression* value);
  Expression* parse_subscribed();
  Expression* parse_test(Expression* value);
  Expression* parse_list();
  Expression* parse_dict();
  Expression* parse_number();
  Expression* binary(Operator operation, Expression* left, Expression* right);
  void settle(Expression& made);  // its depth, checked
  bool tuple_ends(std::string_view stop) const;

  bool from_json_;
  size_t nodes_ = 0;
};

}  // namespace vigil::text::jinja
