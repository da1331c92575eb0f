// See parser.hpp.
#include "server/text/jinja/parser.hpp"

#include "server/text/jinja/failure.hpp"
#include "server/text/jinja/functions.hpp"
#include "server/text/jinja/parser_expressions.hpp"

namespace vigil::text::jinja {

namespace {

using StatementKind = Statement::Kind;
using Names = std::initializer_list<std::string_view>;

class Parser : public ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  List<Statement*> parse_template() { return parse_body({}, nullptr); }

 private:
  Statement* statement(StatementKind kind) {
    Statement* out = heap_.make<Statement>();
    out->kind = kind;
    out->line = current().line;
    return out;
  }

  // Statements up to a tag of one of the names, which is left to be taken; without names, to the end of the template.
  List<Statement*> parse_body(Names ends, const Token* opener) {
    const Deeper deeper(*this);
    std::vector<Statement*> out;
    for (;;) {
      switch (current().kind) {
        case Kind::end:
          if (!opener) return list_of(out);
          syntax_error(opener->line, opener->column, "the tag '" + std::string(opener->text) + "' has no end '" + std::string(*(ends.end() - 1)) + "'");
        case Kind::data: {
          Statement* text = statement(StatementKind::text);
          text->value = Value::of(text_of(take().text));
          out.push_back(text);
          break;
        }
        case Kind::variable_begin: {
          take();
          Statement* print = statement(StatementKind::print);
          print->a = parse_tuple();
          if (!is(Kind::variable_end)) unexpected("the end of the expression");
          take();
          out.push_back(print);
          break;
        }
        default:
          take();
          for (const std::string_view end : ends) {
            if (is_name(end)) return list_of(out);
          }
          parse_tag(out, opener);
      }
    }
  }

  void end_tag() {
    if (!is(Kind::block_end)) unexpected("the end of the tag");
    take();
  }

  // The body of the tag `opener` and its end tag.
  List<Statement*> parse_to(Names end, const Token& opener) {
    end_tag();
    List<Statement*> out = parse_body(end, &opener);
    take();
    return out;
  }

  void parse_tag(std::vector<Statement*>& out, const Token* around) {
    if (!is(Kind::name)) unexpected("the name of a tag");
    const Token& tag = current();
    const std::string_view name = tag.text;
    Statement* made = nullptr;
    if (name == "for") {
      made = parse_for();
    } else if (name == "if") {
      made = parse_if();
    } else if (name == "set") {
      made = parse_set();
    } else if (name == "macro") {
      made = parse_macro();
    } else if (name == "call") {
      made = parse_call();
    } else if (name == "filter") {
      made = statement(StatementKind::filter_block);
      take();
      made->a = parse_filters(node(Expression::Kind::piped), true);
      made->body = parse_to({"endfilter"}, tag);
    } else if (name == "with") {
      made = parse_with();
    } else if (name == "generation") {
      made = statement(StatementKind::scoped);
      take();
      made->body = parse_to({"endgeneration"}, tag);
    } else if (name == "autoescape") {
      made = statement(StatementKind::scoped);
      take();
      const Expression* on = parse_expression();
      if (on->kind != Expression::Kind::constant || !on->value.is(Type::boolean) || on->value.boolean) error("prompts are never escaped: only 'autoescape false' is known");
      made->body = parse_to({"endautoescape"}, tag);
    } else if (name == "break" || name == "continue") {
      if (loops_ == 0) error("'" + std::string(name) + "' stands outside a loop");
      made = statement(name == "break" ? StatementKind::stop_loop : StatementKind::next_loop);
      take();
    } else {
      unknown_tag(name, around);
    }
    end_tag();
    out.push_back(made);
  }

  [[noreturn]] void unknown_tag(std::string_view name, const Token* around) {
    const std::string quoted = "'" + std::string(name) + "'";
    if (name == "include" || name == "import" || name == "from" || name == "extends" || name == "block") {
      error("the tag " + quoted + " needs other templates; a chat template stands alone");
    }
    if (name.starts_with("end") || name == "else" || name == "elif") {
      error("unexpected tag " + quoted + (around ? " inside '" + std::string(around->text) + "' of line " + std::to_string(around->line) : std::string()));
    }
    error("unknown tag " + quoted);
  }

  Target parse_name_target() {
    Target out;
    const Token& token = current();
    if (!is(Kind::name)) unexpected("a name to assign to");
    if (token.text == "true" || token.text == "false" || token.text == "none" || token.text == "True" || token.text == "False" || token.text == "None") {
      error("cannot assign to '" + std::string(token.text) + "'");
    }
    out.name = text_of(take().text);
    return out;
  }

  Target parse_target_part() {
    if (!skip_symbol("(")) return parse_name_target();
    const Deeper deeper(*this);
    Target out = parse_target({});
    expect_symbol(")");
    return out;
  }

  // a, or a, b, (c, d). `stop`: the name behind it.
  Target parse_target(std::string_view stop) {
    std::vector<Target> parts = {parse_target_part()};
    bool tuple = false;
    while (skip_symbol(",")) {
      tuple = true;
      if (is_symbol("=") || is_symbol(")") || is(Kind::block_end) || (!stop.empty() && is_name(stop))) break;
      parts.push_back(parse_target_part());
    }
    if (!tuple) return parts[0];
    Target out;
    out.kind = Target::Kind::tuple;
    out.parts = list_of(parts);
    return out;
  }

  Statement* parse_for() {
    Statement* out = statement(StatementKind::loop);
    const Token& tag = take();
    out->target = parse_target("in");
    if (!skip_name("in")) unexpected("'in'");
    out->a = parse_tuple(Condition::none, "recursive");
    if (skip_name("if")) out->b = parse_expression();
    out->recursive = skip_name("recursive");
    end_tag();
    ++loops_;
    out->body = parse_body({"else", "endfor"}, &tag);
    --loops_;
    if (take().text == "else") out->otherwise = parse_to({"endfor"}, tag);
    return out;
  }

  Statement* parse_if() {
    Statement* out = statement(StatementKind::branches);
    const Token& tag = take();
    std::vector<Branch> branches;
    Expression* condition = parse_tuple(Condition::none);
    for (;;) {
      end_tag();
      branches.push_back({condition, parse_body({"elif", "else", "endif"}, &tag)});
      const std::string_view name = take().text;
      if (name == "elif") {
        condition = parse_tuple(Condition::none);
        continue;
      }
      if (name == "else") branches.push_back({nullptr, parse_to({"endif"}, tag)});
      break;
    }
    out->branches = list_of(branches);
    return out;
  }

  Statement* parse_set() {
    Statement* out = statement(StatementKind::set);
    const Token& tag = take();
    if (is(Kind::name) && ahead().kind == Kind::symbol && ahead().text == ".") {
      out->target.kind = Target::Kind::attribute;
      out->target.object = parse_primary();
      take();
      out->target.name = expect_name("a name behind '.'");
    } else {
      out->target = parse_target({});
    }
    if (skip_symbol("=")) {
      out->a = parse_tuple();
      return out;
    }
    out->kind = StatementKind::set_block;
    if (is_symbol("|")) out->a = parse_filters(node(Expression::Kind::piped), false);
    out->body = parse_to({"endset"}, tag);
    return out;
  }

  // (a, b=1) of a macro or a call block.
  void parse_parameters(Routine& routine) {
    expect_symbol("(");
    std::vector<const String*> names;
    std::vector<Expression*> defaults;
    while (!is_symbol(")")) {
      if (!names.empty()) expect_symbol(",");
      names.push_back(parse_name_target().name);
      if (skip_symbol("=")) {
        defaults.push_back(parse_expression());
      } else if (!defaults.empty()) {
        error("a parameter without a default behind one with a default");
      }
    }
    take();
    routine.parameters = list_of(names);
    routine.defaults = list_of(defaults);
  }

  Statement* parse_macro() {
    Statement* out = statement(StatementKind::macro);
    const Token& tag = take();
    out->target = parse_name_target();
    out->routine = heap_.make<Routine>();
    out->routine->name = out->target.name;
    parse_parameters(*out->routine);
    out->routine->body = parse_routine_body({"endmacro"}, tag);
    return out;
  }

  Statement* parse_call() {
    Statement* out = statement(StatementKind::call_block);
    const Token& tag = take();
    out->routine = heap_.make<Routine>();
    out->routine->name = text_of("caller");
    if (is_symbol("(")) parse_parameters(*out->routine);
    out->a = parse_expression();
    if (out->a->kind != Expression::Kind::call) error("expected a call behind 'call'");
    out->routine->body = parse_routine_body({"endcall"}, tag);
    return out;
  }

  // A loop around a macro is none that break could leave from inside it.
  List<Statement*> parse_routine_body(Names end, const Token& tag) {
    const size_t loops = std::exchange(loops_, 0);
    List<Statement*> out = parse_to(end, tag);
    loops_ = loops;
    return out;
  }

  Statement* parse_with() {
    Statement* out = statement(StatementKind::with);
    const Token& tag = take();
    std::vector<Target> targets;
    std::vector<Expression*> values;
    while (!is(Kind::block_end)) {
      if (!targets.empty()) expect_symbol(",");
      targets.push_back(parse_name_target());
      expect_symbol("=");
      values.push_back(parse_expression());
    }
    out->targets = list_of(targets);
    out->values = list_of(values);
    out->body = parse_to({"endwith"}, tag);
    return out;
  }

  size_t loops_ = 0;
};

}  // namespace

List<Statement*> parse(Heap& heap, const Tokens& tokens, bool from_json) { return Parser(heap, tokens, from_json).parse_template(); }

}  // namespace vigil::text::jinja
