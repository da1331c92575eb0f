// See parser_expressions.hpp. The order of the functions is the order of the operators' strength, weakest first.
#include "server/text/jinja/parser_expressions.hpp"

#include <charconv>
#include <cstdlib>
#include <utility>

#include "server/text/jinja/failure.hpp"
#include "server/text/jinja/functions.hpp"

namespace vigil::text::jinja {

using ExpressionKind = Expression::Kind;

Expression* ExpressionParser::node(ExpressionKind kind, Expression* a, Expression* b, Expression* c) {
  if (++nodes_ > max_syntax_nodes) error("the template has more than " + std::to_string(max_syntax_nodes) + " parts (max_syntax_nodes)");
  Expression* out = heap_.make<Expression>();
  out->kind = kind;
  out->line = current().line;
  out->a = a;
  out->b = b;
  out->c = c;
  settle(*out);
  return out;
}

void ExpressionParser::settle(Expression& made) {
  uint32_t below = 0;
  const auto look = [&below](const Expression* part) {
    if (part) below = std::max(below, part->depth);
  };
  for (const Expression* part : {made.a, made.b, made.c, made.star, made.star_star}) look(part);
  for (const Expression* part : made.items) look(part);
  for (const NamedExpression& part : made.named) look(part.value);
  made.depth = below + 1;
  if (made.depth > max_syntax_depth) error("an expression with more than " + std::to_string(max_syntax_depth) + " levels (max_syntax_depth)");
}

Expression* ExpressionParser::binary(Operator operation, Expression* left, Expression* right) {
  Expression* out = node(ExpressionKind::binary, left, right);
  out->operation = operation;
  return out;
}

Expression* ExpressionParser::parse_expression(Condition condition) {
  const Deeper deeper(*this);
  if (condition == Condition::none) return parse_or();
  Expression* value = parse_or();
  while (skip_name("if")) {
    Expression* test = parse_or();
    Expression* otherwise = skip_name("else") ? parse_expression() : nullptr;
    value = node(ExpressionKind::conditional, value, test, otherwise);
  }
  return value;
}

Expression* ExpressionParser::parse_or() {
  Expression* left = parse_and();
  while (skip_name("or")) left = node(ExpressionKind::logical_or, left, parse_and());
  return left;
}

Expression* ExpressionParser::parse_and() {
  Expression* left = parse_not();
  while (skip_name("and")) left = node(ExpressionKind::logical_and, left, parse_not());
  return left;
}

Expression* ExpressionParser::parse_not() {
  if (!is_name("not")) return parse_compare();
  const Deeper deeper(*this);
  take();
  return node(ExpressionKind::logical_not, parse_not());
}

Expression* ExpressionParser::parse_compare() {
  static constexpr std::pair<std::string_view, Operator> symbols[] = {{"==", Operator::equal}, {"!=", Operator::unequal}, {"<", Operator::less},
      {"<=", Operator::less_equal}, {">", Operator::greater}, {">=", Operator::greater_equal}};
  Expression* left = parse_sum();
  std::vector<Operator> operations;
  std::vector<Expression*> operands;
  for (;;) {
    const Operator* found = nullptr;
    static constexpr Operator in = Operator::in, not_in = Operator::not_in;
    for (const auto& [symbol, operation] : symbols) {
      if (is_symbol(symbol)) found = &operation;
    }
    if (found) {
      take();
    } else if (skip_name("in")) {
      found = &in;
    } else if (is_name("not") && ahead().kind == Kind::name && ahead().text == "in") {
      take();
      take();
      found = &not_in;
    } else {
      break;
    }
    operations.push_back(*found);
    operands.push_back(parse_sum());
  }
  if (operations.empty()) return left;
  if (operations.size() == 1) return binary(operations[0], left, operands[0]);
  Expression* out = node(ExpressionKind::compare, left);
  out->items = list_of(operands);
  out->operations = list_of(operations);
  settle(*out);
  return out;
}

Expression* ExpressionParser::parse_sum() {
  Expression* left = parse_concat();
  for (;;) {
    if (skip_symbol("+")) {
      left = binary(Operator::add, left, parse_concat());
    } else if (skip_symbol("-")) {
      left = binary(Operator::subtract, left, parse_concat());
    } else {
      return left;
    }
  }
}

Expression* ExpressionParser::parse_concat() {
  Expression* first = parse_product();
  if (!is_symbol("~")) return first;
  std::vector<Expression*> parts = {first};
  while (skip_symbol("~")) parts.push_back(parse_product());
  Expression* out = node(ExpressionKind::concat);
  out->items = list_of(parts);
  settle(*out);
  return out;
}

Expression* ExpressionParser::parse_product() {
  static constexpr std::pair<std::string_view, Operator> symbols[] = {
      {"*", Operator::multiply}, {"/", Operator::divide}, {"//", Operator::floor_divide}, {"%", Operator::modulo}};
  Expression* left = parse_power();
  for (;;) {
    const auto* found = std::find_if(std::begin(symbols), std::end(symbols), [this](const auto& entry) { return is_symbol(entry.first); });
    if (found == std::end(symbols)) return left;
    take();
    left = binary(found->second, left, parse_power());
  }
}

Expression* ExpressionParser::parse_power() {
  Expression* left = parse_unary(true);
  while (skip_symbol("**")) left = binary(Operator::power, left, parse_unary(true));
  return left;
}

Expression* ExpressionParser::parse_unary(bool with_filters) {
  Expression* value = nullptr;
  if (is_symbol("-") || is_symbol("+")) {
    const Deeper deeper(*this);
    const ExpressionKind kind = take().text == "-" ? ExpressionKind::negate : ExpressionKind::plus;
    value = node(kind, parse_unary(false));
  } else {
    value = parse_primary();
  }
  value = parse_postfix(value);
  return with_filters ? parse_filter_chain(value) : value;
}

Expression* ExpressionParser::parse_primary() {
  const Token& token = current();
  if (token.kind == Kind::name) {
    take();
    const std::string_view name = token.text;
    Expression* out = node(ExpressionKind::constant);
    out->line = token.line;
    if (name == "true" || name == "True") {
      out->value = Value::of(true);
    } else if (name == "false" || name == "False") {
      out->value = Value::of(false);
    } else if (name == "none" || name == "None") {
      out->value = Value::none();
    } else {
      out->kind = ExpressionKind::name;
      out->name = text_of(name);
    }
    return out;
  }
  if (token.kind == Kind::string) {
    Expression* out = node(ExpressionKind::constant);
    const String* text = text_of(take().text);
    while (is(Kind::string)) text = concat(heap_, *text, *text_of(take().text));  // "a" "b" is one string
    is_ascii(*text);
    out->value = Value::of(text);
    return out;
  }
  if (token.kind == Kind::integer || token.kind == Kind::real) return parse_number();
  if (skip_symbol("(")) {
    Expression* out = parse_tuple(Condition::allowed, {}, true);
    expect_symbol(")");
    return out;
  }
  if (is_symbol("[")) return parse_list();
  if (is_symbol("{")) return parse_dict();
  unexpected("an expression");
}

Expression* ExpressionParser::parse_number() {
  Expression* out = node(ExpressionKind::constant);
  const Token& token = take();
  std::string digits;
  for (const char c : token.text) {
    if (c != '_') digits += c;
  }
  if (token.kind == Kind::real) {
    out->value = Value::of(std::strtod(digits.c_str(), nullptr));
    return out;
  }
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0') {
    const char kind = static_cast<char>(digits[1] | 0x20);
    base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
  }
  const char* begin = digits.data() + (base == 10 ? 0 : 2);
  int64_t value = 0;
  if (std::from_chars(begin, digits.data() + digits.size(), value, base).ec != std::errc()) syntax_error(token.line, token.column, "the number is too large");
  out->value = Value::of(value);
  return out;
}

Expression* ExpressionParser::parse_list() {
  Expression* out = node(ExpressionKind::list);
  take();
  std::vector<Expression*> items;
  while (!is_symbol("]")) {
    if (!items.empty()) expect_symbol(",");
    if (is_symbol("]")) break;
    items.push_back(parse_expression());
  }
  take();
  out->items = list_of(items);
  settle(*out);
  return out;
}

Expression* ExpressionParser::parse_dict() {
  Expression* out = node(ExpressionKind::dict);
  take();
  std::vector<Expression*> items;
  while (!is_symbol("}")) {
    if (!items.empty()) expect_symbol(",");
    if (is_symbol("}")) break;
    items.push_back(parse_expression());
    expect_symbol(":");
    items.push_back(parse_expression());
  }
  take();
  out->items = list_of(items);
  settle(*out);
  return out;
}

bool ExpressionParser::tuple_ends(std::string_view stop) const {
  return is(Kind::variable_end) || is(Kind::block_end) || is(Kind::end) || is_symbol(")") || (!stop.empty() && is_name(stop));
}

Expression* ExpressionParser::parse_tuple(Condition condition, std::string_view stop, bool parentheses) {
  std::vector<Expression*> items;
  bool tuple = false;
  for (;;) {
    if (!items.empty() && !skip_symbol(",")) break;
    tuple = tuple || !items.empty();
    if (tuple_ends(stop)) break;
    items.push_back(parse_expression(condition));
  }
  if (items.size() == 1 && !tuple) return items[0];
  if (items.empty() && !parentheses) unexpected("an expression");
  Expression* out = node(ExpressionKind::tuple);
  out->items = list_of(items);
  settle(*out);
  return out;
}

Expression* ExpressionParser::parse_postfix(Expression* value) {
  for (;;) {
    if (is_symbol(".") || is_symbol("[")) {
      value = parse_subscript(value);
    } else if (is_symbol("(")) {
      Expression* call = node(ExpressionKind::call, value);
      parse_arguments(*call);
      value = call;
    } else {
      return value;
    }
  }
}

Expression* ExpressionParser::parse_filter_chain(Expression* value) {
  for (;;) {
    if (is_symbol("|")) {
      value = parse_filters(value, false);
    } else if (is_name("is")) {
      value = parse_test(value);
    } else if (is_symbol("(")) {
      Expression* call = node(ExpressionKind::call, value);
      parse_arguments(*call);
      value = call;
    } else {
      return value;
    }
  }
}

Expression* ExpressionParser::parse_subscript(Expression* value) {
  if (skip_symbol(".")) {
    if (is(Kind::integer)) return node(ExpressionKind::item, value, parse_number());
    Expression* out = node(ExpressionKind::attribute, value);
    out->name = expect_name("a name behind '.'");
    out->hash = hash_text(out->name->view());
    out->index = method_number(out->name->view());
    return out;
  }
  take();
  Expression* key = parse_subscribed();
  if (is_symbol(",")) {
    std::vector<Expression*> keys = {key};
    while (skip_symbol(",")) {
      if (is_symbol("]")) break;
      keys.push_back(parse_subscribed());
    }
    key = node(ExpressionKind::tuple);
    key->items = list_of(keys);
    settle(*key);
  }
  expect_symbol("]");
  if (key->kind == ExpressionKind::slice) {
    key->a = value;
    settle(*key);
    return key;
  }
  return node(ExpressionKind::item, value, key);
}

// An index, or begin:end:step with any of them missing.
Expression* ExpressionParser::parse_subscribed() {
  Expression* parts[3] = {};
  size_t part = 0;
  bool slice = false;
  for (;;) {
    if (is_symbol(":")) {
      if (part == 2) unexpected("']'");
      take();
      slice = true;
      ++part;
    } else if (is_symbol("]") || is_symbol(",")) {
      break;
    } else {
      if (parts[part]) unexpected("']'");
      parts[part] = parse_expression();
    }
  }
  if (!slice) {
    if (!parts[0]) unexpected("an index");
    return parts[0];
  }
  Expression* out = node(ExpressionKind::slice);
  out->items = list_of(std::vector<Expression*>(std::begin(parts), std::end(parts)));
  settle(*out);
  return out;
}

// `begin_inline`: the first filter stands without its bar (set x | f, filter f).
Expression* ExpressionParser::parse_filters(Expression* input, bool begin_inline) {
  while (is_symbol("|") || begin_inline) {
    if (!begin_inline) take();
    begin_inline = false;
    const Token& token = current();
    std::string name(expect_name("the name of a filter")->view());
    while (skip_symbol(".")) name += "." + std::string(expect_name("a name behind '.'")->view());
    Expression* out = node(ExpressionKind::filter, input);
    out->index = name == "from_json" && !from_json_ ? -1 : filter_number(name);
    out->name = copy_string(heap_, name, Source::fixed);
    out->line = token.line;
    out->column = token.column;
    if (is_symbol("(")) parse_arguments(*out);
    input = out;
  }
  return input;
}

Expression* ExpressionParser::parse_test(Expression* value) {
  take();
  const bool negated = skip_name("not");
  const Token& token = current();
  std::string name(expect_name("the name of a test")->view());
  while (skip_symbol(".")) name += "." + std::string(expect_name("a name behind '.'")->view());
  Expression* out = node(ExpressionKind::test, value);
  out->index = test_number(name);
  out->name = copy_string(heap_, name, Source::fixed);
  out->line = token.line;
  out->column = token.column;
  const bool operand = is(Kind::name) || is(Kind::string) || is(Kind::integer) || is(Kind::real) || is_symbol("[") || is_symbol("{");
  if (is_symbol("(")) {
    parse_arguments(*out);
  } else if (operand && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) error("tests cannot be chained with 'is'");
    out->items = list_of(std::vector<Expression*>{parse_postfix(parse_primary())});
    settle(*out);
  }
  return negated ? node(ExpressionKind::logical_not, out) : out;
}

void ExpressionParser::parse_arguments(Expression& call) {
  expect_symbol("(");
  std::vector<Expression*> items;
  std::vector<NamedExpression> named;
  bool first = true;
  while (!is_symbol(")")) {
    if (!first) {
      expect_symbol(",");
      if (is_symbol(")")) break;
    }
    first = false;
    if (skip_symbol("**")) {
      if (call.star_star) error("** stands twice");
      call.star_star = parse_expression();
    } else if (skip_symbol("*")) {
      if (call.star || call.star_star) error("* stands twice, or behind **");
      call.star = parse_expression();
    } else if (is(Kind::name) && ahead().kind == Kind::symbol && ahead().text == "=") {
      const String* name = text_of(take().text);
      take();
      if (call.star_star) error("a named argument behind **");
      named.push_back({name, parse_expression()});
    } else {
      if (!named.empty() || call.star || call.star_star) error("a positional argument behind named ones");
      items.push_back(parse_expression());
    }
  }
  take();
  call.items = list_of(items);
  call.named = list_of(named);
  settle(call);
}

}  // namespace vigil::text::jinja
